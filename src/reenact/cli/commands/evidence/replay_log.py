"""`reenact verify REPLAY.jsonl`: a replay log against the receipt beside it, and what that proves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reenact.trace import VerificationResult

PROVES = "session, plan, calls, checks and confidence are the same in both"
NAMED = ", and the log is the one that the receipt names"
NOT_NAMED = "; the receipt has no replay_hash, so what it does not say may have been changed in the log"
PROVES_NOT = (
    "that it happened so, or who wrote it: whoever changes both makes them fit; "
    "times, costs and side effects of the receipt were not compared"
)


def is_log(target: str) -> bool:
    return target.endswith(".jsonl") and Path(target).is_file()


def is_log_alone(target: str) -> bool:
    """A folder with a log, as other producers have it, and nothing that it could be held against but its receipt."""
    return (Path(target) / "REPLAY.jsonl").is_file() and not any(
        (Path(target) / name).exists() for name in ("manifest.json", "journal.jsonl")
    )


def verify_log(log: Path, asked: Sequence[str], *, as_json: bool) -> None:
    """`asked` are options that only evidence can answer: a log and its receipt are signed and seen by nobody."""
    from reenact.cli.screens.counted_bar import reading_bar
    from reenact.cli.screens.printing import print_json, print_lines
    from reenact.errors import UsageError
    from reenact.trace import ReplayReader, SessionReceipt, verify_replay

    if asked:
        raise UsageError(
            f"{log}: {', '.join(asked)}: not of a log, which nobody signed; verify {whole_of(log) or 'the bundle'}"
        )
    receipt = log.with_name("RECEIPT.json")
    if not receipt.is_file():
        raise UsageError(f"{log}: there is no RECEIPT.json beside it to hold it against; verify the folder, or the run")
    reader, said = ReplayReader.from_file(log), SessionReceipt.from_file(receipt)
    with reading_bar("comparing with the receipt", log) as progress:
        result = verify_replay(reader, said, progress=progress)
    if as_json:
        print_json({"log": str(log), "receipt": str(receipt), "success": result.success, "calls": result.calls,
                    "mismatches": result.mismatches, "hash_forms": result.hash_forms})  # fmt: skip
    else:
        print_lines([[(line, "")] for line in lines(result, log, is_named=said.replay_hash is not None)])
    raise typer.Exit(0 if result.success else 1)


def lines(result: VerificationResult, log: Path, *, is_named: bool) -> list[str]:
    from reenact.cli.screens.printing import plural

    verdict = "agree" if result.success else "differ"
    bundle = whole_of(log)
    whole = "ask for the bundle" if bundle is None else f"reenact verify {bundle} holds both against the journal"
    return [
        f"replay log    {verdict:<7} {plural(result.calls, 'call')}, with the receipt beside it",
        *(f"differs       {mismatch}" for mismatch in result.mismatches),
        *([f"proven        {PROVES}{NAMED if is_named else NOT_NAMED}"] if result.success else []),
        f"not proven    {PROVES_NOT}; {whole}",
    ]


def whole_of(log: Path) -> Path | None:
    """The bundle that the log lies in."""
    return log.parent if (log.parent / "manifest.json").is_file() else None
