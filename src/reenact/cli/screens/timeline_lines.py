"""The timeline that `reenact show` prints: a run's document as lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reenact.cli.screens.outcome_lines import STATUS_STYLE
from reenact.cli.screens.printing import Segment, brief, one_line, plural, short
from reenact.policy.cost import dollars

if TYPE_CHECKING:
    from reenact.record.document_shape import AttemptDocument, EventDocument, RunDocument, StepDocument

STATE_STYLE = {"COMPLETED": "green", "FAILED": "red", "DENIED": "red"}
DIM = "dim"
WORDS = {"APPROVE": "approved", "DENY": "denied"}
STANDS_STILL = {
    "waiting": "waits for a person to approve or deny it",
    "held": "stands still until somebody helps",
}
IN_DOUBT = {
    "interrupted": "was on its way when its process ended: it may or may not have happened",
    "cancelled": "was on its way when the run was cancelled: it may or may not have happened",
}


def timeline_lines(run: RunDocument) -> list[list[Segment]]:
    """Every line of a run that `read_document` has read: steps and events in the order in which they began."""
    lines, events = heading(run), list(run["events"])
    for step in run["steps"]:
        while events and events[0]["ts"] < step["started_at"]:
            lines += [[], event_line(events.pop(0))]
        lines += [[], *step_lines(step, shown_status(run))]
    lines += [[], *(event_line(event) for event in events), *ending(run)]
    return lines


def shown_status(run: RunDocument) -> str:
    """As `ls` says it: a run that counts as running and that nobody works on is interrupted."""
    return "interrupted" if run["interrupted"] else str(run["status"])


def heading(run: RunDocument) -> list[list[Segment]]:
    status = shown_status(run)
    planned = run["steps_planned"]
    steps = (
        f"{len(run['steps'])} of {plural(planned, 'step')}"
        if planned is not None
        else plural(len(run["steps"]), "call")
    )
    lines: list[list[Segment]] = [
        [("run   ", DIM), (run["run_id"], "bold"), ("  ", ""), (status, STATUS_STYLE.get(status, "yellow"))],
        [("plan  ", DIM), (plan_name(run), ""), (f"  {steps}, agent {one_line(run['agent_id'])}", "")],
    ]
    if run["plan_hash"] is not None:
        lines.append([("hash  ", DIM), (run["plan_hash"], "")])
    if run["mode"] != "live":
        of = "" if run["parent_run"] is None else f" of {run['parent_run']}"
        lines.append([("mode  ", DIM), (f"{run['mode']}{of}", "")])
    elif run["parent_run"] is not None:
        lines.append([("after ", DIM), (f"{run['parent_run']}, which it continues", "")])
    if run["continued_by"] is not None:
        lines.append([("then  ", DIM), (f"{run['continued_by']}, which continues it", "")])
    if run["replay"] is not None:
        wrong = [one_line(aspect) for aspect, matched in run["replay"]["behavior_match"].items() if not matched]
        where = f", in {', '.join(wrong)}" if wrong else ""
        lines.append([("match ", DIM), (f"{one_line(run['replay']['verdict'])}{where}", "")])
    lines.append([("since ", DIM), (run["started_at"], "")])
    return lines


def plan_name(run: RunDocument) -> str:
    """A session's plan has no name but the run's id."""
    if run["kind"] != "session":
        return one_line(run["plan_id"])
    return "session" if run["session"] is None else f"session {one_line(run['session'])}"


def step_head(step: StepDocument) -> list[Segment]:
    """The step in one line: where it stands, and with which code it ended."""
    state = step["state"]
    first: list[Segment] = [
        (f"{step['step_index'] + 1:>3} ", DIM),
        (step["step_id"], "bold"),
        (f"  {step['skill']}  ", ""),
        (state, STATE_STYLE.get(state, "yellow")),
    ]
    if step["code"] is not None:
        first.append((f"  {step['code']}", STATE_STYLE.get(state, "")))
    if step["cost_exact"] != "0":
        first.append((f"  {dollars(int(step['cost_exact']))}, charged as {plural(step['cost_cents'], 'cent')}", ""))
    return first


def step_lines(step: StepDocument, run_status: str) -> list[list[Segment]]:
    lines = [step_head(step)]
    rationale = None if step["decision"] is None else step["decision"]["rationale"]
    if step["message"] and step["message"] != rationale:
        lines.append([(f"      {brief(step['message'])}", "red")])
    if rationale is not None:
        lines.append([("      ", ""), (rationale, "")])
    if step["vote"] is not None:
        lines.append([("      ", ""), (one_line(vote_text(step["vote"])), "")])
    width = max((len(code_text(attempt)) for attempt in step["attempts"]), default=0)
    lines += [attempt_line(attempt, width) for attempt in step["attempts"]]
    if step["served_from"] is not None:
        lines.append([(f"      served from trace {step['served_from']}: nothing was sent", "")])
    if step["state"] == "PENDING" and step["vote"] is not None:
        lines.append([("      goes on with `reenact resume`", "yellow")])
    elif step["state"] == "EXECUTING" and run_status == "held":
        lines.append([("      was sent, and has no answer: it may or may not have happened", "yellow")])
    elif step["code"] is None and run_status in STANDS_STILL:
        lines.append([(f"      {STANDS_STILL[run_status]}", "yellow")])
    elif step["state"] == "EXECUTING" and run_status in IN_DOUBT:
        lines.append([(f"      {IN_DOUBT[run_status]}", "yellow")])
    pins = "  ".join(f"{name} {short(digest)}" for name, digest in step["digests"].items())
    lines.append([("      ", ""), (pins, DIM)])
    return [*lines, *value_lines(step)]


def value_lines(step: StepDocument) -> list[list[Segment]]:
    """A call that returned nothing has no output; null is what one returned."""
    lines: list[list[Segment]] = []
    for name in ("parameters", "output"):
        if name in step.get("absent", ()):
            lines.append([(f"      {name} ", DIM), ("(erased, archived, or not exported)", "yellow")])
        elif name in step and (name == "parameters" or step["state"] == "COMPLETED" or step[name] is not None):
            lines.append([(f"      {name} ", DIM), (value_text(step[name]), "")])
    return lines


def attempt_line(attempt: AttemptDocument, width: int) -> list[Segment]:
    cost = dollars(int(attempt["cost_exact"]))
    digest: Segment = (f"  {short(attempt['digest'])}", DIM)
    if attempt["kind"] == "redispatch":
        text = f"      attempt {attempt['attempt'] + 1}  in doubt: sent again with the same key  {cost}"
        return [(text, "yellow"), digest]
    if attempt["kind"] == "lost":
        why = ", ".join(name.rpartition(".")[2] for name in attempt["exceptions"]) or "unknown"
        return [(f"      attempt {attempt['attempt'] + 1}  its answer is lost ({why})", "yellow"), digest]
    if attempt["kind"] == "served":
        return [(f"      served     {attempt['code']}", ""), digest]
    line: list[Segment] = [
        (f"      attempt {attempt['attempt'] + 1}  ", ""),
        (f"{code_text(attempt):<{width}}", "green" if str(attempt["code"]).startswith("OK") else "red"),
        (f"  {duration(attempt):>4} ms  {cost}", ""),
    ]
    if attempt["backoff_ms"] is not None:
        line.append((f"  back-off {attempt['backoff_ms']} ms", "yellow"))
    return [*line, digest]


def code_text(attempt: AttemptDocument) -> str:
    if attempt["kind"] != "attempt":
        return ""
    status = "" if attempt["http_status"] is None else f" {attempt['http_status']}"
    return f"{attempt['code']}{status}"


def duration(attempt: AttemptDocument) -> int:
    from reenact.values.clock import parse_ts

    if attempt["started_at"] is None or attempt["ended_at"] is None:
        return 0
    return parse_ts(attempt["ended_at"]) - parse_ts(attempt["started_at"])


def value_text(value: object) -> str:
    import msgspec

    return one_line(msgspec.json.encode(value).decode())


def ending(run: RunDocument) -> list[list[Segment]]:
    total = f"{dollars(int(run['cost_exact']))}, charged as {plural(run['cost_cents'], 'cent')}"
    lines: list[list[Segment]] = [[("cost  ", DIM), (total, "")]]
    seal = run["seal"]
    if seal is None:
        lines.append(
            [("seal  ", DIM), (f"none yet; {plural(run['commits'], 'commit')}, head {short(run['head'])}", "yellow")]
        )
        if run["next"]:
            lines.append([("next  ", DIM), (one_line(run["next"]), "yellow")])
        return lines
    lines.append([("seal  ", DIM), (seal["seal_digest"], "")])
    counts = f"{plural(seal['commits'], 'commit')}, {plural(seal['traces'], 'trace')}, root {short(seal['root'])}"
    lines.append([("      ", ""), (f"{seal['sealed_at']}  {counts}", DIM)])
    return lines


def event_line(event: EventDocument) -> list[Segment]:
    """One event: what, when, who, about which step, and what was said."""
    parts = [str(event["type"]), event["ts"], event["who"], event["step_id"], said_in(event)]
    return [("event ", "dim"), ("  ".join(one_line(part) for part in parts if part), "")]


def absence(event: EventDocument) -> str | None:
    """What became of the words, where they are not there."""
    if event.get("archived"):
        return "is archived"
    return "is erased" if event.get("erased") else "was left out of this export" if event.get("withheld") else None


def said_in(event: EventDocument) -> str:
    absent = absence(event)
    if absent is not None:
        return f"(what was said {absent})"
    if event["type"] == "verify":
        pairs = zip(event.get("commands") or [], event.get("exit_codes") or [], strict=False)
        return ", ".join(f"`{command}` exit {code}" for command, code in pairs)
    if event["type"] == "finish":
        confidence = event.get("confidence")
        return "" if confidence is None else f"confidence {confidence}"
    word = event.get("resolution") or WORDS.get(str(event.get("decision")), "")
    reason = event.get("reason")
    return ": ".join(part for part in (word, reason) if part)


def vote_text(vote: EventDocument) -> str:
    """A person's vote about a step, in words."""
    text = f"{WORDS[vote['decision']]} by {vote['who']}"
    absent = absence(vote)
    if absent is not None:
        return f"{text} (the reason {absent})"
    return f"{text}: {vote['reason']}" if vote["reason"] else text
