"""`reenact doctor`: look at the store and say what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reenact.cli.options import JsonOption, StoreOption

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reenact.store.doctor.findings import Finding


def doctor(store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Look at store, schema, disk, clock, key, runs, the journal of those that are open, and the sandbox of commands.

    Changes nothing.

    Exit codes: 0 nothing to do or only notes, 3 the store cannot be used or is damaged, 4 something needs a person.
    """
    import typer

    from reenact.cli.screens.printing import Segment, one_line, print_json, print_lines
    from reenact.store.doctor.examine import examine
    from reenact.values.clock import SystemClock

    findings = [*examine(store, SystemClock(), store=store), *look_at_sandbox()]
    verdicts = {finding.verdict for finding in findings}
    if as_json:
        print_json(findings)
    else:
        styles = {"ok": "green", "note": "cyan", "warning": "yellow", "trouble": "red"}
        lines: list[list[Segment]] = []
        for finding in findings:
            lines.append(
                [
                    (f"{finding.verdict:8}", styles[finding.verdict]),
                    (f"{finding.subject}: {one_line(finding.says)}", ""),
                ]
            )
            if finding.do:
                lines.append([(f"{'':8}→ {one_line(finding.do)}", "dim")])
        print_lines(lines)
    raise typer.Exit(3 if "trouble" in verdicts else 4 if "warning" in verdicts else 0)


def look_at_sandbox() -> Iterator[Finding]:
    """Which sandbox `shell` has here, and what it enforces, item by item."""
    from reenact.builtin.sandbox.enforced import look
    from reenact.store.doctor.findings import Finding

    for item in look():
        subject = "shell" if item.subject is None else f"shell {item.subject}"
        yield Finding(subject, "ok" if item.is_enforced else "note", item.says, item.do)
