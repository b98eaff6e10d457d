"""Publishing an evaluation: the report, its results as JSON, the run's bundle, and the replay block with its sidecar.

All of it is made from the sealed journal, so that publishing again, also after a crash in the middle, writes the same.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from reenact.contracts.records import ENDED
from reenact.errors import EvidenceError, StoreUnavailable, UnsealedRecording, UsageError
from reenact.evals.results import Results, place_of, read_results
from reenact.evals.running import AGENT, Progress, run_eval, session_id
from reenact.evals.spec import Spec, read_spec
from reenact.evals.written import as_json, as_markdown, own_words
from reenact.provenance.capture.capture import ReplayBlock
from reenact.provenance.capture.environment import manifests_of
from reenact.provenance.capture.recording import Recording
from reenact.provenance.root import find_root
from reenact.provenance.sidecar.atomic import write_atomically
from reenact.provenance.sidecar.paths import bundle_path, results_path
from reenact.provenance.sidecar.sidecar import Conditions, ReenactModel, ReenactSampling, ReenactSidecar
from reenact.record.export import export_evidence
from reenact.record.result import RunResult
from reenact.replay.runtime import Runtime
from reenact.runtime.effects.coroutines import run_sync
from reenact.values.canonical import parse_json


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
    refuse_without_values(result)
    return publish(read, read_results(result, read), block, place)


def refuse_without_values(result: RunResult) -> None:
    """What was published stays: made again without its values, it would say that nothing was answered."""
    store, run_id = result.store, result.run_id
    if store.archived_values(run_id):
        raise EvidenceError(
            f"values of run {run_id} are archived, and nothing was written: "
            f"`reenact archive --restore {run_id}` brings them back"
        )
    records = (msgspec.json.decode(raw) for raw in store.erasures())
    if any(record["run_id"] == run_id and record.get("type") != "archived" for record in records):
        raise EvidenceError(
            f"values of run {run_id} were erased, and no report can be made of it any more; nothing was written"
        )


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
    results_file = Path(results_path(str(report)))
    try:
        write_atomically(results_file, as_json(spec, results))
        write_atomically(report, as_markdown(spec, results, report).encode() + words_below(report))
    except OSError as error:
        raise StoreUnavailable(f"{report}: cannot be written: {error.strerror}") from None
    sidecar = tied(spec, results, block).write(report)
    return Published(report, sidecar, results_file, bundle, results)


def words_below(report: Path) -> bytes:
    """What somebody wrote below the mark of a report that is there: it stays."""
    try:
        return own_words(report.read_bytes().decode()).encode()
    except (FileNotFoundError, UnicodeDecodeError):
        return b""


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
    for each in results.answers:  # also of what names no request of a provider
        recording.effective(each.condition)
        if each.seed is not None:
            recording.seed(each.sample, each.seed)
    recording.tie_to(results.result, partial(place_of, spec))
    return recording.result()
