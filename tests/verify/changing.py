"""Changes to evidence, as `test_vectors/README.md` names them, and bundles on disk."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tools.vectors.writer import manifest_bytes, with_manifest

JOURNAL = "journal.jsonl"
COMMITMENT = re.compile(rb"[0-9a-f]{64}")


def split_bodies(journal: bytes) -> list[bytes]:
    """Commit bodies of a journal."""
    bodies: list[bytes] = []
    for line in journal.splitlines(keepends=True):
        if line.startswith(b'{"kind":"commit"') or not bodies:
            bodies.append(b"")
        bodies[-1] += line
    return bodies


def swapped(items: list[bytes], a: int, b: int) -> list[bytes]:
    items = list(items)
    items[a - 1], items[b - 1] = items[b - 1], items[a - 1]
    return items


def replaced(data: bytes, old: str, new: str) -> bytes:
    assert old.encode() in data, old
    return data.replace(old.encode(), new.encode(), 1)


def without(items: list[bytes], number: int) -> list[bytes]:
    return items[: number - 1] + items[number:]


def changed_bodies(bodies: list[bytes], change: dict[str, Any]) -> list[bytes]:
    """One change of `run_chain.json`."""
    ((kind, value),) = change.items()
    if kind == "delete_commit":
        return without(bodies, value)
    if kind == "swap_commits":
        return swapped(bodies, *value)
    if kind == "repeat_commit":
        return bodies[:value] + bodies[value - 1 :]
    if kind == "cut_bytes":
        return [*bodies[:-1], bodies[-1][:-value]]
    journal = b"".join(bodies).splitlines(keepends=True)
    if kind == "delete_line":
        return split_bodies(b"".join(without(journal, value)))
    assert kind == "replace", kind
    number, old, new = value
    journal[number - 1] = replaced(journal[number - 1], old, new)
    return split_bodies(b"".join(journal))


def changed_journal(journal: bytes, kind: str, value: Any) -> bytes:
    lines = journal.splitlines(keepends=True)
    if kind == "swap_lines":
        return b"".join(swapped(lines, *value))
    if kind == "delete_line_with":
        found = [line for line in lines if value.encode() in line]
        assert len(found) == 1, value
        return b"".join(line for line in lines if line not in found)
    return b"".join(changed_bodies(split_bodies(journal), {kind: value}))


def changed_files(files: dict[str, bytes], changes: list[dict[str, Any]]) -> dict[str, bytes]:
    """Changes of `mutations.json`, in order."""
    files = dict(files)
    for change in changes:
        ((kind, value),) = change.items()
        if kind == "replace":
            files[value[0]] = replaced(files[value[0]], value[1], value[2])
        elif kind == "flip_byte":
            name, offset = value
            flipped = bytearray(files[name])
            flipped[offset] ^= 1
            files[name] = bytes(flipped)
        elif kind == "delete_file":
            del files[value]
        elif kind == "write_file":
            files[value[0]] = bytes.fromhex(value[1])
        elif kind == "replace_digest":
            manifest = json.loads(files["manifest.json"])
            manifest["files"][value[0]] = value[1]
            files["manifest.json"] = manifest_bytes(manifest)
        elif kind == "prune_payloads":
            named = {match.decode() for match in COMMITMENT.findall(files[JOURNAL])}
            files = {n: d for n, d in files.items() if "/" not in n or n.partition("/")[2] in named}
        else:
            files[JOURNAL] = changed_journal(files[JOURNAL], kind, value)
    return files


def remade(files: dict[str, bytes]) -> dict[str, bytes]:
    """With a manifest that fits again."""
    old = json.loads(files["manifest.json"])
    return with_manifest(files, old["run_id"], old["payloads"])


def read_folder(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def write_folder(folder: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder
