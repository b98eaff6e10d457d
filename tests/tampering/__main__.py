"""`python -m tests.tampering`: every kind, then every check taken away; exit code 1 where one is not found as said.

`--kept` and `--sites` only take checks away; `--write DIR` writes each kind as a folder with `expected.json`;
`--expect` writes what is found now into tests/tampering/expected.json, to be read before it is kept.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from tests.tampering import switching_off


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.tampering")
    parser.add_argument(
        "--kept", action="store_true", help="JSON: the kind of passes.json that passes without each place"
    )
    parser.add_argument("--sites", action="store_true", help="what passes without each place that tells")
    parser.add_argument("--write", type=Path, metavar="DIR", help="each kind as a folder, with expected.json")
    parser.add_argument("--expect", action="store_true", help="keep what is found now as what must be found")
    given = parser.parse_args()
    began = time.monotonic()
    switching_off.install()
    from tests.tampering.campaign import checks_as_kept, checks_by_code, checks_by_site, never_met, out

    if given.write or given.expect:
        return write(given.write)
    if given.kept:
        out(msgspec.json.encode([checks_as_kept(), never_met()]).decode())
        return 0
    wrong = [] if given.sites else kinds()
    if not given.sites:
        wrong += [f"without {code} nothing passes" for code in checks_by_code()]
    places, unmet = checks_by_site()
    idle = [f"without {name} nothing passes" for name, kind in places.items() if kind is None]
    wrong += unmet + idle
    needed = len(places) - len(idle)
    out(f"{len(places)} places that tell, {needed} of them without each of which a kind passes")
    out(f"{time.monotonic() - began:.0f} s")
    out("\n".join(wrong))
    return 1 if wrong else 0


def write(folder: Path | None) -> int:
    from tests.tampering import stores
    from tests.tampering.campaign import PASSES, Corpus, checks_by_site, out
    from tests.tampering.judging import as_lines, write_expected

    corpus = Corpus()
    if folder is not None:
        out(f"{len(corpus.write(folder))} bundles in {folder}")
    else:
        write_expected(corpus.all_told())
        stores.EXPECTED.write_text(as_lines(store_kinds()), encoding="utf-8")
        PASSES.write_text(as_lines(checks_by_site()[0]), encoding="utf-8")
    return 0


def of_stores(told: dict[str, dict[str, object]]) -> dict[str, dict[str, object]]:
    return {f"in a store: {name}": said for name, said in told.items()}


def store_kinds() -> dict[str, dict[str, object]]:
    from tests.tampering import stores

    with TemporaryDirectory() as folder:
        file = stores.StoreFile(Path(folder))
        return {kind.name: stores.told(file, kind, Path(folder) / "copy.db") for kind in stores.kinds()}


def kinds() -> list[str]:
    from tests.tampering.campaign import Corpus, out, table
    from tests.tampering.comparing import differences
    from tests.tampering.judging import expected
    from tests.tampering.stores import expected as expected_of_stores

    corpus = Corpus()
    said, must = corpus.all_told() | of_stores(store_kinds()), expected() | of_stores(expected_of_stores())
    out(table(said))
    with TemporaryDirectory() as folder:
        bundles, parted = differences(corpus, Path(folder) / "kinds")
    out(f"{bundles} of them bundles, judged by both verifiers: {len(parted)} differently")
    wrong = [f"{name}: {ours}, and the second verifier says {theirs}" for name, (ours, theirs) in parted.items()]
    names = [name for name in must | said if said.get(name) != must.get(name)]
    return wrong + [f"{name}: {said.get(name)}, not {must.get(name)}" for name in names]


if __name__ == "__main__":
    sys.exit(main())
