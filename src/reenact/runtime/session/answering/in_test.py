"""A program is run over a recording, in a test: today's tools are held against those that were recorded.

The answers are the record's. A tool that is gone, has another version or declares something else is `Diverged`; so is
one whose code is to be run (`execute`) and gives something else for the recorded arguments.
"""

from __future__ import annotations

from collections.abc import Collection

from reenact.contracts.records import Attempt
from reenact.contracts.stability import without_fields
from reenact.errors import Diverged, SecretError, UsageError
from reenact.runtime.call.dispatch import code_of
from reenact.runtime.effects.live import LiveSource
from reenact.runtime.effects.source import AttemptCall, AttemptResult
from reenact.runtime.plans.steps import PlannedStep
from reenact.runtime.session.answering.answers import Asked, RecordedCall
from reenact.runtime.session.answering.telling import is_as_recorded
from reenact.runtime.session.plan import Document, SessionPlan
from reenact.runtime.writing.redaction import Redactor
from reenact.skills.skill import Skill
from reenact.values.difference import first_difference, shown

ALL = "*"


class ToolsToday:
    """The tools that a program finds when it is run over a recording."""

    def __init__(self, plan: SessionPlan, source: LiveSource, redactor: Redactor, execute: Collection[str]) -> None:
        self._plan = plan
        self._source = source
        self._redactor = redactor
        self._execute = frozenset([execute] if isinstance(execute, str) else execute)
        self._refuse_unknown()

    def _refuse_unknown(self) -> None:
        """A name that no tool has would run nothing, and a test that runs nothing always passes."""
        for name in sorted(self._execute - {ALL}):
            if self._plan.find(name, None) is None:
                raise UsageError(
                    f"execute names {name!r}, which is no skill here; name ids of skills, or {ALL!r} for all"
                )

    async def check(self, call: RecordedCall, asked: Asked) -> None:
        """Diverged where the tool of a recorded call is not what it was."""
        skill = asked.skill or self._plan.find(asked.skill_id, asked.version)
        changed = change_of(call, skill)
        if changed is not None:
            raise self._diverged("changed_tool", call, asked, changed)
        if skill is not None and not self._execute.isdisjoint((ALL, skill.skill_id)):
            await self._run_again(call, asked)

    async def _run_again(self, call: RecordedCall, asked: Asked) -> None:
        """The tool's own code on the recorded arguments, attempt by attempt. What a gate refused was never run."""
        step = self._plan.from_trace(call.trace, asked.parameters, None)
        missing = self._source.missing_secret(step, asked.parameters)
        if missing is not None:
            raise SecretError(f"{call.name}: {step.reference} is to be run, and its secret {missing} is not set")
        made = [attempt for attempt in call.trace.attempts if attempt.kind == "attempt"]
        for attempt in made:
            again = self._attempt_call(call, step, asked, attempt.attempt)
            result = await self._source.attempt(again)
            self._compare_code(call, asked, attempt, code_of(again, result), result)
        if made and call.trace.state == "COMPLETED" and made[-1].code in ("OK", step.success_code):
            self._compare_output(call, asked, result.output, step)

    def _attempt_call(self, call: RecordedCall, step: PlannedStep, asked: Asked, number: int) -> AttemptCall:
        trace = call.trace
        assert trace.call is not None
        run_id = str(trace.meta("run_id"))
        return AttemptCall(
            run_id=run_id,
            original_run_id=run_id,
            trace_id=trace.trace_id,
            step=step,
            parameters=asked.parameters,
            attempt=number,
            idempotency_key=trace.call.idempotency_key,
            context=self._plan.context,
        )

    def _compare_code(
        self, call: RecordedCall, asked: Asked, attempt: Attempt, code: str, result: AttemptResult
    ) -> None:
        if code == attempt.code:
            return
        now = f"now it fails with {code}: {result.message or 'it says nothing'}"
        if code.startswith("OK"):
            now = f"now it gives {shown(self._redactor.mark(result.output))}"
        before = "it gave an answer" if str(attempt.code).startswith("OK") else f"it failed with {attempt.code}"
        raise self._diverged(
            "other_result",
            call,
            asked,
            f"{before}, and {self._redactor.redact_text(now)}",
            recorded={"code": attempt.code},
            got={"code": code},
        )

    def _compare_output(self, call: RecordedCall, asked: Asked, output: object, step: PlannedStep) -> None:
        recorded = self._redactor.decrypt(call.step.outcome().output)
        if recorded is None or self._redactor.why_shut(recorded) is not None:
            return  # it was erased, or its key is not here: whoever is to get it is told so
        expected_to_differ = () if step.skill is None else step.skill.metadata.nondeterministic
        recorded, output = (without_fields(side, expected_to_differ) for side in (recorded, output))
        if is_as_recorded(self._redactor, recorded, output, step.redact_hints):
            return
        before, now = (self._redactor.mark(side, step.redact_hints) for side in (recorded, output))
        found = first_difference(before, now)
        raise self._diverged(
            "other_result",
            call,
            asked,
            f"its output is another one, {found or 'in what is like a secret'}",
            pointer=None if found is None else found.pointer,
            recorded={"output": before},
            got={"output": now},
        )

    def _diverged(
        self,
        kind: str,
        call: RecordedCall,
        asked: Asked,
        what: str,
        *,
        pointer: str | None = None,
        recorded: Document | None = None,
        got: Document | None = None,
    ) -> Diverged:
        return Diverged(
            f"{call.name} {call.skill_id}: {what}",
            kind=kind,
            lane=asked.path,
            place=asked.place,
            recorded={"skill_id": call.skill_id, **(recorded or {})},
            asked={"skill_id": asked.skill_id, **(got or {})},
            pointer=pointer,
        )


def change_of(call: RecordedCall, skill: Skill | None) -> str | None:
    """In what a tool is not the recorded one; None where it is. A tool that nobody had is still to be one."""
    version, digest = call.trace.meta("skill_version"), call.trace.meta("definition_digest")
    if skill is None:
        return None if digest is None else f"version {version} was called, and no skill of that name is here now"
    if digest is None:
        return f"nobody knew this tool then, and now it is {skill.metadata.reference}"
    if version != skill.metadata.version:
        return f"version {version} → {skill.metadata.version}"
    if not is_declared_as(skill, digest):
        return f"{skill.metadata.reference} declares something else now: its schemas, its class, its side effects, …"
    return None


def is_declared_as(skill: Skill, digest: object) -> bool:
    """Whether the declaration of a skill is the one whose digest was recorded."""
    return isinstance(digest, str) and skill.is_defined_as(digest)
