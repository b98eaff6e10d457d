"""`reenact log`: the store's transparency log, its proofs, and who outside has seen it."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reenact.cli.commands.log.believing import AuthorityOption, CheckpointOption, PolicyOption
from reenact.cli.options import JsonOption, StoreOption
from reenact.cli.screens.printing import say

if TYPE_CHECKING:
    from reenact.verify.report import Report


class Action(StrEnum):
    """What to do."""

    CHECKPOINT = "checkpoint"
    PROVE = "prove"
    CHECK = "check"
    CONSISTENCY = "consistency"
    POLICY = "policy"
    WITNESS = "witness"
    ANCHOR = "anchor"


def log(
    action: Annotated[Action, typer.Argument(help="What to do.")],
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[WORD]...", help="A run, a file; `add URL`, `list`, `remove URL`, `collect`."),
    ] = None,
    *,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where a proof goes.")] = None,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="With `checkpoint`: the tree anew.")] = False,
    seal: Annotated[Path | None, typer.Option("--seal", metavar="FILE", help="With `check`: the run's seal.")] = None,
    bundle: Annotated[Path | None, typer.Option("--bundle", metavar="DIR", help="With `check`: its folder.")] = None,
    keys: Annotated[
        Path | None, typer.Option("--keys", metavar="FILE", help="With `check`: public keys that you trust.")
    ] = None,
    checkpoint: CheckpointOption = None,
    witness_policy: PolicyOption = None,
    tsa_ca: AuthorityOption = None,
    key: Annotated[
        str | None, typer.Option("--key", metavar="VKEY", help="With `witness add`: the witness's verifier key.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="With `collect`: until interrupted.")] = False,
    every: Annotated[float, typer.Option("--every", metavar="SECONDS", min=0.1, help="With --follow.")] = 10.0,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """The seals of a store are one append-only log: sign its head, prove a run to be in it, have others witness it.

    `checkpoint` prints the signed head. `prove RUN` writes a proof that is checked offline, `check FILE` does so.
    `consistency [OLD]` reads every seal and says whether a head that you kept is still one of this log. `policy` prints
    the log's keys and its witnesses. `witness add URL --key VKEY`, `witness list`, `witness remove URL`; `anchor add
    file:PATH|git:PATH|tsa:URL`, `anchor list`, `anchor remove`; `witness collect` takes the head to all of them.

    Exit codes: 0 done or holds, 1 contradicted, or somebody who was asked failed, 2 not possible, 3 the store cannot be
    used, 4 nothing is there to be proven yet.
    """
    from reenact.cli.commands.log import asking, proving

    said = words or []
    if action is Action.CHECKPOINT:
        no_words(said)
        proving.checkpoint(store, rebuild=rebuild, as_json=as_json)
    elif action is Action.PROVE:
        proving.prove(store, one_word(said, "the run"), output, checkpoint, as_json=as_json)
    elif action is Action.CHECK:
        believing = (witness_policy, checkpoint, tsa_ca)
        report = proving.check(Path(one_word(said, "the proof")), seal, bundle, keys, believing)
        show_verdict(report, as_json=as_json)
    elif action is Action.CONSISTENCY:
        proving.consistency(store, [Path(word) for word in said], output, as_json=as_json)
    elif action is Action.POLICY:
        no_words(said)
        proving.policy(store)
    else:
        asking.ask(store, action.value, said, key, every if follow else None, as_json=as_json)


def one_word(words: list[str], what: str) -> str:
    from reenact.errors import UsageError

    if len(words) != 1:
        raise UsageError(f"name {what}, and nothing else; see `reenact log --help`")
    return words[0]


def no_words(words: list[str]) -> None:
    from reenact.errors import UsageError

    if words:
        raise UsageError(f"nothing is named here, and {words[0]!r} is; see `reenact log --help`")


def show_verdict(report: Report, *, as_json: bool) -> None:
    import msgspec

    from reenact.cli.exits import DONE, FAILED, OPEN
    from reenact.cli.screens.printing import print_json
    from reenact.verify.render import human

    if as_json:
        print_json(msgspec.to_builtins(report))
    else:
        for line in human(report):
            if line.startswith(("anchoring", "note", "first break", "      ")):
                say(line)
    raise typer.Exit({"holds": DONE, "contradicted": FAILED}.get(report.anchoring, OPEN))
