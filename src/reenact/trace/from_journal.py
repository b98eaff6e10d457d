"""A run's journal as a replay log and its receipt: docs/spec/replay_jsonl.md, "What Reenact writes".

Pure: the same lines and values give the same events, commit by commit. Lines are JSON objects that were verified
before; of the values, what redaction took out or an erasure took away is marked, and hashes cover what stands here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec import UNSET, Struct, field

from reenact.trace.cutting import output_preview
from reenact.trace.events import (
    MOST_ITERATIONS,
    PlanStart,
    ReplayEvent,
    ReplayHeader,
    SessionEnd,
    SessionStart,
    SessionStatus,
    StepComplete,
    StepStatus,
    ToolCall,
    ToolResult,
    Verification,
    parse_time,
)
from reenact.trace.hashing import canonical_hash
from reenact.trace.receipt import ReceiptToolCall, ReceiptVerification, SessionReceipt
from reenact.values.envelope import Archived

Line = Mapping[str, Any]
Value = Callable[[str], object]
"""What lies behind a commitment; Archived where it was moved to a bundle, LookupError where it was erased."""


UNVERSIONED: Final = "unversioned"
"""The policy_version of a run that names none."""
GOOD: Final = 0.2
BAD: Final = -0.4
"""What a call is worth, where nobody said: done, or failed. One that was left out is worth nothing."""
MARK: Final = "[redacted]"
MOST_EXIT_CODE: Final = 2**31 - 1
STATUSES: Final = {"completed": SessionStatus.Success, "failed": SessionStatus.Failed}
BY: Final = {"late": "late", "synthesized": "synthesized", "resolve": "person"}


class Called(Struct):
    """A call whose result is not there yet."""

    step_id: str
    tool: str
    params_hash: str
    made: int = 0
    """Attempts that came back."""
    took_ms: int = 0
    served: bool = False
    side_effects: list[dict[str, object]] = field(default_factory=list)
    by: str | None = None
    """Who ended it, where no attempt did."""
    said_at: int = 0
    """How many attempts there were when somebody said so."""


class Totals(Struct):
    calls: int = 0
    latency_ms: int = 0
    cost_cents: int = 0
    cost_exact: int = 0
    tokens: int = 0


class FromJournal:
    """One run, followed from its first commit on. `take` gets each call that has its result, for the receipt."""

    def __init__(self, value: Value, take: Callable[[ReceiptToolCall], object] | None = None) -> None:
        self._value = value
        self._take = take
        self._run: Line = {}
        self._context: Line = {}
        self._plan: Line = {}
        self._plan_gone: str | None = None
        self._open: dict[str, Called] = {}
        self._requested = 0
        self._confidence: float | None = None
        self._timed_out = False
        self._totals = Totals()
        self._commands: list[str] = []
        self._codes: list[int] = []
        self._delta = 0
        self._passed: int | None = None
        self._seal: Line | None = None

    def commit(self, lines: Iterable[Line]) -> Iterator[ReplayEvent]:
        """The events of the next commit."""
        whole = list(lines)
        for line in whole:
            kind = line["kind"]
            if kind == "run":
                yield from self._begin(line["run"], whole)
            elif kind == "event":
                yield from self._event(line["event"])
            elif kind == "attempt":
                self._attempt(line["attempt"])
            elif kind == "entry":
                yield from self._entry(line["entry"], line["artifact"])
            elif kind == "seal":
                yield from self._end(line["seal"])

    # -- the run -----------------------------------------------------------------------------------------------------

    def _begin(self, run: Line, lines: list[Line]) -> Iterator[ReplayEvent]:
        if run["kind"] == "trace":  # another runtime's, whose calls have no steps and no outcomes
            return
        self._run, at = run, run["started_at"]
        opening = next((line["event"] for line in lines if line["kind"] == "event"), {"data": None})
        self._plan, self._plan_gone = self._object(run["plan"] if run["kind"] == "plan" else opening["data"])
        self._context = as_object(self._plan.get("context"))
        session = as_object(self._plan.get("session")).get("id")
        more = {"agent_id": run["agent_id"], "mode": run["mode"], "plan_id": run["plan_id"]}
        yield ReplayHeader(producer=f"reenact@{run['reenact_version']}", created_at=at)
        yield SessionStart(
            t=at,
            session_id=run["run_id"],
            policy_version=self._policy_version,
            issue_number=self._issue_number,
            extra=more if session is None else {**more, "session": session},
        )
        if run["kind"] == "plan":
            yield PlanStart(t=at, plan_hash=run["plan_hash"], step_count=run["steps_planned"])

    @property
    def goal(self) -> str | None:
        """What the run is for, where it says so and that was not erased."""
        said = marked(self._plan.get("goal"))
        return said if isinstance(said, str) and said else None

    @property
    def _policy_version(self) -> str:
        said = self._context.get("policy_version")
        return self._plan_gone or (said if isinstance(said, str) else UNVERSIONED)

    @property
    def _issue_number(self) -> int | None:
        said = self._context.get("issue_number")
        return said if isinstance(said, int) else None

    def _end(self, seal: Line) -> Iterator[ReplayEvent]:
        if not self._run:
            return
        self._seal, at = seal, seal["sealed_at"]
        if self._run["kind"] == "session":
            yield PlanStart(t=at, plan_hash=seal["plan_hash"], step_count=seal["steps_planned"])
        else:
            for step in as_list(self._plan.get("steps"))[self._requested :]:
                step_id = as_object(step).get("step_id")
                yield StepComplete(t=at, step_id=str(step_id), status=StepStatus.Skipped, iterations=0)
        stopped = SessionStatus.Timeout if self._timed_out else SessionStatus.Cancelled
        yield SessionEnd(
            t=at,
            status=STATUSES.get(seal["status"], stopped),
            confidence=self._final_confidence or 0.0,
            total_tool_calls=self._totals.calls,
            total_latency_ms=self._totals.latency_ms,
            extra={"seal_digest": seal["seal_digest"]},
        )

    @property
    def _final_confidence(self) -> float | None:
        planned = self._context.get("confidence")
        return self._confidence if self._confidence is not None else as_number(planned)

    def _event(self, event: Line) -> Iterator[ReplayEvent]:
        kind, call = event["type"], self._open.get(event["trace_id"] or "")
        if call is not None and kind in BY:
            call.by, call.said_at = BY[kind], call.made
        elif kind == "cancel":
            said, _ = self._object(event["data"])
            self._timed_out = event["who"] is None and "time_limit_ms" in said
        elif kind == "finish":
            said, _ = self._object(event["reason"])
            self._confidence = as_number(said.get("confidence"))
        elif kind == "verify":
            said, gone = self._object(event["data"])
            if "schema" not in said:  # how a replay compared, which nobody ran a command for
                yield self._verification(event["ts"], marked(said), gone)

    def _verification(self, at: str, said: Any, gone: str | None) -> Verification:
        commands = [each if isinstance(each, str) else MARK for each in as_list(said.get("commands"))]
        codes = [each for each in as_list(said.get("exit_codes")) if isinstance(each, int)]
        delta = said.get("verification_delta")
        delta = delta if isinstance(delta, int) else 0
        self._commands += commands
        self._codes += codes
        self._delta += delta
        self._passed = sum(code == 0 for code in codes)
        more = {name: said[name] for name in ("lane", "outputs") if name in said}
        extra = more if gone is None else {gone: True}
        return Verification(t=at, commands=commands, exit_codes=codes, verification_delta=delta, extra=extra)

    # -- calls -------------------------------------------------------------------------------------------------------

    def _entry(self, entry: Line, artifact: Line) -> Iterator[ReplayEvent]:
        kind = entry["artifact_type"]
        if not self._run:
            return
        if kind == "action_request":
            yield self._call(entry, artifact)
        elif kind == "supervisor_decision" and artifact["decision"] == "DENY":
            yield from self._denied(entry, artifact)
        elif kind == "tool_effect":
            yield from self._effect(entry, artifact)

    def _call(self, entry: Line, request: Line) -> ToolCall:
        meta = request["meta"]
        params = self._marked(request["proposal"]["args"]["$commit"])
        hashed = canonical_hash(params)
        self._open[entry["trace_id"]] = Called(meta["step_id"], meta["skill_id"], hashed)
        self._requested += 1
        self._totals.calls += 1
        more = {"entry_digest": entry["entry_digest"], "tool_version": meta["skill_version"], "turn": meta["turn"]}
        return ToolCall(
            t=request["ts"],
            id=entry["trace_id"],
            tool=meta["skill_id"],
            params=params,
            params_hash=hashed,
            step_id=meta["step_id"],
            extra=more if "lane" not in meta else {**more, "lane": meta["lane"]},
        )

    def _attempt(self, record: Line) -> None:
        call = self._open.get(record["trace_id"])
        if call is None:
            return
        call.made += record["kind"] == "attempt"
        call.served = record["kind"] == "served"
        if record["kind"] == "attempt":
            call.took_ms = elapsed_ms(record["started_at"], record["ended_at"])
        call.side_effects += [{"target": each["target"], "type": each["type"]} for each in record["side_effects"]]
        usage = as_object(as_object(record["facts"]).get("usage"))
        self._totals.tokens += (usage.get("input_tokens") or 0) + (usage.get("output_tokens") or 0)

    def _denied(self, entry: Line, decision: Line) -> Iterator[ReplayEvent]:
        """A gate's no is the result; an equal call that had succeeded is no failure."""
        meta, at = decision["meta"], decision["ts"]
        details, gone = self._object(meta["details"])
        message = marked(details.get("message")) if gone is None else GONE[gone]
        skipped = meta["code"] == "DENIED_DUPLICATE"
        result: dict[str, object] = {"content": None, "error": {"code": meta["code"], "message": message}}
        extra = {"code": meta["code"], "decision": "DENY", "gate": meta["gate"]}
        yield from self._result(
            entry, at, {**result, "success": False}, utility_of(meta, 0.0 if skipped else BAD), 0, extra
        )
        yield self._complete(entry, at, StepStatus.Skipped if skipped else StepStatus.Failed)

    def _effect(self, entry: Line, effect: Line) -> Iterator[ReplayEvent]:
        meta, at, call = effect["meta"], effect["ts"], self._open[entry["trace_id"]]
        places = {each["pointer"]: each["hash"] for each in effect["document_hashes"]}
        outcome, gone = self._object(places["/outcome"])
        good = meta["status"] in ("success", "partial")
        error = None
        if not good:
            message = marked(outcome.get("message")) if gone is None else GONE[gone]
            error = {"code": meta["code"], "message": message}
        result = {"content": self._marked(places["/output"]), "error": error, "success": good}
        took = outcome.get("latency_ms", meta.get("latency_ms"))
        extra = {"attempt": max(0, call.made - 1), "code": meta["code"], "cost_exact": meta["cost_exact"]}
        by = "key" if call.served else call.by if call.by != "person" or call.said_at == call.made else None
        if by is not None:
            extra["by"] = by
        latency = took if isinstance(took, int) else call.took_ms
        yield from self._result(entry, at, result, utility_of(meta, GOOD if good else BAD), latency, extra)
        self._totals.cost_cents += meta["cost_cents"]
        self._totals.cost_exact += int(meta["cost_exact"])
        failed = StepStatus.MaxIterationsReached if meta.get("retries_used_up") else StepStatus.Failed
        yield self._complete(entry, at, StepStatus.Success if good else failed)

    def _result(
        self, entry: Line, at: str, result: dict[str, object], utility: float, latency_ms: int, extra: dict[str, object]
    ) -> Iterator[ReplayEvent]:
        call, content = self._open[entry["trace_id"]], result["content"]
        hashed = canonical_hash(result)
        self._totals.latency_ms += latency_ms
        if self._take is not None:
            self._take(
                ReceiptToolCall(
                    id=entry["trace_id"],
                    tool=call.tool,
                    params_hash=call.params_hash,
                    output_hash=hashed,
                    step_utility=utility,
                    latency_ms=latency_ms,
                    side_effects=call.side_effects,
                )
            )
        yield ToolResult(
            t=at,
            id=entry["trace_id"],
            output_hash=hashed,
            step_utility=utility,
            latency_ms=latency_ms,
            exit_code=exit_code_of(content),
            output_preview=UNSET if content is None else output_preview(content),
            extra={**extra, "entry_digest": entry["entry_digest"]},
        )

    def _complete(self, entry: Line, at: str, status: StepStatus) -> StepComplete:
        call = self._open.pop(entry["trace_id"])
        more = {"iterations_total": call.made} if call.made > MOST_ITERATIONS else {}
        made = min(call.made, MOST_ITERATIONS)
        return StepComplete(t=at, step_id=call.step_id, status=status, iterations=made, extra=more)

    # -- values ------------------------------------------------------------------------------------------------------

    def _object(self, commitment: str | None) -> tuple[Line, str | None]:
        """The object behind a commitment; and what became of it, where it is not there."""
        try:
            return as_object(None if commitment is None else self._value(commitment)), None
        except LookupError as gone:
            return {}, word_for(gone)

    def _marked(self, commitment: str) -> object:
        try:
            return marked(self._value(commitment))
        except LookupError as gone:
            return GONE[word_for(gone)]

    # -- the receipt -------------------------------------------------------------------------------------------------

    def receipt(self, replay_hash: str) -> SessionReceipt | None:
        """Of the commits so far, but for its calls, which were taken; None of a run that has no replay log."""
        if not self._run:
            return None
        run, seal, totals = self._run, self._seal, self._totals
        passed = [code == 0 for code in self._codes]
        return SessionReceipt(
            session_id=run["run_id"],
            started_at=run["started_at"],
            completed_at=None if seal is None else seal["sealed_at"],
            policy_version=self._policy_version if self._plan else self._plan_gone or "erased",
            tool_calls=[],
            verification=ReceiptVerification(
                commands_run=self._commands,
                exit_codes=self._codes,
                verification_delta=self._delta,
                tests_before=None if self._passed is None else self._passed - self._delta,
                tests_after=self._passed,
                ci_status="skip" if not passed else "pass" if all(passed) else "fail",
            ),
            issue_number=self._issue_number,
            plan_hash=run["plan_hash"] if seal is None else seal["plan_hash"],
            final_confidence=self._final_confidence,
            costs={
                "cost_cents": totals.cost_cents,
                "cost_exact": str(totals.cost_exact),
                "total_sats": 0,
                "total_tokens": totals.tokens,
            },
            replay_hash=replay_hash,
            extra={
                "seal_digest": None if seal is None else seal["seal_digest"],
                "status": None if seal is None else seal["status"],
            },
        )


ERASED: Final[dict[str, object]] = {"$erased": True}
ARCHIVED: Final[dict[str, object]] = {"$archived": True}
GONE: Final = {"erased": ERASED, "archived": ARCHIVED}
"""What stands for a value that is not there, by what became of it."""
REDACTED: Final[dict[str, object]] = {"$redacted": True}


def word_for(gone: LookupError) -> str:
    return "archived" if isinstance(gone, Archived) else "erased"


def marked(value: object) -> object:
    """A recorded value as it may stand in a file that is handed on: nothing of a secret, nor what it was turned to."""
    if isinstance(value, dict):
        if len(value) == 1 and "$sealed" in value:
            return REDACTED
        return {key: marked(item) for key, item in value.items()}
    if isinstance(value, list):
        return [marked(item) for item in value]
    return REDACTED if value == MARK else value


def utility_of(meta: Line, otherwise: float) -> float:
    said = meta.get("step_utility")
    return otherwise if said is None else float(said)


def exit_code_of(content: object) -> int | None:
    """What a command ended with, where the tool's answer says that."""
    said = content.get("exit_code") if isinstance(content, dict) else None
    return said if type(said) is int and abs(said) <= MOST_EXIT_CODE else None


def elapsed_ms(started: str | None, ended: str | None) -> int:
    if started is None or ended is None:
        return 0
    took = parse_time(ended) - parse_time(started)
    return max(0, round(took.total_seconds() * 1000))


def as_object(value: object) -> Line:
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def as_number(value: object) -> float | None:
    return None if isinstance(value, bool) or not isinstance(value, int | float) else value
