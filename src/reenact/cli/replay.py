"""`reenact replay`: run a recording again and compare, aspect by aspect."""

from __future__ import annotations

from typing import Annotated

import typer

from reenact.cli.options import JsonOption, RunArgument, SkillsOption, StoreOption


def replay(
    run: RunArgument,
    mode: Annotated[
        str, typer.Option("--mode", metavar="MODE", help="mock_replay, full_replay or dry_run.")
    ] = "mock_replay",
    store: StoreOption = None,
    skills: SkillsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run a recorded plan again. mock_replay serves every recorded attempt: no network, no sleep, no model, no write.

    Exit codes: 0 it behaved the same; 1 it differed, or could not be carried to its end; 3 the store cannot be used;
    4 the run has not ended.
    """
    from reenact.cli.options import existing_store, load_registry
    from reenact.cli.printing import one_line, print_json
    from reenact.replay import replay as replay_run
    from reenact.replay.render import comparison_document, text_lines

    registry = load_registry(skills)
    result = replay_run(existing_store(store), run, mode=mode, registry=registry)
    if as_json:
        print_json(comparison_document(result))
    else:
        for line in text_lines(result):
            typer.echo(one_line(line))
    raise typer.Exit(result.exit_code)
