"""`reenact verify`: check a run where it lies, or a folder that somebody sent."""

from __future__ import annotations

from contextlib import closing
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reenact.cli.commands.evidence.replay_log import is_log, is_log_alone, verify_log
from reenact.cli.commands.log.believing import AuthorityOption, CheckpointOption, PolicyOption
from reenact.cli.options import JsonOption, StoreOption, TargetArgument

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reenact.cli.screens.evidence_words import Evidence
    from reenact.cli.screens.printing import Segment
    from reenact.record.document_shape import RunDocument
    from reenact.store.checks.derived import Difference
    from reenact.verify.log.anchoring import Believed
    from reenact.verify.report import Report

STYLE = {
    **dict.fromkeys(("holds", "agree"), "green"),
    **dict.fromkeys(("open", "absent"), "yellow"),
    **dict.fromkeys(("broken", "contradicted", "differ"), "red"),
}


class Proof(StrEnum):
    """What must be there, and not only be free of contradiction."""

    signature = "signature"
    trust = "trust"
    anchor = "anchor"


def verify(
    target: TargetArgument,
    require: Annotated[
        list[Proof] | None, typer.Option("--require", help="Fail when this is absent; repeatable.")
    ] = None,
    keys: Annotated[
        Path | None,
        typer.Option(
            "--keys",
            metavar="FILE",
            help="Who is trusted for what, and nobody else: lines NAME PURPOSES KEY, or {kid: key}, instead of your "
            "own list (`reenact keys trust`). Implies --require signature.",
        ),
    ] = None,
    checkpoint: CheckpointOption = None,
    witness_policy: PolicyOption = None,
    tsa_ca: AuthorityOption = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page that says in plain words what is proven.")
    ] = None,
    markdown: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the same in markdown.")] = None,
    junit: Annotated[Path | None, typer.Option(metavar="FILE", help="Write JUnit XML.")] = None,
    sarif: Annotated[Path | None, typer.Option(metavar="FILE", help="Write SARIF 2.1.0.")] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check a run, an exported folder or its zip: integrity, completeness, authenticity, anchoring, each for itself.

    A run is checked in its store, row by row, and the tables that are derived from its commits are compared with
    them. A name that is a folder is one; write ./NAME to be sure. A zip is read where it lies: nothing is unpacked. A
    file REPLAY.jsonl is held against the RECEIPT.json beside it, which nobody signed: the options are for bundles.

    Exit codes: 0 integrity and completeness hold and nothing is contradicted, 1 broken, or something required is
    absent, 2 no such run, or a list of keys that is none, 3 the store, folder or zip cannot be used, 4 the run has no
    seal: completeness is open.
    """
    wanted = {"html": html, "markdown": markdown, "junit": junit, "sarif": sarif}
    if is_log(target):
        asked = {"require": require, "keys": keys, "checkpoint": checkpoint, "tsa-ca": tsa_ca, **wanted}
        verify_log(Path(target), [f"--{name}" for name, given in asked.items() if given], as_json=as_json)
    from reenact.cli.commands.log.believing import believed
    from reenact.cli.screens.evidence_words import Evidence
    from reenact.values.clock import SystemClock

    report, differences = check(target, store, keys, believed(witness_policy, checkpoint, tsa_ca))
    missing = absent_proofs(report, [*(require or []), *([] if keys is None else [Proof.signature])])
    if any(wanted.values()):
        run = None if report.exit_code == 1 or differences else document_of(target, store, report)
        trusts = (report.signature.by == "trusted_key", differences is None or witness_policy is not None)
        found = (tuple(missing), run, tuple(differences or ()), *trusts)
        write_reports(wanted, Evidence(target, report, SystemClock().timestamp(), *found))
    show(report, differences, missing, as_json=as_json)
    if is_log_alone(target):
        from reenact.cli.screens.printing import say

        say(f"see  reenact verify {target.rstrip('/')}/REPLAY.jsonl: a replay log without its journal", err=True)
    if differences or (missing and report.exit_code != 1):
        raise typer.Exit(1)
    raise typer.Exit(report.exit_code)


def check(
    target: str, store: str | None, keys: Path | None, believed: Believed
) -> tuple[Report, Sequence[Difference] | None]:
    """The report, and for a run of a store what its derived tables say otherwise."""
    from reenact.cli.options import existing_evidence
    from reenact.record.bundle import is_bundle
    from reenact.store.checks.verification import verify_evidence
    from reenact.store.keys.trusted import named_trust, own_trust
    from reenact.verify.verifier import verify_bundle

    trusted = own_trust() if keys is None else named_trust(keys)
    if is_bundle(target):
        return verify_bundle(Path(target), keys=trusted, believed=believed), None
    with existing_evidence(store, folder=target) as evidence:
        verified = verify_evidence(evidence, target, trusted, believed)
    return verified.report, verified.differences


def write_reports(wanted: dict[str, Path | None], evidence: Evidence) -> None:
    """The files that were asked for."""
    from reenact.cli.options import write_text
    from reenact.cli.screens.evidence_ci import evidence_junit, evidence_sarif
    from reenact.cli.screens.evidence_page import html_page, markdown_page

    makers = {"html": html_page, "markdown": markdown_page, "junit": evidence_junit, "sarif": evidence_sarif}
    for name, path in wanted.items():
        write_text(path, partial(makers[name], evidence))


def document_of(target: str, store: str | None, report: Report) -> RunDocument | None:
    """The run that was verified, for its timeline; None where it cannot be read to its end."""
    from reenact.cli.options import existing_store
    from reenact.errors import ReenactError
    from reenact.record.bundle import is_bundle
    from reenact.record.document import read_bundle_document, read_document

    try:
        if is_bundle(target):
            return read_bundle_document(Path(target))
        with closing(existing_store(store)) as opened:
            return read_document(opened, str(report.run_id))
    except ReenactError:
        return None


def absent_proofs(report: Report, required: Sequence[Proof]) -> list[str]:
    """What was required and does not hold."""
    is_signed = report.authenticity == "holds"
    holds = {
        Proof.signature: is_signed,
        Proof.trust: is_signed and report.signature.by == "trusted_key",
        Proof.anchor: report.anchoring == "holds",
    }
    return [proof.value for proof in dict.fromkeys(required) if not holds[proof]]


def show(report: Report, differences: Sequence[Difference] | None, missing: list[str], *, as_json: bool) -> None:
    import msgspec

    from reenact.cli.screens.printing import print_json, print_lines

    if as_json:
        document = msgspec.to_builtins(report)
        document["required_and_absent"] = missing
        if differences is not None:
            document["derived"] = {
                "verdict": "differ" if differences else "agree",
                "differences": msgspec.to_builtins(list(differences)),
            }
        print_json(document)
        return
    print_lines(report_lines(report, differences, missing))


def report_lines(report: Report, differences: Sequence[Difference] | None, missing: list[str]) -> list[list[Segment]]:
    from reenact.cli.screens.printing import one_line
    from reenact.verify.render import human

    lines = [coloured(line) for line in human(report)]
    if differences is not None:
        verdict = "differ  from what the commits say" if differences else "agree   with what the commits say"
        place = next((number for number, line in enumerate(lines) if line[0][0].startswith("read ")), len(lines))
        lines.insert(place, coloured(f"{'derived':<13} {verdict}"))
    for difference in differences or ():
        place_and_what = one_line(f"{difference.table}, {difference.row}: {difference.what}")
        lines.append([("differs       ", "red"), (place_and_what, "")])
        if difference.expected is not None:
            lines.append([(f"              expected {one_line(difference.expected)}", "")])
        lines.append([(f"              got      {one_line(difference.got or 'nothing')}", "")])
    lines += [[("required      ", "red"), (f"{name} is absent", "")] for name in missing]
    return lines


def coloured(line: str) -> list[Segment]:
    """`aspect  verdict  meaning`, the verdict in its colour."""
    verdict = line[14:].partition(" ")[0]
    if verdict in STYLE and not line.startswith(" "):
        end = 14 + len(verdict)
        return [(line[:14], ""), (line[14:end], STYLE[verdict]), (line[end:], "")]
    return [(line, "red" if line.startswith("first break") else "")]
