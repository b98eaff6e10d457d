"""The result of a run: its status, and the outcome of each step, read from the journal when it is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from reenact.contracts.outcome import StructuredOutcome
from reenact.contracts.records import RunStatus
from reenact.errors import ReenactError
from reenact.record.reader import RecordedStep, RunReader
from reenact.store.base import Store


@dataclass(frozen=True, slots=True)
class StepResult:
    """One step's end."""

    step_id: str
    outcome: StructuredOutcome
    attempts: int

    @property
    def retry_count(self) -> int:
        return self.outcome.observability.backend_retries

    @property
    def final_code(self) -> str:
        return self.outcome.code

    @property
    def cost_cents(self) -> int:
        return self.outcome.cost_cents


def step_result(step: RecordedStep) -> StepResult:
    return StepResult(step.step_id, step.outcome(), step.trace.made)


class ModelCall(NamedTuple):
    """A call of a model that was answered, as the journal has it."""

    step_id: str
    provider: str
    model: str
    request_id: str | None
    """As the provider named it."""
    seed: int | None


def model_call(step: RecordedStep) -> ModelCall | None:
    """The step as a model's answer; None where it is none, or was answered from the record."""
    attempts = step.trace.attempts
    if step.trace.state != "COMPLETED" or not attempts or attempts[-1].kind != "attempt":
        return None
    asked = next((effect.target for effect in attempts[-1].side_effects if effect.type == "llm_request"), None)
    if asked is None:
        return None
    provider, _, model = asked.partition("/")
    parameters = step.parameters()
    seed = parameters.get("seed") if isinstance(parameters, dict) else None
    return ModelCall(step.step_id, provider, model, attempts[-1].request_id, seed if type(seed) is int else None)


@dataclass(frozen=True)
class RunResult:
    """The end of a run, or where it stopped. Iterating gives the steps that have an outcome."""

    run_id: str
    status: RunStatus
    store: Store = field(repr=False)
    reason: str | None = None
    """Why it stopped, when it has not ended."""
    error: ReenactError | None = None
    """What kept `Runtime.recover` from going on with it; it is left as it was."""

    def __iter__(self) -> Iterator[StepResult]:
        for step in RunReader(self.store, self.run_id).steps():
            if step.finished and not step.is_foreign:
                yield step_result(step)

    def model_calls(self) -> Iterator[ModelCall]:
        """The calls of models that were answered, in the order in which they ended."""
        for step in RunReader(self.store, self.run_id).steps():
            found = None if step.is_foreign else model_call(step)
            if found is not None:
                yield found

    @property
    def steps(self) -> list[str]:
        """Ids of the steps that have an outcome, in order."""
        return [step.step_id for step in self]

    def get_step(self, step_id: str) -> StepResult:
        """A step that has an outcome; KeyError, with those that there are, for any other."""
        for step in self:
            if step.step_id == step_id:
                return step
        raise KeyError(f"no step {step_id!r} has an outcome; those are {', '.join(self.steps) or 'none'}")

    @property
    def outcomes(self) -> list[StructuredOutcome]:
        return [step.outcome for step in self]

    @property
    def retry_count(self) -> int:
        return sum(step.retry_count for step in self)

    @property
    def final_code(self) -> str | None:
        """The code of the last step that ran."""
        code = None
        for step in self:
            code = step.final_code
        return code

    @property
    def cost_cents(self) -> int:
        return sum(step.cost_cents for step in self)

    @property
    def ok(self) -> bool:
        return self.status == "completed"


def result_document(result: RunResult) -> dict[str, object]:
    """What `reenact run --json` prints: the result with the whole outcome of every step that has one."""
    steps = list(result)
    return {
        "run_id": result.run_id,
        "status": result.status,
        "reason": result.reason,
        "cost_cents": sum(step.cost_cents for step in steps),
        "steps": [
            {
                "step_id": step.step_id,
                "code": step.final_code,
                "attempts": step.attempts,
                "retries": step.retry_count,
                "outcome": msgspec.to_builtins(step.outcome),
            }
            for step in steps
        ],
    }
