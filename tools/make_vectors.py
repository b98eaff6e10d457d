"""Make `test_vectors/` and the examples in `docs/spec/` from values alone.

python tools/make_vectors.py            write them
python tools/make_vectors.py --check    say which differ, exit 1 if any does
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from reenact.values.canonical import canonicalize  # noqa: E402 - the checkout has to be found first
from tools.vectors.anchoring_vectors import anchoring_vectors  # noqa: E402
from tools.vectors.bundle_vectors import bundle_folders, mutations  # noqa: E402
from tools.vectors.examples import pages  # noqa: E402
from tools.vectors.log_vectors import golden_chain, state_transition_vectors  # noqa: E402
from tools.vectors.record_vectors import (  # noqa: E402
    attempt_vectors,
    payload_vectors,
    run_chain_vectors,
    seal_vectors,
)
from tools.vectors.replay_log_vectors import replay_log_vectors  # noqa: E402

VECTORS = {
    "tga/state_transition_vectors.json": state_transition_vectors,
    "tga/golden_chain.json": golden_chain,
    "attempts.json": attempt_vectors,
    "seals.json": seal_vectors,
    "run_chain.json": run_chain_vectors,
    "payloads.json": payload_vectors,
    "replay_log.json": replay_log_vectors,
    "anchoring.json": anchoring_vectors,
    "bundles/mutations.json": mutations,
}


def everything() -> dict[Path, bytes]:
    """Every generated file with the bytes that it must have."""
    files = {
        ROOT / "test_vectors" / name: msgspec.json.format(canonicalize(make()), indent=2) + b"\n"
        for name, make in VECTORS.items()
    }
    bundles = ROOT / "test_vectors" / "bundles"
    files |= {bundles / name: data for name, data in bundle_folders(bundles).items()}
    files |= {ROOT / "docs" / "spec" / name: data for name, data in pages(ROOT / "docs" / "spec").items()}
    return files


def stale() -> list[Path]:
    """Generated files that are missing, differ, or are no longer generated."""
    files = everything()
    wrong = [path for path, data in files.items() if not path.is_file() or path.read_bytes() != data]
    bundles = ROOT / "test_vectors" / "bundles"
    return wrong + [path for path in sorted(bundles.rglob("*")) if path.is_file() and path not in files]


def main() -> int:
    if sys.argv[1:] == ["--check"]:
        for path in stale():
            sys.stdout.write(f"{path.relative_to(ROOT)} is not what tools/make_vectors.py makes\n")
        return 1 if stale() else 0
    files = everything()
    for path in stale():
        if path not in files:
            path.unlink()
    for path, data in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return 0


if __name__ == "__main__":
    sys.exit(main())
