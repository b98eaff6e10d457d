"""Packed payloads: written the same from the same values, found one by one in bounded memory, bombs refused."""

from __future__ import annotations

import gzip
import tracemalloc
from functools import partial
from io import BytesIO
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tools.vectors.bundle_vectors import stored

from reenact.record.packing import PackedFiles
from reenact.values.digest import sha256_hex
from reenact.verify.files import packed
from reenact.verify.files.inflate import Damaged, Inflated
from reenact.verify.files.packed import PackedPayloads, packed_line
from reenact.verify.folder import Folder
from reenact.verify.report import Findings


def written(folder: Path, envelopes: list[bytes]) -> tuple[list[str], PackedFiles]:
    folder.mkdir(exist_ok=True)
    with PackedFiles(folder) as files:
        for name, data in sorted((sha256_hex(data), data) for data in envelopes):
            files.add(name, data)
    return sorted(files.digests, key=len), files


def read(folder: Path, names: list[str]) -> tuple[PackedPayloads, Findings]:
    findings = Findings()
    return PackedPayloads(Folder.at(folder), names, findings), findings


def test_the_end_is_found_wherever_the_last_read_ends() -> None:
    for size in range(65_500, 65_600):
        data = bytes(size)
        raw = gzip.compress(data, mtime=0)
        stream = Inflated(BytesIO(raw), 10, len(raw) - 10, size)
        assert sum(len(part) for part in iter(partial(stream.read, 8192), b"")) == size
        assert raw[10 + stream.used :] == raw[-8:]


@settings(max_examples=30)
@given(st.sets(st.binary(max_size=300), max_size=20), st.integers(200, 2000))
def test_what_was_packed_is_found_whatever_the_size_of_the_files(
    tmp_path_factory: pytest.TempPathFactory, values: set[bytes], room: int
) -> None:
    folder = tmp_path_factory.mktemp("packed")
    with pytest.MonkeyPatch.context() as patch:
        for module in ("reenact.record.packing", "reenact.verify.files.packed"):
            patch.setattr(f"{module}.MAX_LINES_BYTES", room)
        patch.setattr(packed, "_KEPT_BYTES", 500)
        names, files = written(folder, list(values))
        payloads, findings = read(folder, names)
    assert findings.total == 0
    assert payloads.digests == files.digests
    for value in values:
        assert payloads.get(sha256_hex(value)) == value
    assert payloads.get(sha256_hex(b"another")) is None
    whole = b"".join(gzip.decompress((folder / name).read_bytes()) for name in names)
    assert whole == b"".join(packed_line(name, data) for name, data in sorted((sha256_hex(v), v) for v in values))


def test_the_same_values_are_the_same_files(tmp_path: Path) -> None:
    values = [Random(n).randbytes(3000) for n in range(20)]
    (name,), _ = written(tmp_path / "a", values)
    written(tmp_path / "b", values[::-1])
    assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert (tmp_path / "a" / name).read_bytes()[:10].hex() == "1f8b08000000000000ff"


@settings(max_examples=50)
@given(st.binary(max_size=5000), st.lists(st.tuples(st.integers(0, 6000), st.integers(1, 400)), max_size=12))
def test_bytes_are_found_in_whatever_order_they_are_asked_for(data: bytes, places: list[tuple[int, int]]) -> None:
    raw = stored(data)[10:-8] if len(data) % 2 else gzip.compress(data)[10:-8]
    stream = Inflated(BytesIO(raw), 0, len(raw), len(data), 64)
    for at, size in places:
        stream.seek(at)
        found = b""
        while len(found) < size and (more := stream.read(size - len(found))):
            found += more
        assert found == data[at : at + size]


def test_large_payloads_are_read_in_bounded_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("reenact.record.packing", "reenact.verify.files.packed"):
        monkeypatch.setattr(f"{module}.MAX_LINES_BYTES", 8 << 20)
    monkeypatch.setattr(packed, "_KEPT_BYTES", 2 << 20)
    values = [Random(n).randbytes(1 << 19) for n in range(22)]  # 15 MB of lines
    names, _ = written(tmp_path / "large", values)
    assert names == ["payloads.jsonl.gz", "payloads-2.jsonl.gz"]
    wanted = [(sha256_hex(value), value[-9:]) for value in values[::5]]
    del values
    tracemalloc.start()
    payloads, findings = read(tmp_path / "large", names)
    for name, end in wanted:
        envelope = payloads.get(name)
        assert envelope is not None
        assert envelope.endswith(end)
    assert tracemalloc.get_traced_memory()[1] < 8 << 20
    tracemalloc.stop()
    assert findings.total == 0


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    """At what one line may have: that it cannot be unpacked counts more than what its lines look like."""
    begun = packed_line("0" * 64, b"")[:-3]
    for lines, code in (
        (bytes(1 << 28), "FILE_TOO_LARGE"),
        (begun + b"A" * (1 << 27), "FILE_TOO_LARGE"),
        (b"x", "FILE_MALFORMED"),
    ):
        (tmp_path / "payloads.jsonl.gz").write_bytes(gzip.compress(lines, 1, mtime=0))
        _, findings = read(tmp_path, ["payloads.jsonl.gz"])
        assert [finding.code for finding in findings.kept] == [code]


def test_what_cannot_be_unpacked_is_told() -> None:
    raw = gzip.compress(Random(1).randbytes(60_000).hex().encode())[10:-8]
    for bad in (raw[:-100], b"\xff" * 100):
        with pytest.raises(Damaged):
            Inflated(BytesIO(bad), 0, len(bad), 1 << 20).readall()
