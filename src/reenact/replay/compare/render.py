"""A replay's result as JSON and as text. Both hold only what is the same in every process: no ids, no times."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from reenact.policy.cost import PICODOLLARS_PER_CENT
from reenact.replay.compare.behaviour import ASPECTS
from reenact.replay.result import COMPUTED, SERVED, ReplayResult

MARK = {"match": "=", "mismatch": "≠", "undecided": "?", "not compared": "-"}


def comparison_document(result: ReplayResult) -> dict[str, object]:
    """The comparison as plain values, byte-identical for the same recording, policy and code."""
    comparison = result.comparison
    return {
        "schema": "reenact.replay_report.v1",
        "mode": result.mode,
        "original_run_id": result.original_run_id,
        "verdict": result.verdict,
        "reason": result.reason,
        "aspects": {} if comparison is None else msgspec.to_builtins(comparison.aspects),
        "steps": step_documents(result),
        "first_divergence": msgspec.to_builtins(result.divergence),
        "content": msgspec.to_builtins(result.content),
        "breakers": msgspec.to_builtins(result.breakers),
        "computed_again": list(COMPUTED),
        "served": list(SERVED) if result.mode == "mock_replay" else [],
        "estimate": msgspec.to_builtins(result.estimate),
    }


def step_documents(result: ReplayResult) -> list[dict[str, object]]:
    compared = {} if result.comparison is None else {step.step_id: step for step in result.comparison.steps}
    reports = {report.step_id: report for report in result.how}
    documents: list[dict[str, object]] = []
    for step_id in dict.fromkeys((*reports, *compared)):
        step, report = compared.get(step_id), reports.get(step_id)
        documents.append(
            {
                "step_id": step_id,
                "how": "not reached" if report is None else report.how,
                "served_without_code": [] if report is None else list(report.served_without_code),
                "note": "" if report is None else report.note,
                "cause": None if step is None else step.cause,
                "verdicts": {} if step is None else msgspec.to_builtins(step.verdicts),
                "differences": [] if step is None else msgspec.to_builtins(step.differences),
            }
        )
    return documents


def text_lines(result: ReplayResult) -> Iterator[str]:
    """What a person reads first: the verdict, what was live or served, then where it parted."""
    yield f"{result.mode} of run {result.original_run_id}: {result.verdict}"
    for breaker in result.breakers:
        yield f"  breaks determinism: {breaker.message}"
    if result.reason:
        yield f"  stopped: {result.reason}"
    if result.verdict == "not_compared":
        nothing = (
            "every step was taken from the record; --execute STEP and --retry-failed make calls"
            if result.mode == "full_replay" and result.how
            else "there is no step"
        )
        yield f"  nothing was compared: {nothing}"
    documents = step_documents(result)
    width = max((len(str(document["step_id"])) for document in documents), default=4)
    for document in documents:
        verdicts = document["verdicts"]
        assert isinstance(verdicts, dict)
        wrong = [aspect for aspect in ASPECTS if verdicts.get(aspect) == "mismatch"]
        world = " (the world)" if document["cause"] == "world" else ""
        said = f"differs in {', '.join(wrong)}{world}" if wrong else ("same" if verdicts else "")
        if "undecided" in verdicts.values() and not wrong:
            said = "not decided"
        note = f" ({document['note']})" if document["note"] else ""
        yield f"  {document['step_id']!s:<{width}}  {document['how']!s:<11}  {said}{note}".rstrip()
    yield from estimate_lines(result)
    if result.comparison is not None:
        yield "  aspects: " + "  ".join(f"{aspect} {MARK[result.comparison.aspects[aspect]]}" for aspect in ASPECTS)
    if result.divergence is not None:
        yield f"  first divergence: {result.divergence.explanation}"
    for difference in result.content:
        yield f"  content differs (does not count): step {difference.step_id} at {', '.join(difference.pointers)}"
    yield from served_lines(result)


def estimate_lines(result: ReplayResult) -> Iterator[str]:
    estimate = result.estimate
    if estimate is None:
        return
    for step in estimate.steps:
        touches = ", ".join(f"{kind} → {target}" for kind, target in step.side_effects) or "nothing"
        time = "unknown time" if step.time_ms is None else f"{step.time_ms} ms"
        asks = "; a person would be asked" if step.asks_person else ""
        yield f"  {step.step_id}: {step.code}, {cents_of(step.cost_exact)} cents, {time}, touches {touches}{asks}"
    time = "unknown time" if estimate.time_ms is None else f"{estimate.time_ms} ms"
    stop = "" if estimate.budget_stops_at is None else f"; the budget would stop it at step {estimate.budget_stops_at}"
    yield f"  in all about {estimate.cost_cents} cents and {time}{stop}"


def cents_of(exact: str) -> str:
    """Picodollars as cents, exactly."""
    whole, rest = divmod(int(exact), PICODOLLARS_PER_CENT)
    return f"{whole}.{rest:010d}".rstrip("0").rstrip(".")


def served_lines(result: ReplayResult) -> Iterator[str]:
    if result.mode == "mock_replay":
        yield f"  computed again: {', '.join(COMPUTED)}"
        yield f"  served from the record: {', '.join(SERVED)}"
    without = [report.step_id for report in result.how if report.served_without_code]
    if without:
        parts = result.how[[report.step_id for report in result.how].index(without[0])].served_without_code
        yield f"  no code for {', '.join(without)}: also served are {', '.join(parts)}"
