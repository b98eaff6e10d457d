"""Two sides of one story: what was recorded, and what another policy, plan, skill or value made of it, call by call."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, Literal

from msgspec import Struct, to_builtins

from reenact.policy.cost import dollars
from reenact.record.document import ending, skill_name
from reenact.record.reader import RecordedStep, steps_of
from reenact.record.recording import Recording
from reenact.record.result import RunResult
from reenact.replay.compare.behaviour import behaviour_of
from reenact.replay.compare.compare import StepComparison, compare
from reenact.trace.from_journal import BAD, GOOD, UNVERSIONED, marked, utility_of
from reenact.trace.hashing import canonical_hash

Kind = Literal["shadow", "fork", "diff"]
SCHEMA: Final = "reenact.counterfactual.v1"
SKIPPED: Final = "DENIED_DUPLICATE"


class CallSide(Struct, frozen=True, kw_only=True):
    """One call on one side. `basis` says whether its result was recorded, or assumed since nobody knows it."""

    tool: str
    params_hash: str | None
    made: bool
    """Whether it was sent, or would be: no gate refused it."""
    status: str | None
    code: str | None
    cost_exact: str
    step_utility: float
    basis: str = "recorded"
    asks_person: bool = False


class CallRow(Struct, frozen=True, kw_only=True):
    """One step on both sides; None where that side does not come to it."""

    step_id: str
    production: CallSide | None
    candidate: CallSide | None
    differs_in: tuple[str, ...]
    """Aspects of behaviour, and `asks_person`."""


class Side(Struct, frozen=True, kw_only=True):
    """What one side comes to."""

    name: str
    run_id: str | None
    status: str
    policy: str
    calls: dict[str, CallSide]
    steps: dict[str, Any]

    @classmethod
    def of(
        cls,
        name: str,
        run_id: str | None,
        status: str,
        document: Mapping[str, Any],
        steps: Mapping[str, RecordedStep],
        basis: Mapping[str, str] | None = None,
        asks: Collection[str] = (),
    ) -> Side:
        calls = {
            step_id: call_side(step, (basis or {}).get(step_id, "recorded"), asks_person=step_id in asks)
            for step_id, step in steps.items()
        }
        context = document.get("context")
        said = context.get("policy_version") if isinstance(context, dict) else None
        policy = said if isinstance(said, str) else UNVERSIONED
        return cls(name=name, run_id=run_id, status=status, policy=policy, calls=calls, steps=dict(steps))

    @property
    def made(self) -> int:
        return sum(call.made for call in self.calls.values())

    @property
    def refused(self) -> int:
        return len(self.calls) - self.made

    @property
    def assumed(self) -> int:
        """Calls of whose result nobody knows: what the side comes to rests on them."""
        return sum(call.basis == "assumed" for call in self.calls.values())

    @property
    def cost_exact(self) -> int:
        return sum(int(call.cost_exact) for call in self.calls.values())

    @property
    def average_utility(self) -> float:
        worth = [call.step_utility for call in self.calls.values()]
        return round(sum(worth) / len(worth), 6) if worth else 0.0


class Counterfactual(Struct, frozen=True, kw_only=True):
    kind: Kind
    production: Side
    candidate: Side
    rows: tuple[CallRow, ...]
    refused: str | None = None
    """Why the candidate's policy lets nothing run at all."""

    @property
    def parts_at(self) -> CallRow | None:
        """The first call that is not the same."""
        return next((row for row in self.rows if row.differs_in), None)

    @property
    def same(self) -> bool:
        return self.parts_at is None and self.refused is None

    @property
    def utility_delta(self) -> float:
        return round(self.candidate.average_utility - self.production.average_utility, 6)


def counterfactual(kind: Kind, production: Side, candidate: Side, refused: str | None = None) -> Counterfactual:
    ours = [behaviour_of(step) for step in production.steps.values()]
    theirs = [behaviour_of(step) for step in candidate.steps.values()]
    rows = tuple(
        CallRow(
            step_id=step.step_id,
            production=production.calls.get(step.step_id),
            candidate=candidate.calls.get(step.step_id),
            differs_in=differing(step, candidate.calls.get(step.step_id)),
        )
        for step in compare(ours, theirs).steps
    )
    return Counterfactual(kind=kind, production=production, candidate=candidate, rows=rows, refused=refused)


def differing(step: StepComparison, candidate: CallSide | None) -> tuple[str, ...]:
    found: dict[str, None] = dict.fromkeys(each.aspect for each in step.differences)
    if candidate is not None and candidate.asks_person:
        found["asks_person"] = None
    return tuple(found)


def both(left: Recording, right: Recording, kind: Kind = "diff") -> Counterfactual:
    """Two recordings: the second one is held against the first."""
    ours = Side.of("recorded", left.run_id, left.status, left.document, left.steps)
    theirs = Side.of(f"run {right.run_id}", right.run_id, right.status, right.document, right.steps)
    return counterfactual(kind, ours, theirs)


def of_fork(recording: Recording, result: RunResult, document: Mapping[str, Any]) -> Counterfactual:
    """A fork, which may have ended where nobody knows what would have come, against the run that it is of."""
    ours = Side.of("recorded", recording.run_id, recording.status, recording.document, recording.steps)
    steps = steps_of(result.store, result.run_id)
    theirs = Side.of(f"fork {result.run_id}", result.run_id, result.status, document, steps)
    return counterfactual("fork", ours, theirs)


def call_side(step: RecordedStep, basis: str, *, asks_person: bool) -> CallSide:
    end, last = ending(step), step.trace.effect or step.trace.decision
    good = end["status"] in ("success", "partial")
    default = 0.0 if end["code"] == SKIPPED or end["status"] is None else GOOD if good else BAD
    meta = last.meta if last is not None and isinstance(last.meta, dict) else {}
    parameters = step.parameters()
    return CallSide(
        tool=skill_name(step.trace.meta("skill_id"), step.trace.meta("skill_version")),
        params_hash=None if parameters is None else canonical_hash(marked(parameters)),
        made=step.trace.call is not None,
        status=end["status"],
        code=end["code"],
        cost_exact=end["cost_exact"],
        step_utility=utility_of(meta, default),
        basis=basis,
        asks_person=asks_person,
    )


# -- as documents ------------------------------------------------------------------------------------------------------


def as_document(found: Counterfactual) -> dict[str, object]:
    """For programs; what stands under `counterfactual` is what other tools of this kind write."""
    production, candidate, parts = found.production, found.candidate, found.parts_at
    return {
        "schema": SCHEMA,
        "kind": found.kind,
        "production_policy": production.policy,
        "shadow_policy": candidate.policy,
        "counterfactual": {
            "production_tool_calls": production.made,
            "shadow_tool_calls": candidate.made,
            "production_success": production.status == "completed",
            "shadow_success": candidate.status == "completed",
            "step_utility_delta": found.utility_delta,
        },
        "same": found.same,
        "refused": found.refused,
        "parts_at": None if parts is None else {"step_id": parts.step_id, "differs_in": list(parts.differs_in)},
        "production": side_document(production),
        "candidate": side_document(candidate),
        "calls": [to_builtins(row) for row in found.rows],
    }


def side_document(side: Side) -> dict[str, object]:
    return {
        "name": side.name,
        "run_id": side.run_id,
        "status": side.status,
        "tool_calls": side.made,
        "refused": side.refused,
        "assumed": side.assumed,
        "cost_exact": str(side.cost_exact),
        "average_step_utility": side.average_utility,
    }


def text_lines(found: Counterfactual) -> Iterator[str]:
    """For a terminal: foreign text in it is made safe by whoever prints."""
    production, candidate, parts = found.production, found.candidate, found.parts_at
    yield f"{found.kind} of run {production.run_id}: {candidate.name}"
    if found.refused is not None:
        yield f"  nothing would run: {found.refused}"
    for side in (production, candidate):
        yield (
            f"  {side.name}: {side.status}, {side.made} calls, {side.refused} refused, {dollars(side.cost_exact)}, "
            f"utility {side.average_utility:g}{f'; {side.assumed} assumed' if side.assumed else ''}"
        )
    if parts is None:
        yield "  every call is decided alike" if found.refused is None else "  no call is made"
        return
    yield f"  they part at {parts.step_id}, in {', '.join(parts.differs_in)}; utility {found.utility_delta:+g}"
    for row in found.rows:
        if row.differs_in:
            yield f"  {row.step_id}: {side_text(row.production)} | {side_text(row.candidate)}"


def side_text(call: CallSide | None) -> str:
    if call is None:
        return "not reached"
    more = ", assumed" if call.basis == "assumed" else ""
    more += ", would ask a person" if call.asks_person else ""
    return f"{call.tool} {call.code or 'open'} {dollars(int(call.cost_exact))} {call.step_utility:+g}{more}"


def markdown(found: Counterfactual) -> Iterator[str]:
    production, candidate, parts = found.production, found.candidate, found.parts_at
    yield f"# {found.kind.capitalize()} of run {production.run_id}"
    yield ""
    yield (
        f"Candidate: {shown(candidate.name)}. It executed nothing."
        if found.kind == "shadow"
        else (f"Beside it: {shown(candidate.name)}.")
    )
    if found.refused is not None:
        yield f"Nothing of it would run: {shown(found.refused)}"
    yield ""
    yield "| | production | candidate |"
    yield "|---|---|---|"
    for name, of in (
        ("policy", lambda side: shown(side.policy)),
        ("status", lambda side: side.status),
        ("calls", lambda side: str(side.made)),
        ("refused", lambda side: str(side.refused)),
        ("assumed, as nobody knows the result", lambda side: str(side.assumed)),
        ("cost", lambda side: dollars(side.cost_exact)),
        ("average step utility", lambda side: f"{side.average_utility:g}"),
    ):
        yield f"| {name} | {of(production)} | {of(candidate)} |"
    yield ""
    if parts is None:
        yield "Every call is decided alike." if found.refused is None else "No call is made."
    else:
        yield (
            f"They part at `{shown(parts.step_id)}`, in {', '.join(parts.differs_in)}. The average step utility "
            f"changes by {found.utility_delta:+g}."
        )
    yield ""
    yield "| step | production | candidate | differs in |"
    yield "|---|---|---|---|"
    for row in found.rows:
        sides = (shown(side_text(row.production)), shown(side_text(row.candidate)))
        yield f"| {shown(row.step_id)} | {' | '.join(sides)} | {', '.join(row.differs_in)} |"
    yield ""


def shown(text: str) -> str:
    """Foreign text inside a line of markdown: it opens no fence, cell or tag."""
    plain = "".join(char if char.isprintable() else " " for char in text)
    return "".join(f"\\{char}" if char in "\\`|*_<>[]#" else char for char in plain)
