"""The results of an evaluation, read from the journal of its run alone: answers, seeds, request ids, costs, scores."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import sqrt
from typing import Any, Final

from msgspec import Struct

from reenact.errors import EvidenceError
from reenact.evals.patterns import Pattern, quoted
from reenact.evals.running import BEGIN, NO_MONEY
from reenact.evals.spec import Cell, Spec
from reenact.record.outcomes import said
from reenact.record.reader import RecordedStep, RunReader
from reenact.record.result import ModelCall, RunResult, model_call

CELL: Final = re.compile(r"main\.s([0-9]{1,9})-m([0-9]{1,9})-c([0-9]{1,9}):([12])\Z")


class Answer(Struct, frozen=True, kw_only=True):
    """One sample of one model under one condition. `score` is None where there is no answer, or no judgement."""

    model: str
    condition: str
    sample: int
    seed: int | None
    code: str
    message: str | None
    answer: object
    score: float | None
    cost_exact: str
    request_id: str | None
    step_id: str


class Row(Struct, frozen=True, kw_only=True):
    """What the samples of one model under one condition come to. `error` is the standard error of the mean."""

    model: str
    condition: str
    asked: int
    failed: int
    scored: int
    mean: float | None
    error: float | None
    cost_exact: str


@dataclass(frozen=True)
class Results:
    """All that the report says of a run."""

    result: RunResult
    began: dict[str, Any]
    answers: list[Answer]
    providers: dict[str, str]
    """By model, who answered."""
    out_of_money: bool
    total: int

    @property
    def rows(self) -> list[Row]:
        cells: dict[tuple[str, str], list[Answer]] = {}
        for each in self.answers:
            cells.setdefault((each.model, each.condition), []).append(each)
        return [row_of(model, condition, answers) for (model, condition), answers in cells.items()]

    @property
    def failed(self) -> int:
        return sum(each.message is not None for each in self.answers)

    @property
    def cost_exact(self) -> int:
        return sum(int(each.cost_exact) for each in self.answers)

    @property
    def is_whole(self) -> bool:
        return len(self.answers) == self.total and not self.failed


def read_results(result: RunResult, spec: Spec) -> Results:
    began: dict[str, Any] = {}
    called: dict[Cell, RecordedStep] = {}
    judged: dict[Cell, RecordedStep] = {}
    for step in RunReader(result.store, result.run_id).steps():
        if step.is_foreign or not step.finished:
            continue
        if step.step_id == BEGIN:
            output = step.outcome().output
            began = output if isinstance(output, dict) else {}
        elif (cell := cell_of(step.step_id)) is not None:
            if cell.sample >= spec.n or cell.model >= len(spec.models) or cell.condition >= len(spec.conditions):
                raise EvidenceError(f"run {result.run_id}: step {step.step_id} is of no sample of the spec")
            (called if step.step_id.endswith(":1") else judged)[cell] = step
    providers: dict[str, str] = {}
    answers = []
    out_of_money = any(step.outcome().code == NO_MONEY for step in (*called.values(), *judged.values()))
    for cell in sorted(called):
        if called[cell].outcome().code == NO_MONEY and not called[cell].trace.made:
            continue  # it was never asked; one whose retry was refused was, and cost something
        call = model_call(called[cell])
        if call is not None:
            providers[call.model] = call.provider
        answers.append(answer_of(spec, cell, called[cell], judged.get(cell), call))
    return Results(result, began, answers, providers, out_of_money, spec.total)


def cell_of(step_id: str) -> Cell | None:
    found = CELL.match(step_id)
    return None if found is None else Cell(int(found[1]), int(found[2]), int(found[3]))


def place_of(spec: Spec, call: Any) -> tuple[int | None, str | None]:
    """The sample and condition of a call, by its name in the journal."""
    cell = cell_of(call.step_id)
    return (None, None) if cell is None else (cell.sample, spec.conditions[cell.condition])


def answer_of(
    spec: Spec, cell: Cell, step: RecordedStep, judged: RecordedStep | None, call: ModelCall | None
) -> Answer:
    outcome, parameters = step.outcome(), step.parameters()
    seed = parameters.get("seed") if isinstance(parameters, dict) else None
    output = outcome.output if outcome.ok else None
    answer = output.get(spec.file.score.of) if isinstance(output, dict) else output
    cost = step.trace.cost_exact + (0 if judged is None else judged.trace.cost_exact)
    message, score = None, None
    if not outcome.ok:
        message = said(outcome)
    elif spec.file.score.skill is None:
        score = score_of(spec, cell.sample, answer)
    elif judged is not None:
        score, message = judgement(judged)
    return Answer(
        model=spec.models[cell.model]["id"],
        condition=spec.conditions[cell.condition],
        sample=cell.sample,
        seed=seed if type(seed) is int else None,
        code=outcome.code,
        message=message,
        answer=answer,
        score=score,
        cost_exact=str(cost),
        request_id=None if call is None else call.request_id,
        step_id=step.step_id,
    )


def score_of(spec: Spec, sample: int, answer: object) -> float | None:
    """1 or 0; None of an answer that is no text."""
    score = spec.file.score
    if not isinstance(answer, str):
        return None
    if score.regex is not None:
        pattern = Pattern(spec.expected(sample, score.regex, quoted), ignore_case=score.ignore_case)
        return float(pattern.search(answer))
    wanted = spec.expected(sample, score.exact if score.exact is not None else str(score.contains)).strip()
    given = answer.strip()
    if score.ignore_case:
        wanted, given = wanted.casefold(), given.casefold()
    return float(given == wanted if score.exact is not None else wanted in given)


def judgement(judged: RecordedStep) -> tuple[float | None, str | None]:
    """The score that a skill gave, or why there is none."""
    outcome = judged.outcome()
    if not outcome.ok:
        return None, f"not judged: {outcome.code}: {said(outcome)}"
    score = outcome.output.get("score") if isinstance(outcome.output, dict) else None
    if isinstance(score, bool) or not isinstance(score, int | float):
        return None, "not judged: the skill returned no number as its score"
    return float(score), None


def row_of(model: str, condition: str, answers: list[Answer]) -> Row:
    scores = [each.score for each in answers if each.score is not None]
    mean = sum(scores) / len(scores) if scores else None
    error = None
    if mean is not None and len(scores) > 1:
        error = sqrt(sum((score - mean) ** 2 for score in scores) / (len(scores) - 1) / len(scores))
    return Row(
        model=model,
        condition=condition,
        asked=len(answers),
        failed=sum(each.message is not None for each in answers),
        scored=len(scores),
        mean=None if mean is None else round(mean, 6),
        error=None if error is None else round(error, 6),
        cost_exact=str(sum(int(each.cost_exact) for each in answers)),
    )
