"""Publishing an evaluation: the report, its results as JSON, the run's bundle, and the replay block with its sidecar.

All of it is made from the sealed journal, so that publishing again, also after a crash in the middle, writes the same.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from reenact.contracts.records import ENDED
from reenact.errors import StoreUnavailable, UnsealedRecording, UsageError
from reenact.evals.results import Answer, Results, place_of, read_results
from reenact.evals.running import AGENT, Progress, run_eval, session_id
from reenact.evals.spec import Spec, read_spec
from reenact.policy.cost import dollars
from reenact.provenance.capture.capture import ReplayBlock
from reenact.provenance.capture.environment import manifests_of
from reenact.provenance.capture.recording import Recording
from reenact.provenance.root import find_root
from reenact.provenance.sidecar.atomic import write_atomically
from reenact.provenance.sidecar.paths import bundle_path
from reenact.provenance.sidecar.sidecar import Conditions, ReenactModel, ReenactSampling, ReenactSidecar
from reenact.record.export import export_evidence
from reenact.replay.compare.counterfactual import shown
from reenact.replay.runtime import Runtime
from reenact.runtime.effects.coroutines import run_sync
from reenact.values.canonical import parse_json

MOST_SHOWN = 20


@dataclass(frozen=True)
class Published:
    """What was written, and what stands in it."""

    report: Path
    sidecar: Path
    results_file: Path
    bundle: Path
    results: Results


def evaluate(
    runtime: Runtime,
    spec: str | os.PathLike[str],
    *,
    report: str | os.PathLike[str] | None = None,
    label: str | None = None,
    jobs: int = 1,
    replace: bool = False,
    root: str | os.PathLike[str] | None = None,
    argv: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> Published:
    """Run the evaluation that a spec describes, or go on with it, and publish its report.

    Killed and started again it goes on where it was; one that has ended is only published again. `label` makes one
    more of the same spec. A bundle of another run beside the report is refused, unless `replace`. Files are named
    from `root`, which is found around the report; `argv` is the command that the report names, else this process's.
    """
    read = read_spec(Path(spec))
    place = report_path(read, report)
    before = runtime.store.find_session(AGENT, session_id(read, label))
    check_place(place, None if before is None else before.run_id, replace=replace)
    block = captured(read, place, argv, root)
    assert isinstance(block.sidecar, ReenactSidecar)
    began = {name: getattr(block.sidecar, name) for name in ("commit", "dirty", "invoked_at")}
    began["argv"] = list(block.sidecar.argv)
    result = run_sync(run_eval(runtime, read, began, label=label, jobs=jobs, progress=progress))
    if result.status not in ENDED:
        raise UnsealedRecording(
            f"run {result.run_id} is {result.status}, and has no end to report: `reenact show {result.run_id}` "
            "says what it waits for"
        )
    return publish(read, read_results(result, read), block, place)


def report_path(spec: Spec, given: str | os.PathLike[str] | None) -> Path:
    """As the caller says, as the spec says from where it lies, or beside it under its name."""
    if given is not None:
        return Path(given)
    return spec.path.parent / (spec.file.report or f"{spec.file.name}.md")


def check_place(report: Path, run_id: str | None, *, replace: bool) -> None:
    """Whether all can be written once the run has ended: asked before anything is spent."""
    if not report.parent.is_dir():
        raise UsageError(f"{report}: there is no folder {report.parent}; make it first")
    bundle = Path(bundle_path(str(report)))
    if not bundle.exists() or (bundle.is_dir() and not any(bundle.iterdir())):
        return
    kept = run_of_bundle(bundle)
    if kept is not None and kept == run_id:
        return
    if not replace or kept is None:
        what = "is no bundle" if kept is None else f"holds run {kept}"
        advice = "" if kept is None else ", or replace it with --replace"
        raise UsageError(f"{bundle} {what}: move it, name another report with --report{advice}")


def run_of_bundle(bundle: Path) -> str | None:
    """The run that a bundle says it is of; None of what is none."""
    try:
        manifest = parse_json((bundle / "manifest.json").read_bytes())
    except (OSError, ValueError, UsageError):
        return None
    said = manifest.get("run_id") if isinstance(manifest, dict) else None
    return said if isinstance(said, str) else None


def captured(spec: Spec, report: Path, argv: Sequence[str] | None, root: str | os.PathLike[str] | None) -> ReplayBlock:
    temperature = spec.file.parameters.get("temperature")
    top = find_root(report) if root is None else Path(root)
    return ReplayBlock.capture(
        "eval",
        argv,
        dict(spec.inputs),
        ReenactSampling(
            spec.n, float(temperature) if isinstance(temperature, int | float) else None, spec.file.seed, ()
        ),
        (),
        Conditions(tuple(spec.conditions)),
        report=report,
        root=root,
        program=None if manifests_of(top) else spec.file.name,
    )


def publish(spec: Spec, results: Results, block: ReplayBlock, report: Path) -> Published:
    """Write all of it. The report comes last but for its block: what it points to is there."""
    bundle = write_bundle(results, report)
    results_file = report.with_name(report.name.removesuffix(".md") + ".results.json")
    try:
        write_atomically(results_file, as_json(spec, results))
        write_atomically(report, "\n".join(markdown(spec, results, results_file, bundle)).encode())
    except OSError as error:
        raise StoreUnavailable(f"{report}: cannot be written: {error.strerror}") from None
    sidecar = tied(spec, results, block).write(report)
    return Published(report, sidecar, results_file, bundle, results)


def write_bundle(results: Results, report: Path) -> Path:
    bundle = Path(bundle_path(str(report)))
    run_id = results.result.run_id
    if run_of_bundle(bundle) == run_id:
        return bundle  # it is sealed: there is nothing to add to it
    if run_of_bundle(bundle) is not None:
        shutil.rmtree(bundle)  # its caller said so
    with results.result.store.evidence() as evidence:
        export_evidence(evidence, run_id, bundle)
    return bundle


def tied(spec: Spec, results: Results, block: ReplayBlock) -> ReplayBlock:
    """The block with what the journal says: when and where it began, who answered, under which seeds and ids."""
    began = results.began
    sidecar: Any = block.sidecar
    known: dict[str, Any] = {name: began[name] for name in ("commit", "dirty", "invoked_at") if name in began}
    if "argv" in began:
        known["argv"] = tuple(began["argv"])
    block.sidecar = sidecar = msgspec.structs.replace(sidecar, **known)
    models = [
        ReenactModel(model["id"], results.providers.get(model["id"]) or str(model.get("adapter") or "unknown"))
        for model in spec.models
    ]
    recording = Recording(block, sidecar.sampling, models)
    recording.tie_to(results.result, partial(place_of, spec))
    return recording.result()


def as_json(spec: Spec, results: Results) -> bytes:
    document = {
        "schema": "reenact.eval_results.v1",
        "name": spec.file.name,
        "run_id": results.result.run_id,
        "status": results.result.status,
        "n": spec.n,
        "seeds": spec.seeds,
        "score": msgspec.to_builtins(spec.file.score),
        "cells": results.total,
        "out_of_budget": results.out_of_money,
        "cost_exact": str(results.cost_exact),
        "rows": results.rows,
        "answers": results.answers,
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def markdown(spec: Spec, results: Results, results_file: Path, bundle: Path) -> Iterator[str]:
    """The report as people read it; what models said stands in the JSON beside it."""
    file, result = spec.file, results.result
    yield f"# {shown(file.title or file.name)}"
    yield ""
    asked = len(results.answers)
    yield (
        f"{spec.n} samples × {len(spec.models)} models × {len(spec.conditions)} conditions: {asked} of {results.total} "
        f"calls made, {results.failed} failed, {dollars(results.cost_exact)}."
    )
    if results.out_of_money:
        yield f"It stopped when its budget of {file.budget_cents} cents was used up: the samples are not all there."
    yield ""
    yield "| model | condition | samples | failed | score | ± | cost |"
    yield "|---|---|---|---|---|---|---|"
    for row in results.rows:
        mean, error = ("" if number is None else f"{number:.3f}" for number in (row.mean, row.error))
        cells = [shown(row.model), shown(row.condition), str(row.asked), str(row.failed), mean, error]
        yield f"| {' | '.join([*cells, dollars(int(row.cost_exact))])} |"
    yield ""
    yield (
        f"Score: {how_scored(spec)}, the mean over the samples with its standard error. Every answer with its seed "
        f"and request id stands in `{results_file.name}`; the run is {result.run_id}, and its evidence lies in "
        f"`{bundle.name}`."
    )
    yield from failures([each for each in results.answers if each.message is not None])
    yield ""


def how_scored(spec: Spec) -> str:
    score = spec.file.score
    said = shown(str(getattr(score, score.how)))
    return f"{score.how} `{said}`{', whatever the case' if score.ignore_case else ''}"


def failures(failed: list[Answer]) -> Iterator[str]:
    if not failed:
        return
    yield ""
    yield "## What failed"
    yield ""
    for each in failed[:MOST_SHOWN]:
        words = shown(f"{each.code}: {(each.message or '')[:200]}")
        yield f"- {shown(each.model)}, {shown(each.condition)}, sample {each.sample}: {words}"
    if len(failed) > MOST_SHOWN:
        yield f"- and {len(failed) - MOST_SHOWN} more"
