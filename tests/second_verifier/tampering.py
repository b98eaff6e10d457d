"""Single changes to a bundle, each named and made from a seed: of bytes, of lines, of values, of files.

A change stands alone, or with a manifest that fits it, or with every digest behind it computed anew up to the seal:
what somebody does who knows the format and has no key.
"""

from __future__ import annotations

import gzip
import random
import re
import zlib
from base64 import b64decode
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any

from tools.vectors.pieces import plan_hash, tree_root
from tools.vectors.writer import manifest_bytes

from reenact.values.canonical import canonicalize, read_back
from reenact.values.digest import ZERO_DIGEST, digest
from reenact.verify.files.packed import packed_line
from tests.attacks.forgeries import leaves, other_value
from tests.second_verifier.bundles import Files
from tests.verify.changing import split_bodies

JOURNAL, PACKED = "journal.jsonl", "payloads.jsonl.gz"
HEX = re.compile(r"[0-9a-f]{64}")
DIGESTS = {"attempt": "digest", "vote": "digest", "run_checkpoint": "digest", "checkpoint": "checkpoint_digest"}
ODD: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1.5,
    1e16,
    2**53 - 1,
    "",
    "x",
    "é\U0001f510",
    "0" * 64,
    [],
    {},
    [[]],
    {"a": 1},
)


# -- bytes and lines ---------------------------------------------------------------------------------------------------


def flip(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]


def delete_byte(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data))
    return data[:at] + data[at + 1 :]


def insert_byte(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data) + 1)
    return data[:at] + chance.choice((b" ", b"\n", b"\0", b"0", b'"', b"\xff", b"{", b"\r")) + data[at:]


def truncate(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data))]


def lines_changed(data: bytes, chance: random.Random, how: str) -> bytes:
    lines = data.splitlines(keepends=True)
    a, b = chance.randrange(len(lines)), chance.randrange(len(lines))
    if how == "delete":
        del lines[a]
    elif how == "duplicate":
        lines.insert(b, lines[a])
    elif how == "swap":
        lines[a], lines[b] = lines[b], lines[a]
    elif how == "move":
        lines.insert(b, lines.pop(a))
    elif how == "cut":
        del lines[a:]
    else:
        bodies = split_bodies(data)
        one, other = chance.randrange(len(bodies)), chance.randrange(len(bodies))
        if how == "delete commit":
            del bodies[one]
        elif how == "swap commits":
            bodies[one], bodies[other] = bodies[other], bodies[one]
        elif how == "roll back":
            del bodies[one + 1 :]
        else:
            bodies.insert(other, bodies[one])
        return b"".join(bodies)
    return b"".join(lines)


OF_BYTES: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "flip a bit": flip,
    "delete a byte": delete_byte,
    "insert a byte": insert_byte,
    "truncate": truncate,
    "empty": lambda _data, _chance: b"",
    "crlf": lambda data, _chance: data.replace(b"\n", b"\r\n"),
    "byte order mark": lambda data, _chance: b"\xef\xbb\xbf" + data,
    "space before": lambda data, _chance: b" " + data,
    "deep": lambda data, chance: b"[" * chance.choice((256, 257, 100_000)) + data,
}
OF_LINES = ("delete", "duplicate", "swap", "move", "cut", "delete commit", "swap commits", "roll back", "repeat commit")


# -- values ------------------------------------------------------------------------------------------------------------


def change_value(value: Any, chance: random.Random) -> str | None:
    """Change one place in a parsed value; what was done, None where nothing can be."""
    places = list(leaves(value))
    if not places:
        return None
    place, container, key = chance.choice(places)
    how = chance.choice((*["another"] * 4, "odd", "drop", "add"))
    if how == "another":
        container[key] = other_value(container[key], chance)
    elif how == "odd":
        container[key] = chance.choice(ODD)
    elif how == "drop":
        del container[key]
    elif isinstance(container, dict):
        container["zz"] = chance.choice(ODD)
    else:
        container.append(chance.choice(ODD))
    return f"{how}{re.sub('[0-9a-f]{16,}', '…', place)}"


def parsed(data: bytes) -> Any:
    return read_back(data.removesuffix(b"\n"))


def change_line(files: Files, name: str, chance: random.Random) -> str | None:
    lines = files[name].splitlines(keepends=True)
    at = chance.randrange(len(lines))
    value = parsed(lines[at])
    what = change_value(value, chance)
    lines[at] = canonicalize(value) + b"\n"
    files[name] = b"".join(lines)
    return what


def change_payload(files: Files, chance: random.Random) -> str | None:
    name = chance.choice(sorted(name for name in files if name.startswith("payloads/")))
    value = parsed(files[name][32:])
    what = change_value(value, chance)
    files[name] = files[name][:32] + canonicalize(value)
    return what


# -- the manifest, and packed payloads ---------------------------------------------------------------------------------


def unpacked(files: Files) -> Files:
    """With a file for each payload, however they lie there."""
    found = {name: data for name, data in files.items() if name != PACKED}
    for line in gzip.decompress(files[PACKED]).splitlines() if PACKED in files else ():
        payload = parsed(line)
        found[f"payloads/{payload['commitment']}"] = b64decode(payload["envelope"])
    return found


def packed(files: Files) -> Files:
    """As a bundle of the second version has them."""
    names = sorted(name for name in files if name.startswith("payloads/"))
    lines = b"".join(packed_line(name.partition("/")[2], files[name]) for name in names)
    rest = {name: data for name, data in files.items() if name not in names}
    return {**rest, PACKED: gzip.compress(lines, mtime=0)} if names else rest


def fitted(files: Files, manifest: bytes) -> Files:
    """With a manifest that names these files and no others."""
    record = parsed(manifest)
    inner = [name for name in files if name.startswith("parents/") and not name.endswith("/manifest.json")]
    record["files"] = {
        name: sha256(content(name, data)).hexdigest()
        for name, data in files.items()
        if name != "manifest.json" and name not in inner
    }
    return {**files, "manifest.json": manifest_bytes(record)}


def content(name: str, data: bytes) -> bytes:
    """What its digest covers."""
    try:
        return gzip.decompress(data) if name.endswith(".gz") else data
    except (OSError, EOFError, zlib.error):
        return data


# -- all digests behind a change ---------------------------------------------------------------------------------------


class Rehash:
    """Computes anew what follows from a change: commitments, digests, links, chains, roots, the seal, the copies."""

    def __init__(self, before: Files, files: Files) -> None:
        self.files = files
        self.new: dict[str, str] = {}
        self.heads: dict[str, tuple[int, bytes]] = {}
        self.attempts: list[bytes] = []
        for name in [name for name in files if name.startswith("payloads/")]:
            self._payload(name, before)

    def _payload(self, name: str, before: Files) -> None:
        data, old = self.files[name], name.partition("/")[2]
        fits = sha256(data).hexdigest()
        if fits == old:
            return
        del self.files[name]
        self.files[f"payloads/{fits}"], self.new[old] = data, fits
        was, now = parsed(before[name][32:]), parsed(data[32:])
        if isinstance(was, dict) and isinstance(now, dict) and "steps" in was:
            self.new[plan_hash(was)[7:]] = plan_hash(now)[7:]
            if before.get("plan.json") == canonicalize(was) + b"\n":
                self.files["plan.json"] = canonicalize(now) + b"\n"

    def renamed(self, text: str) -> str:
        return HEX.sub(lambda found: self.new.get(found[0], found[0]), text)

    def own(self, record: dict[str, Any], field: str) -> None:
        """The record's own digest, and what it replaces."""
        if isinstance(record.get(field), str):
            fits = digest({key: value for key, value in record.items() if key != field})
            self.new[record[field]] = record[field] = fits

    def run(self) -> Files:
        bodies: list[bytes] = []
        for body in split_bodies(self.files[JOURNAL]):
            written = b""
            for raw in body.splitlines():
                line = parsed(self.renamed(raw.decode()).encode())
                if line.get("kind") == "commit":
                    line["prev"] = sha256(bodies[-1]).hexdigest() if bodies else ZERO_DIGEST
                else:
                    self._line(line, written, len(bodies) + 1)
                written += canonicalize(line) + b"\n"
            bodies.append(written)
        self.files[JOURNAL] = b"".join(bodies)
        return self.files

    def _line(self, line: dict[str, Any], before: bytes, number: int) -> None:
        kind = str(line.get("kind"))
        record = line.get(kind)
        if not isinstance(record, dict):
            return
        if kind == "entry" and isinstance(line.get("artifact"), dict):
            self.own(line["artifact"], "_digest")
            record["artifact_digest"] = line["artifact"].get("_digest")
            self.own(record, "entry_digest")
            trace, index = record.get("trace_id"), len(self.heads)
            leaf = {"head": record.get("entry_digest"), "state": record.get("to_state"), "trace_id": trace}
            index = self.heads[str(trace)][0] if str(trace) in self.heads else index
            self.heads[str(trace)] = (index, canonicalize({**leaf, "step_index": index}))
        elif kind == "checkpoint":
            record["checkpoint_digest"] = digest(record.get("checkpoint_state"))
        elif kind == "seal":
            self._seal(record, before, number)
        elif kind in DIGESTS:
            self.own(record, DIGESTS[kind])
        if kind == "attempt":
            keys = ("digest", "ordinal", "trace_id")
            self.attempts.append(canonicalize({key: record.get(key) for key in keys}))

    def _seal(self, record: dict[str, Any], before: bytes, number: int) -> None:
        record |= {
            "run_head": sha256(before).hexdigest(),
            "root": tree_root([leaf for _, leaf in sorted(self.heads.values())]),
            "attempts_root": tree_root(self.attempts),
            "commits": number,
        }
        self.own(record, "seal_digest")
        self.files["seal.json"] = canonicalize(record) + b"\n"


# -- the tamperings ----------------------------------------------------------------------------------------------------


def of_files(files: Files, others: Files, chance: random.Random) -> str:
    """Whole files: gone, added, exchanged, from another run."""
    name = chance.choice(sorted(files))
    how = chance.choice(("delete", "add", "exchange", "mix", "null"))
    if how == "delete":
        del files[name]
    elif how == "add":
        name = chance.choice(("notes.txt", ".DS_Store", "payloads/" + "a" * 64, "parents/x", "REPLAY.jsonl", "x/y"))
        files[name] = b"{}\n"
    elif how == "exchange":
        other = chance.choice(sorted(files))
        files[name], files[other] = files[other], files[name]
    elif how == "mix" and name in others:
        files[name] = others[name]
    else:
        how, files[name] = "null", b"null\n"
    return f"{how} {HEX.sub('…', name)}"


def tampered(bundle: Files, others: Files, chance: random.Random) -> tuple[str, Files]:
    """(what was done, the files)"""
    is_packed = b'"reenact.bundle.v2"' in bundle["manifest.json"]
    if is_packed and chance.random() < 0.1:
        how = chance.choice(sorted(OF_BYTES))
        changed = {**bundle, PACKED: OF_BYTES[how](bundle[PACKED], chance)} if PACKED in bundle else bundle
        return f"{how} in {PACKED}", fitted(changed, bundle["manifest.json"]) if chance.random() < 0.5 else changed
    bundle = unpacked(bundle)
    files, cover = dict(bundle), chance.choice(("", "manifest", *["rehash"] * 4))
    what: str | None = None
    kind = chance.choice(("bytes", "lines", "values", "values", "values", "payload", "files"))
    inner = sorted(name for name in files if name.startswith("parents/") and name.endswith((".json", ".jsonl")))
    texts = sorted(name for name in files if name.endswith((".json", ".jsonl")) and "/" not in name) + inner
    if kind == "bytes":
        name = chance.choice([*texts, *sorted(files), *sorted(name for name in files if name.startswith("seal."))])
        how = chance.choice(sorted(OF_BYTES))
        what, cover = f"{how} in {HEX.sub('…', name)}", chance.choice(("", "manifest"))
        files[name] = OF_BYTES[how](files[name], chance)
    elif kind == "lines":
        name = chance.choice([JOURNAL] * 4 + [name for name in texts if name.endswith("l")])
        how = chance.choice(OF_LINES)
        what, files[name] = f"{how} in {name}", lines_changed(files[name], chance, how)
    elif kind == "payload" and any(name.startswith("payloads/") for name in files):
        what = f"{change_payload(files, chance)} in a payload"
    elif kind == "files":
        what, cover = of_files(files, others, chance), chance.choice(("", "manifest"))
    else:
        name = chance.choice([JOURNAL] * 8 + texts)
        what = f"{change_line(files, name, chance)} in {name}"
    if cover == "rehash":
        files = Rehash(bundle, files).run()
    if is_packed:
        files = packed(files)
    if cover and "manifest.json" in files:
        files = fitted(files, bundle["manifest.json"])
    return f"{what} ({cover or 'alone'})", files


def corpus(bundles: dict[str, Files], seed: int, count: int) -> Iterator[tuple[str, Files]]:
    """`count` tamperings, of all bundles in turn."""
    names = sorted(bundles)
    for number in range(count):
        chance = random.Random(f"{seed}/{number}")
        name = names[number % len(names)]
        others, files, what = bundles[chance.choice(names)], bundles[name], ""
        while files == bundles[name]:
            what, files = tampered(bundles[name], others, chance)
        yield f"{seed}/{number} {name}: {what}", files
