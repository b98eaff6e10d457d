"""A small repository of reports to verify, on disk and in git, and the command line run in it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from reenact.cli.main import main
from reenact.provenance.hashing import hash_raw, hash_structured

VECTORS = Path(__file__).resolve().parents[1] / "vectors"
TOKEN = "id: swiss\npalette: [black, white]\n"
BRIEF = "title: Hello\nbody: world\n"
PACKAGE = '{"name":"@adastracomputing/ahd","version":"0.11.0"}\n'


def fields(**changes: Any) -> dict[str, Any]:
    """The fields of a sidecar for TOKEN and BRIEF."""
    return {
        "schema_version": 1,
        "kind": "eval-live",
        "ahd_version": "0.11.0",
        "ahd_commit": None,
        "git_dirty": None,
        "node_version": "v20.0.0",
        "platform": "linux-x64",
        "invoked_at": "2026-04-27T05:00:00.000Z",
        "argv": [],
        "token": {"path": "tokens/t.yml", "hash": hash_structured(TOKEN)},
        "brief": {"path": "briefs/b.yml", "hash": hash_structured(BRIEF)},
        "sampling": {"n": 1, "temperature": None, "seed": None},
        "models": [],
        "conditions": {"requested": [], "effective": []},
        **changes,
    }


def raw(path: str, content: str | bytes) -> dict[str, str]:
    return {"path": path, "hash": hash_raw(content if isinstance(content, bytes) else content.encode())}


class Repository:
    """Files below a folder. It starts with a token, a brief, a manifest and the report docs/r.md."""

    def __init__(self, folder: Path) -> None:
        self.root = Path(os.path.realpath(folder))
        self.write("package.json", PACKAGE)
        self.write("tokens/t.yml", TOKEN)
        self.write("briefs/b.yml", BRIEF)
        self.write("docs/r.md", "# r\n")

    def write(self, name: str, content: str | bytes) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
        return path

    def sidecar(self, name: str = "docs/r.replay.json", **changes: Any) -> Path:
        return self.write(name, json.dumps(fields(**changes)))

    def git(self, *arguments: str) -> str:
        settings = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "core.autocrlf=false")
        done = subprocess.run(["git", *settings, *arguments], cwd=self.root, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def commit(self, subject: str = "one") -> str:
        if not (self.root / ".git").exists():
            self.git("init", "-q")
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", subject)
        return self.git("rev-parse", "HEAD")

    def recorded(self, **changes: Any) -> str:
        """Commit everything, and record the clean commit in the sidecar of docs/r.md."""
        commit = self.commit()
        self.sidecar(ahd_commit=commit, git_dirty=False, **changes)
        return commit

    def reenact(self, *arguments: str, cwd: str = ".", **options: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "reenact", *arguments],
            cwd=self.root / cwd,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=60,
            check=False,
            **options,
        )

    def call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """`reenact` in this process: for tests that ask the same of many inputs."""
        streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2)]
        code: Any = 0
        with (
            contextlib.chdir(self.root),
            contextlib.redirect_stdout(streams[0]),
            contextlib.redirect_stderr(streams[1]),
        ):
            try:
                main(list(arguments))
            except SystemExit as exit_:
                code = exit_.code or 0
        texts = [stream.buffer.getvalue().decode() for stream in streams]  # type: ignore[attr-defined]
        return subprocess.CompletedProcess(arguments, code, *texts)

    def verify(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.reenact("verify-replay", *(arguments or ("docs/r.md",)))

    def verified(self, *arguments: str) -> dict[str, Any]:
        """The first report of the JSON document, with its checks by field."""
        done = self.call("verify-replay", "--json", *(arguments or ("docs/r.md",)))
        document = json.loads(done.stdout)
        assert document["exit_code"] == done.returncode
        report: dict[str, Any] = document["reports"][0]
        return report | {"checks": {check["field"]: check for check in report["checks"]}, "exit": done.returncode}
