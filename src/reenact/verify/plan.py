"""The plan that a run names: does its hash recompute, and do the requests follow it?"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from typing import Any, Final

from msgspec import UNSET

from reenact.values.bounds import place_in
from reenact.values.canonical import canonicalize
from reenact.values.digest import digest
from reenact.values.ids import project_uuid7
from reenact.verify.lines import fit
from reenact.verify.payloads import Value
from reenact.verify.report import Problem, first_difference
from reenact.verify.shapes import (
    AcceptedSkill,
    ActionRequest,
    AnyArtifact,
    Event,
    Pinned,
    Plan,
    RequestMeta,
    Run,
    ToolEffect,
    WentOn,
)


def plan_hash(document: Any) -> str:
    """Over the pinned plan without its top-level `created_at`."""
    return "sha256:" + digest({key: value for key, value in document.items() if key != "created_at"})


def read_plan(document: Any) -> Plan | Problem:
    plan: Plan | Problem = fit(document, Plan, "PLAN_MISMATCH")
    return plan


def check_run_plan(document: Any, plan: Plan, run: Run) -> Problem | None:
    """The run record against the plan whose commitment it names."""
    return first_difference(
        "PLAN_MISMATCH",
        (
            ("plan_hash", plan_hash(document), run.plan_hash),
            ("plan_id", project_uuid7(plan.plan_id), run.plan_id),
            ("agent_id", project_uuid7(plan.agent_id), run.agent_id),
            ("steps_planned", len(plan.steps), run.steps_planned),
        ),
    )


def check_step(plan: Plan, meta: RequestMeta, mode: str, args: Value | None, outputs: Outputs) -> Iterator[Problem]:
    """A request of a planned run, and its arguments, against the step that stands at its place in the plan."""
    if meta.step_index >= len(plan.steps):
        yield Problem("PLAN_MISMATCH", "the plan has fewer steps", len(plan.steps), meta.step_index + 1)
        return
    step = plan.steps[meta.step_index]
    pinned = plan.context.pins.skills.get(f"{step.skill_id}@{step.skill_version}")
    difference = first_difference(
        "PLAN_MISMATCH",
        (
            ("the step at this place of the plan", step.step_id, meta.step_id),
            ("the step's skill", step.skill_id, meta.skill_id),
            ("the step's skill version", step.skill_version, meta.skill_version),
            ("the definition digest that the plan pins", pinned, meta.definition_digest),
        ),
    )
    if difference is not None:
        yield difference
    else:
        yield from check_arguments(step.parameters, args, mode, outputs)


def check_said(event: Event, said: Value | None, plan: Plan | None, run: Run | None) -> Problem | None:
    """An event whose payload has a form of its own."""
    if event.type == "pinned":
        return check_pinned(event, said, run)
    return check_accepted(event, said, plan) if event.type == "accept_changed" else check_went_on(event, said, run)


def check_pinned(event: Event, said: Value | None, run: Run | None) -> Problem | None:
    """A session calls a skill for the first time: only there pins are said so late."""
    if (run is not None and run.kind != "session") or event.data is None:
        return Problem("RUN_MISMATCH", "something was pinned, in a run of a plan or without saying what")
    found: Pinned | Problem | None = None if said is None else fit(said.value, Pinned, "PAYLOAD_CONTENT")
    return found if isinstance(found, Problem) else None


def check_accepted(event: Event, said: Value | None, plan: Plan | None) -> Problem | None:
    """Somebody let the run go on with a changed skill: it says who, and names the definition that the plan pins."""
    if event.who is None or event.data is None:
        return Problem("RUN_MISMATCH", "a changed skill was accepted, and nothing says by whom, or which")
    if said is None:
        return None
    skill: AcceptedSkill | Problem = fit(said.value, AcceptedSkill, "PAYLOAD_CONTENT")
    if isinstance(skill, Problem) or plan is None:  # a session's plan is known at its end
        return skill if isinstance(skill, Problem) else None
    pinned = plan.context.pins.skills.get(skill.skill)
    return first_difference("PLAN_MISMATCH", (("the definition that the plan pins", pinned, skill.pinned),))


def check_went_on(event: Event, said: Value | None, run: Run | None) -> Problem | None:
    """A program went on without the answer to a call: only a session's does, and it says how that was."""
    if (run is not None and run.kind != "session") or event.data is None:
        return Problem("RUN_MISMATCH", "a caller went on without an answer, in a run of a plan or without saying how")
    went: WentOn | Problem | None = None if said is None else fit(said.value, WentOn, "PAYLOAD_CONTENT")
    if not isinstance(went, WentOn):
        return went
    given = {name for name in ("waited_ms", "open_ms", "status", "message") if getattr(went, name) is not UNSET}
    of_why = {"cancelled": {"waited_ms", "open_ms"}, "waiting": {"status", "message"}, "answered": set[str]()}
    if given == of_why[went.why]:
        return None
    return Problem("PAYLOAD_CONTENT", f"a caller went on ({went.why}) with what is said of another way")


def aborts(plan: Plan, step_index: int) -> bool:
    """Whether the run ends when this step fails."""
    step = plan.steps[step_index] if step_index < len(plan.steps) else None
    return ((step and step.on_error) or plan.context.on_error or "abort") == "abort"


def check_parent(run: Run) -> Problem | None:
    """A replay or a fork names the run that it repeats; a live run names none; a dry run may do either."""
    if run.mode == "live" and run.kind == "session":
        return None  # one that goes on where another was ended names it
    if run.mode != "dry_run" and (run.mode == "live") != (run.parent_run is None):
        what = f"a run of mode {run.mode} {'names' if run.parent_run else 'does not name'} a parent_run"
        return Problem("RUN_MISMATCH", what, None, run.parent_run)
    if run.key_run not in (UNSET, run.run_id) and run.parent_run is None:
        return Problem("RUN_MISMATCH", "the key_run of a run that continues no other", run.run_id, run.key_run)
    return None


class CallsMade:
    """What a session's requests say, in order: the plan that it assembled must say the same.

    Digests of the calls with and without the names of what they were made with, since earlier releases wrote none.
    """

    def __init__(self) -> None:
        self._plain, self._named = sha256(), sha256()

    def add(self, request: ActionRequest) -> None:
        meta, named = request.meta, request.proposal.args.get("$commit")
        call = [meta.step_id, meta.skill_id, meta.skill_version]
        self._plain.update(canonicalize(call))
        self._named.update(canonicalize([*call, named, None if meta.key is UNSET else meta.key]))

    def held_against(self, plan: Plan) -> tuple[str, str]:
        """(what the plan says of the calls, what the requests say)."""
        of_plan, names = sha256(), any(commitment_in(step.parameters) for step in plan.steps)
        for step in plan.steps:
            call = [step.step_id, step.skill_id, step.skill_version]
            named = [commitment_in(step.parameters), commitment_in(step.idempotency_key)] if names else []
            of_plan.update(canonicalize([*call, *named]))
        return of_plan.hexdigest(), (self._named if names else self._plain).hexdigest()


def commitment_in(value: Any) -> str | None:
    """The commitment in `{"$commit": …}`, by which a session's plan names a value; None of anything else."""
    named = value.get("$commit") if isinstance(value, dict) and len(value) == 1 else None
    return named if isinstance(named, str) else None


def is_whole(copy: Any, stored: Any, value_of: Callable[[str], Value | None]) -> bool:
    """Whether `copy` is a session's plan with the values that it names in the place of their names."""
    if not isinstance(copy, dict) or not isinstance(copy.get("steps"), list):
        return False
    steps = stored["steps"]
    around = canonicalize({**copy, "steps": []}), canonicalize({**stored, "steps": []})  # 1 is not true
    if len(steps) != len(copy["steps"]) or around[0] != around[1]:
        return False
    return all(
        canonicalize(step) == canonicalize(whole_step(named, value_of))
        for step, named in zip(copy["steps"], steps, strict=True)
    )


def whole_step(step: dict[str, Any], value_of: Callable[[str], Value | None]) -> dict[str, Any]:
    whole = dict(step)
    arguments, key = commitment_in(step.get("parameters")), commitment_in(step.get("idempotency_key"))
    if arguments is not None:
        found = value_of(arguments)
        whole["parameters"] = {"$erased": arguments} if found is None else found.value
    if key is not None:
        found = value_of(key)
        whole = {name: value for name, value in whole.items() if name != "idempotency_key"}
        if found is not None:
            whole["idempotency_key"] = found.value
    return whole


# -- the arguments of a step, computed again: docs/spec/payloads.md ---------------------------------------------------

REFERENCE: Final = re.compile(r"\{\{([^{}]++)\}\}")
REDACTED: Final = "[redacted]"
LIVE: Final = frozenset({"live"})
AS_PLANNED: Final = frozenset({"live", "full_replay", "fork"})
"""Modes in which a step without references is called with what its plan says."""


class NotKnown(Exception):
    """An output that a reference leads to was erased, or left out."""


class LeadsNowhere(Exception):
    """A reference whose step has no output, or not there."""


class Outputs:
    """What earlier steps returned: by step id the commitment, None of one that did not succeed."""

    def __init__(self, commitments: Mapping[str, str | None], value_of: Callable[[str], Value | None]) -> None:
        self._commitments = commitments
        self._value_of = value_of

    def at(self, path: str) -> Any:
        """What `step.path` leads to. A step id may hold dots: the longest that is known wins."""
        parts = path.split(".")
        known = [length for length in range(len(parts), 0, -1) if ".".join(parts[:length]) in self._commitments]
        if not known:
            raise LeadsNowhere
        commitment = self._commitments[".".join(parts[: known[0]])]
        if commitment is None:
            raise LeadsNowhere
        found = self._value_of(commitment)
        if found is None:
            raise NotKnown
        value = found.value
        for part in parts[known[0] :]:
            value = below(value, part)
        return value


def below(value: Any, part: str) -> Any:
    if isinstance(value, dict) and part in value:
        return value[part]
    index = place_in(value, part) if isinstance(value, list) else None
    if index is None:
        raise LeadsNowhere
    return value[index]


def check_arguments(planned: Any, recorded: Value | None, mode: str, outputs: Outputs) -> Iterator[Problem]:
    """The recorded arguments of a step against what its plan and the outputs come to."""
    if recorded is None or not isinstance(planned, dict):
        return
    refers = any(True for _ in texts_with_references(planned))
    if mode not in (LIVE if refers else AS_PLANNED):
        return
    try:
        expected = resolved(planned, outputs) if refers else planned
    except NotKnown:
        return
    except LeadsNowhere:
        expected = planned
    place = first_other(expected, recorded.value)
    # What a reference led nowhere in is refused with what the plan says, and may stand there as it does in the plan.
    if place is not None and first_other(planned, recorded.value) is not None:
        what = "the arguments are not what the plan and the outputs of earlier steps come to"
        yield Problem("ARGUMENTS_MISMATCH", f"{what}, at {place or 'the top'}")


def texts_with_references(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if "{{" in value and REFERENCE.search(value):
            yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from texts_with_references(item)


def resolved(value: Any, outputs: Outputs) -> Any:
    if isinstance(value, str):
        return resolved_text(value, outputs) if "{{" in value else value
    if isinstance(value, dict):
        return {key: resolved(item, outputs) for key, item in value.items()}
    return [resolved(item, outputs) for item in value] if isinstance(value, list) else value


def resolved_text(text: str, outputs: Outputs) -> Any:
    whole = REFERENCE.fullmatch(text.strip())
    if whole is not None:
        return inert(outputs.at(whole[1].strip()))

    def put_in(match: re.Match[str]) -> str:
        found = outputs.at(match[1].strip())
        if '{"$sealed":' in canonicalize(found).decode():
            raise NotKnown
        return found if isinstance(found, str) else canonicalize(found).decode()

    return REFERENCE.sub(put_in, text)


def inert(value: Any) -> Any:
    """A value from outside: its keys that begin with `$` have one more; what is encrypted stays as it is."""
    if isinstance(value, dict):
        if is_encrypted(value):
            return value
        return {"$" + key if key.startswith("$") else key: inert(item) for key, item in value.items()}
    return [inert(item) for item in value] if isinstance(value, list) else value


def is_encrypted(value: Any) -> bool:
    return isinstance(value, dict) and len(value) == 1 and isinstance(value.get("$sealed"), str)


def first_other(expected: Any, recorded: Any, place: str = "") -> str | None:
    """The JSON Pointer of the first place at which the recorded value cannot come from the expected one."""
    if is_encrypted(recorded) or is_encrypted(expected) or recorded == REDACTED:
        return None
    if isinstance(expected, dict) and isinstance(recorded, dict):
        if any(REDACTED in key for key in recorded):
            return None
        if expected.keys() != recorded.keys():
            return place
        found = (first_other(item, recorded[key], f"{place}/{key}") for key, item in expected.items())
    elif isinstance(expected, list) and isinstance(recorded, list):
        if len(expected) != len(recorded):
            return place
        pairs = enumerate(zip(expected, recorded, strict=True))
        found = (first_other(*pair, f"{place}/{index}") for index, pair in pairs)
    else:
        return None if same_scalar(expected, recorded) else place
    return next((other for other in found if other is not None), None)


def same_scalar(expected: Any, recorded: Any) -> bool:
    if isinstance(expected, str) and isinstance(recorded, str) and REDACTED in recorded:
        return in_order(recorded.split(REDACTED), expected)
    return canonicalize(expected) == canonicalize(recorded)


def in_order(pieces: list[str], text: str) -> bool:
    """The pieces that redaction left stand in the text, the first at its beginning and the last at its end."""
    first, *middle, last = pieces
    if not text.startswith(first) or not text[len(first) :].endswith(last):
        return False
    at, end = len(first), len(text) - len(last)
    for piece in middle:
        found = text.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True


def output_of(last: AnyArtifact) -> str | None:
    """The commitment of what a call that completed returned."""
    return last.document_hashes[0].hash if isinstance(last, ToolEffect) and last.document_hashes else None
