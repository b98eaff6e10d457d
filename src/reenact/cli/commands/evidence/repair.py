"""`reenact repair`: tell a torn tail from damage, and take the tail off."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reenact.cli.exits import DONE, FAILED, OPEN
from reenact.cli.options import JsonOption
from reenact.cli.screens.printing import say


def repair(
    file: Annotated[Path, typer.Argument(help="REPLAY.jsonl, another file of JSON lines, or payloads.jsonl.gz.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do it; without this it is only said what would be done.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Look at a file of lines that was cut, and with --yes take off what is left of its last line.

    The bytes that go are kept beside it, as FILE.damaged-…; the file is replaced whole, or stays as it was. A line that
    is damaged in the middle is told and left: nobody can tell what stood there.

    Exit codes: 0 every line is whole, or was made so, 1 damaged, 2 not a file of lines, 3 it cannot be read or written,
    or is being written, 4 torn: say it with --yes.
    """
    from reenact.cli.screens.printing import one_line, plural, print_json
    from reenact.record.repair.lines import examine
    from reenact.record.repair.lines import repair as repair_file

    found, kept = repair_file(file) if yes else (examine(file), None)
    code = {"whole": DONE, "damaged": FAILED, "torn": DONE if yes else OPEN}[found.kind]
    if as_json:
        print_json(
            {
                "file": str(file),
                "found": found.kind,
                "says": found.says,
                "line": found.line,
                "offset": found.offset,
                "lines": found.lines,
                "repaired": yes and found.kind == "torn",
                "kept": None if kept is None else str(kept),
            }
        )
        raise typer.Exit(code)
    place = "" if found.line is None else f", line {found.line}, byte {found.offset}"
    say(f"{file}: {found.kind}{place}: {one_line(found.says)}")
    if found.kind == "torn":
        whole = plural(found.lines, "line")
        done = "its newline is back" if kept is None else f"what was cut off lies in {kept}"
        say(f"{whole} kept; {done}" if yes else f"{whole} would be kept; say it with --yes")
    elif found.kind == "damaged":
        say(f"{plural(found.lines, 'line')} before it can be read; nothing was changed: take a copy that is whole")
    if found.kind != "whole" and found.in_bundle:
        say("it is part of a bundle, whose manifest will not fit it: ask for the bundle again", err=True)
    raise typer.Exit(code)
