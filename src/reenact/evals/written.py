"""What is written of an evaluation: its results as JSON, and its report as markdown.

Both are made of the spec and the sealed journal alone, so that whoever checks a report can make them again.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from reenact.evals.results import Answer, Results
from reenact.evals.spec import Spec
from reenact.policy.cost import dollars
from reenact.provenance.sidecar.paths import bundle_path, results_path
from reenact.replay.compare.counterfactual import shown

MOST_SHOWN: Final = 20
MARK: Final = "<!-- reenact eval wrote all above this line from the run; what stands below is its author's -->"


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


def as_markdown(spec: Spec, results: Results, report: Path) -> str:
    """The report as people read it, but for its replay block; what models said stands in the JSON beside it."""
    return "\n".join([*lines_of(spec, results, report), "", MARK, ""])


def own_words(report: str) -> str:
    """What stands below the mark of a report: nothing where it has none."""
    lines = report.split("\n")
    marks = (place for place, line in enumerate(lines) if line.removesuffix("\r") == MARK)
    return "\n".join(lines[next(marks, len(lines)) + 1 :])


def lines_of(spec: Spec, results: Results, report: Path) -> Iterator[str]:
    file, result = spec.file, results.result
    yield f"# {shown(file.title or file.name)}"
    yield ""
    asked = len(results.answers)
    yield (
        f"{spec.n} samples × {len(spec.models)} models × {len(spec.conditions)} conditions: {asked} of {results.total} "
        f"calls made, {results.failed} failed, {dollars(results.cost_exact)}."
    )
    if results.out_of_money:
        lacking = "the samples are not all there" if asked < results.total else "not every answer is there, and scored"
        yield f"It stopped when its budget of {file.budget_cents} cents was used up: {lacking}."
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
        f"and request id stands in `{results_path(report.name)}`; the run is {result.run_id}, and its evidence lies in "
        f"`{bundle_path(report.name)}`."
    )
    yield from failures([each for each in results.answers if each.message is not None])


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
