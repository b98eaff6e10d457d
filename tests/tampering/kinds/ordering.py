"""Lines in another order than the format has them, and steps that are missing, in runs that their owner signed anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

from tools.vectors.pieces import at, uid
from tools.vectors.scenarios import CHANGES, FETCH
from tools.vectors.writer import Run

from tests.tampering.forging import Forgery, Record
from tests.tampering.kinds.contradictions import made
from tests.tampering.kinds.kind import Kind
from tests.tampering.kinds.signed import signed
from tests.verify.test_contradictions import finish, new_run


def said(kind: str) -> Record:
    record = {"schema": "reenact.event.v1", "type": kind, "ts": at(0), "who": None, "reason": None}
    return {"kind": "event", "event": {**record, "trace_id": None, "data": None}}


def late_event(forgery: Forgery) -> None:
    """At the end of the first commit, after its calls."""
    forgery.lines.insert([line["kind"] for line in forgery.lines].index("commit", 1), said("verify"))


def after_the_end(forgery: Forgery) -> None:
    forgery.lines += [dict(forgery.lines[0]), said("verify")]


def twice(kind: str) -> Callable[[Forgery], None]:
    def changed(forgery: Forgery) -> None:
        place = [line["kind"] for line in forgery.lines].index(kind)
        forgery.lines.insert(place, deepcopy(forgery.lines[place]))

    return changed


def of_trace(forgery: Forgery, commit: int) -> tuple[int, list[Record], list[Record]]:
    """(where it begins, the lines of its first trace, those of its second) of a commit of a session."""
    begin = [number for number, line in enumerate(forgery.lines) if line["kind"] == "commit"][commit]
    end = [number for number, line in enumerate(forgery.lines) if line["kind"] == "commit"][commit + 1]
    lines = [line for line in forgery.lines[begin:end] if line["kind"] in ("entry", "attempt")]
    first = _trace(lines[0])
    return begin, [each for each in lines if _trace(each) == first], [each for each in lines if _trace(each) != first]


def _trace(line: Record) -> Any:
    return (line.get("entry") or line["attempt"])["trace_id"]


def mixed(forgery: Forgery) -> None:
    """The lines of two calls by turns."""
    begin, one, other = of_trace(forgery, 0)
    by_turns = [line for pair in zip(one, other, strict=True) for line in pair]
    forgery.lines[begin + 2 : begin + 2 + len(by_turns)] = by_turns


def second_first(forgery: Forgery) -> None:
    begin, one, other = of_trace(forgery, 1)
    forgery.lines[begin + 1 : begin + 1 + len(one) + len(other)] = [*other, *one]


def one_of_two() -> Run:
    """Sealed as completed after the first of two steps."""
    run = new_run(FETCH, {**FETCH, "step_id": "again"})
    finish(run, run.step(0).request(risk="READ", public=["method"]).approve().call())
    run.seal()
    return run


def side_by_side() -> Run:
    run = new_run(FETCH, {**FETCH, "step_id": "again"})
    first = run.step(0).request(risk="READ", public=["method"]).approve().call()
    run.commit()
    second = run.step(1).request(risk="READ", public=["method"]).approve().call()
    run.commit()
    finish(run, first)
    finish(run, second)
    run.seal()
    return run


def failed(**seal: Any) -> Callable[[], Run]:
    def make() -> Run:
        run = new_run()
        trace = run.step(0).request(risk="READ", public=["method"]).approve().call()
        trace.attempt("ERR_HTTP_404", facts={"http_status": 404}).effect("ERR_HTTP_404", status="failure")
        run.seal("failed", change=seal)
        return run

    return make


def expired(*, sent: bool) -> Callable[[], Run]:
    """A call long after its approval: sent and then refused, or not sent and then done."""

    def make() -> Run:
        run = new_run()
        trace = run.step(0).request(risk="READ", public=["method"]).approve()
        run.wait(3_600_000)
        trace.call()
        if sent:
            trace.attempt("ERR_HTTP_404", facts={"http_status": 404})
            trace.effect("ERR_PERMISSION_DENIED", status="failure", raw="DENIED")
        else:
            trace.effect("OK_HTTP_CALL", output=CHANGES)
        run.seal("failed" if sent else "completed")
        return run

    return make


def kinds() -> Iterator[Kind]:
    yield Kind("an event after the calls of its commit, signed", "plan without views", signed(late_event))
    yield Kind("a commit after the seal, chained and signed", "plan without views", signed(after_the_end))
    yield Kind("a checkpoint twice, signed", "session without views", signed(twice("checkpoint")))
    yield Kind("the lines of two calls mixed, signed", "session without views", signed(mixed))
    yield Kind("two calls in another order, signed", "session without views", signed(second_first))
    yield Kind("a commit of another run's name, signed", "plan without views", signed(_renamed))
    yield made("a run completed after the first of two steps", one_of_two)
    yield made("two steps of a plan side by side", side_by_side)
    yield made("a failed run that counts no trace", failed(traces=0))
    yield made("a failed run that counts more steps", failed(steps_planned=2))
    yield made("a call sent after its permission ended, and refused then", expired(sent=True))
    yield made("a call not sent after its permission ended, and done", expired(sent=False))


def _renamed(forgery: Forgery) -> None:
    forgery.records("commit")[1]["run_id"] = uid(0x66)
