"""`reenact verify REPLAY.jsonl`: a replay log against the receipt beside it, and what that proves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from reenact.trace import VerificationResult

PROVES = "the log and the receipt say the same, and the log is the one that the receipt names"
PROVES_NOT = "that it happened so, or who wrote it: whoever changes both makes them fit"


def is_log(target: str) -> bool:
    return target.endswith(".jsonl") and Path(target).is_file()


def verify_log(log: Path, *, as_json: bool) -> None:
    from reenact.cli.screens.printing import one_line, print_json, print_lines
    from reenact.errors import UsageError
    from reenact.trace import ReplayReader, SessionReceipt, verify_replay

    receipt = log.with_name("RECEIPT.json")
    if not receipt.is_file():
        raise UsageError(f"{log}: there is no RECEIPT.json beside it to hold it against; verify the folder, or the run")
    result = verify_replay(ReplayReader.from_file(log), SessionReceipt.from_file(receipt))
    if as_json:
        print_json({"log": str(log), "receipt": str(receipt), "success": result.success, "calls": result.calls,
                    "mismatches": result.mismatches, "hash_forms": result.hash_forms})  # fmt: skip
    else:
        print_lines([[(one_line(line), "")] for line in lines(result, log)])
    raise typer.Exit(0 if result.success else 1)


def lines(result: VerificationResult, log: Path) -> list[str]:
    verdict = "agree" if result.success else "differ"
    whole = f"reenact verify {log.parent} holds both against the journal" if is_bundle(log) else "ask for the bundle"
    return [
        f"replay log    {verdict:<7} {result.calls} calls, with the receipt beside it",
        *(f"differs       {mismatch}" for mismatch in result.mismatches),
        *([f"proven        {PROVES}"] if result.success else []),
        f"not proven    {PROVES_NOT}; {whole}",
    ]


def is_bundle(log: Path) -> bool:
    return (log.parent / "manifest.json").is_file()
