"""Both verifiers over many tamperings: `python -m tests.second_verifier.campaign [COUNT] [SEED]`."""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from shutil import rmtree

import msgspec

from tests.second_verifier.both import differences, first, second
from tests.second_verifier.bundles import Files, real, vectors
from tests.second_verifier.tampering import corpus
from tests.shares import part_of
from tests.verify.changing import write_folder

BATCH = 100


@dataclass
class Compared:
    """What a campaign has seen."""

    bundles: int = 0
    unseen: int = 0
    """Changes in which neither finds anything broken."""
    first: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.bundles} bundles judged by both verifiers: {len(self.wrong)} differently; {self.unseen} with "
            f"nothing broken, {len(self.first)} codes first"
        )


def compare(names: list[str], folders: list[Path], seen: Compared, keys: Path | None = None) -> None:
    trusted = None if keys is None else msgspec.json.decode(keys.read_bytes())
    arguments = () if keys is None else ("--keys", str(keys))
    for name, folder, theirs in zip(names, folders, second(folders, *arguments), strict=True):
        ours = first(folder, trusted)
        seen.bundles += 1
        if ours["first_break"] is None:
            seen.unseen += 1
        else:
            seen.first[ours["first_break"]["code"]] += 1
        found = differences(ours, theirs)
        if found:
            seen.wrong.append(f"{name}: {found}")


def nobody(_: Compared) -> None: ...


def campaign(
    bundles: dict[str, Files], folder: Path, seed: int, count: int, told: Callable[[Compared], object] = nobody
) -> Compared:
    """Every second batch is judged with trusted keys: those of all the bundles."""
    seen, made = Compared(), corpus(bundles, seed, count)
    folder.mkdir()
    keys = folder / "keys.json"
    keys.write_bytes(
        msgspec.json.encode({k: v for b in bundles.values() for k, v in msgspec.json.decode(b["keys.json"]).items()})
    )
    for begin in range(0, count, BATCH):
        batch = list(islice(made, BATCH))
        folders = [write_folder(folder / str(number), files) for number, (_, files) in enumerate(batch)]
        compare([name for name, _ in batch], folders, seen, keys if begin // BATCH % 2 else None)
        for each in folders:
            rmtree(each)
        told(seen)
    return seen


def say(seen: Compared) -> None:
    """So that one that is stopped has said how far it came."""
    if seen.bundles % 1000 == 0:
        print(seen, flush=True)


def main(count: str = "20000", seed: str = "1") -> int:
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        bundles = {**vectors(), **real(Path(folder) / "made")}
        part, drawn = part_of(int(count), int(seed))
        seen = campaign(bundles, Path(folder) / "changed", drawn, part, say)
    print(f"seed {drawn}: {seen}, {time.monotonic() - began:.0f} s")
    print("\n".join(seen.wrong[:20]))
    return 1 if seen.wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
