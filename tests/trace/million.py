"""The long form: a million events read, summed and verified against their receipt, in bounded memory.

`python -m tests.trace.million [EVENTS]` prints the seconds and the most memory that it took; `make torture` runs it.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from hashlib import sha256
from pathlib import Path

from reenact.trace import ReplayReader, SessionReceipt, verify_replay
from reenact.values.canonical import canonicalize
from tests.trace.samples import call_pair, receipt_of, session, text_of

MOST_KILOBYTES = 150_000


def write(folder: Path, events: int) -> None:
    """Blocks of calls, with a receipt that fits; both are written piece by piece."""
    log, receipt = folder / "REPLAY.jsonl", folder / "RECEIPT.json"
    shell = receipt_of(session(0)).members()
    del shell["tool_calls"], shell["replay_hash"]
    digest = sha256()
    head = text_of(session(0)[:3])
    with log.open("wb") as lines, receipt.open("wb") as calls:
        calls.write(b'{"tool_calls":[')
        lines.write(head)
        digest.update(head)
        for number in range((events - 3) // 2):
            pair = call_pair(number)
            data = text_of(pair)
            lines.write(data)
            digest.update(data)
            item = receipt_of(pair).tool_calls[0].members()
            calls.write((b"," if number else b"") + canonicalize(item))
        rest = canonicalize({**shell, "replay_hash": "sha256:" + digest.hexdigest()})
        calls.write(b"]," + rest[1:])


def read(folder: Path) -> None:
    began = time.monotonic()
    told = 0

    def progress(done: int, total: int) -> None:
        nonlocal told
        if done * 10 // max(total, 1) > told:
            told = done * 10 // total
            print(f"  {told * 10} %", flush=True)

    reader = ReplayReader.from_file(folder / "REPLAY.jsonl")
    summary = reader.summary(progress)
    print(f"summed {summary.events:,} events in {time.monotonic() - began:.1f} s")
    receipt = SessionReceipt.from_file(folder / "RECEIPT.json")
    told = 0
    result = verify_replay(reader, receipt, progress=progress)
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"verified {result.calls:,} calls in {time.monotonic() - began:.1f} s in all, {used // 1000} MB at most")
    assert result.success, result.mismatches[:3]
    assert used < MOST_KILOBYTES


if __name__ == "__main__":
    if sys.argv[1:2] == ["--read"]:
        read(Path(sys.argv[2]))
    else:
        with tempfile.TemporaryDirectory() as place:
            write(Path(place), int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_001)
            command = [sys.executable, "-m", "tests.trace.million", "--read", place]
            sys.exit(subprocess.run(command, check=False).returncode)
