"""Anchors that everybody has: a file or a git repository elsewhere that checkpoints are added to, a time stamp."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

from reenact.errors import StoreUnavailable, UsageError
from reenact.runtime import crash_points
from reenact.runtime.crash_points import reach
from reenact.store.log.log import Log
from reenact.store.log.rows import Peer, SignedHead
from reenact.store.private_file import sync_folder
from reenact.verify.log.checkpoint import is_whole, read_checkpoint, split_notes
from reenact.witness.client import Reply, check_url
from reenact.witness.contradictions import refuse_other_head
from reenact.witness.stamping import stamp

KINDS: Final = ("file:", "git:", "tsa:")
MAX_ANCHOR_BYTES: Final = 1 << 26
GIT_LIMIT_S: Final = 60
LOCKED: Final = re.compile(r"\.lock'?: File exists")
SAFE: Final = re.compile(r"[^A-Za-z0-9_.-]")


def check_place(place: str) -> str:
    """The place as it is kept; UsageError where it is none."""
    kind = next((kind for kind in KINDS if place.startswith(kind)), None)
    rest = place.removeprefix(kind or "")
    if kind is None or not rest or not rest.isprintable():
        raise UsageError("an anchor is file:PATH, git:PATH of a work tree, or tsa:URL of an RFC 3161 responder")
    if kind == "tsa:":
        return kind + check_url(rest)
    path = Path(rest).absolute()
    if kind == "git:" and not (path / ".git").exists():
        raise UsageError(f"{path} is no work tree of git; clone one there, or `git init` it")
    return f"{kind}{path}"


def write_anchor(log: Log, peer: Peer, newest: SignedHead, ask: Callable[..., Reply]) -> tuple[str, int]:
    """(what came of it, the size that it has now)"""
    kind, _, place = peer.url.partition(":")
    if kind == "tsa":
        return stamp(log, peer.url, place, newest, ask)
    if kind == "git":
        return to_git(log, Path(place), newest)
    return add_checkpoint(log, Path(place), newest), newest.size


def add_checkpoint(log: Log, path: Path, newest: SignedHead) -> str:
    """The head behind those that the file has: heads of this log, and of others that go to the same file."""
    try:
        data = path.read_bytes() if path.exists() else b""
    except OSError as error:
        raise StoreUnavailable(f"{path}: {error.strerror}") from None
    if len(data) > MAX_ANCHOR_BYTES:
        raise StoreUnavailable(f"{path} has more than {MAX_ANCHOR_BYTES} bytes; name another file")
    notes = split_notes(data)
    if notes and not is_whole(notes[-1]):
        shorten(path, len(data) - len(notes.pop()))  # a crash tore it, and nobody was told that it was kept
    for note in notes[-16:]:
        read_checkpoint(note)  # where these are none it is another file
    mine = [note for note in notes if note.startswith(f"{log.origin}\n".encode())][-16:]
    for note in mine:
        refuse_other_head(log, str(path), note)
    if mine and read_checkpoint(mine[-1]).head == log.head(newest):
        return "has it"
    append(path, log.note(newest))
    reach("after_anchor")
    return "kept"


def shorten(path: Path, size: int) -> None:
    try:
        os.truncate(path, size)
    except OSError as error:
        raise StoreUnavailable(f"{path}: {error.strerror}") from None


def append(path: Path, data: bytes) -> None:
    """Durable when it returns."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            if crash_points.armed is not None:
                data = data[os.write(handle, data[: len(data) // 2]) :]
                reach("in_anchor")
            while data:
                data = data[os.write(handle, data) :]
            os.fsync(handle)
        finally:
            os.close(handle)
        sync_folder(path.parent)
    except OSError as error:
        raise StoreUnavailable(f"{path}: {error.strerror}") from None


def to_git(log: Log, tree: Path, newest: SignedHead) -> tuple[str, int]:
    """A commit with the head added to the log's own file; pushed where the branch has a remote."""
    name = f"{SAFE.sub('_', log.origin)}.checkpoints"
    done = add_checkpoint(log, tree / name, newest)
    git(tree, "add", "--", name)
    reach("before_anchor_commit")
    if git(tree, "status", "--porcelain", "--", name):
        git(tree, "commit", "--quiet", "--no-verify", "-m", f"{log.origin}: size {newest.size}", "--", name)
    if git(tree, "for-each-ref", "--format=%(upstream)", git(tree, "symbolic-ref", "HEAD")):
        reach("before_anchor_push")
        git(tree, "push", "--quiet")
        reach("after_anchor_push")
    return done, newest.size


def git(tree: Path, *words: str) -> str:
    """What git prints; its hooks are not run, and it asks nobody for a password."""
    own = ["-c", "core.hooksPath=/dev/null", "-c", "commit.gpgSign=false"]
    named = ["-c", "user.name=reenact", "-c", "user.email=reenact@localhost"] if "commit" in words else []
    try:
        done = subprocess.run(  # noqa: S603 - the store's owner names the work tree
            ["git", "-C", str(tree), *own, *named, *words],  # noqa: S607
            env={**os.environ, "GIT_TERMINAL_PROMPT": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=GIT_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StoreUnavailable(f"git {words[0]} in {tree}: {error}") from None
    if done.returncode:
        raise StoreUnavailable(f"git {words[0]} in {tree}: {why(done.stderr, done.returncode)}")
    return done.stdout.decode("utf-8", "replace").strip()


def why(told: bytes, code: int) -> str:
    """What git says of a failure, without its advice."""
    lines = told.decode("utf-8", "replace").strip().splitlines() or [f"exit code {code}"]
    said = next((line for line in lines if line.startswith(("fatal: ", "error: "))), lines[-1])
    if LOCKED.search(said):
        said += "; a git that was killed left it there: remove it when no other one is at work"
    return said
