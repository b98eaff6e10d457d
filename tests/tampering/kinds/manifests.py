"""The manifest itself, and what it may not say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from tools.vectors.pieces import uid
from tools.vectors.writer import manifest_bytes

from tests.tampering.forging import remade
from tests.tampering.kinds.kind import Change, Files, Kind, both, drop, edit, swap

NAME = "manifest.json"


def said(change: Callable[[dict[str, Any]], object]) -> Change:
    """Another manifest, whose digest fits it."""

    def changed(files: Files) -> Files:
        manifest = msgspec.json.decode(files[NAME])
        change(manifest)
        return {**files, NAME: manifest_bytes(manifest)}

    return changed


def renamed(old: str, new: str) -> Change:
    return said(lambda manifest: manifest["files"].update({new: manifest["files"].pop(old)}))


def unnamed(name: str) -> Change:
    return said(lambda manifest: manifest["files"].pop(name))


def digest_of(name: str) -> Change:
    return said(lambda manifest: manifest["files"].update({name: "0" * 64}))


def kinds() -> Iterator[Kind]:
    yield Kind("the manifest taken away", "plan", drop(NAME))
    yield Kind("the manifest emptied", "plan", edit(NAME, lambda _: b""))
    yield Kind("the manifest replaced by garbage", "plan", edit(NAME, lambda _: b"\xff"))
    yield Kind("the manifest without its newline", "plan", edit(NAME, lambda data: data[:-1]))
    yield Kind("the manifest not canonical", "plan", edit(NAME, lambda data: data.replace(b":", b": ", 1)))
    yield Kind("the manifest's digest", "plan", edit(NAME, lambda data: swap(data, '"digest":"', '"digest":"0')))
    yield Kind(
        "the version in the manifest, its digest as it was",
        "plan",
        edit(NAME, lambda data: swap(data, '_version":"0', '_version":"9')),
    )
    yield Kind("the manifest of another run", "plan", said(lambda manifest: manifest.update(run_id=uid(0x77))))
    yield Kind("the manifest with a key more", "plan", said(lambda manifest: manifest.update(more=1)))
    yield Kind("the manifest of a version to come", "plan", said(lambda m: m.update(schema="reenact.bundle.v3")))
    yield Kind(
        "a bundle of payloads that calls itself packed", "plan", said(lambda m: m.update(schema="reenact.bundle.v2"))
    )
    yield Kind(
        "packed payloads in a bundle that calls itself the first version",
        "packed",
        said(lambda m: m.update(schema="reenact.bundle.v1")),
    )
    yield Kind("payloads that are said to be left out", "plan", said(lambda m: m.update(payloads="none")))
    yield Kind("payloads that are said to be there", "withheld", said(lambda m: m.update(payloads="full")))
    yield Kind("a manifest that names no journal", "plan", unnamed("journal.jsonl"))
    yield Kind("an open run of which nothing is there but a manifest", "open", lambda f: remade({NAME: f[NAME]}))
    yield Kind("a file that the manifest no longer names", "plan", unnamed("seal.note"))
    yield Kind("a payload that the manifest no longer names", "plan", said(_forget_a_payload))
    yield Kind("a name that leads out of the bundle", "plan", renamed("plan.json", "../plan.json"))
    yield Kind("a name that no bundle has", "plan", renamed("plan.json", "plan.txt"))
    yield Kind("packed payloads numbered with a gap", "packed", both(_moved, renamed("payloads.jsonl.gz", SECOND)))
    for name in ("journal.jsonl", "keys.json", "notes.jsonl", "seal.note", "REPLAY.jsonl", "seal.tlog-proof"):
        yield Kind(f"another digest of {name} in the manifest", "plan", digest_of(name))
    yield Kind("another digest of packed payloads in the manifest", "packed", digest_of("payloads.jsonl.gz"))
    yield Kind("another digest of a payload in the manifest", "plan", said(_digest_of_payload))


SECOND = "payloads-2.jsonl.gz"


def _moved(files: Files) -> Files:
    return {(SECOND if name == "payloads.jsonl.gz" else name): data for name, data in files.items()}


def _forget_a_payload(manifest: dict[str, Any]) -> None:
    del manifest["files"][next(name for name in sorted(manifest["files"]) if name.startswith("payloads/"))]


def _digest_of_payload(manifest: dict[str, Any]) -> None:
    name = next(name for name in sorted(manifest["files"]) if name.startswith("payloads/"))
    manifest["files"][name] = "0" * 64
