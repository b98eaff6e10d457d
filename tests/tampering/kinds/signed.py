"""One thing wrong in a run that its owner then signed anew, whole: only the check for that one thing can tell."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

from tools.vectors.pieces import digest as digest_of
from tools.vectors.pieces import uid

from reenact.values.digest import sha256_hex
from tests.tampering.evidence import STORE
from tests.tampering.forging import JOURNAL, Forgery, Record, forged, remade
from tests.tampering.kinds import erasures
from tests.tampering.kinds.forgeries import Field, field, meta
from tests.tampering.kinds.kind import Change, Files, Kind, both, drop, edit
from tests.verify.changing import split_bodies


def entry(kind: str, number: int = 0, /, **changes: Any) -> Field:
    return lambda forgery: forgery.entry(kind, number).update(changes)


def numbered(forgery: Forgery) -> None:
    """The effect's entry has the number after the next."""
    forgery.entry("tool_effect")["sequence_number"] = 5


def twice_decided(forgery: Forgery) -> None:
    """A second decision, as if the call had not been approved yet."""
    _again(forgery, "supervisor_decision", "PENDING")


def way_back(forgery: Forgery) -> None:
    """The call is made, approved once more, and made once more."""
    at = _again(forgery, "supervisor_decision", "EXECUTING", after="tool_call")
    call = next(
        line
        for line in forgery.lines
        if line["kind"] == "entry" and line["artifact"]["schema_id"].endswith("tool_call")
    )
    forgery.lines.insert(at + 1, deepcopy(call))
    _renumber(forgery, call["entry"]["trace_id"])


def _again(forgery: Forgery, kind: str, from_state: str, after: str | None = None) -> int:
    kinds = [line.get("entry", {}).get("artifact_type") for line in forgery.lines]
    line = deepcopy(forgery.lines[kinds.index(kind)])
    line["entry"]["from_state"] = from_state
    at = kinds.index(after or kind) + 1
    forgery.lines.insert(at, line)
    _renumber(forgery, line["entry"]["trace_id"])
    return at


def _renumber(forgery: Forgery, trace_id: str) -> None:
    entries = [line["entry"] for line in forgery.lines if line["kind"] == "entry"]
    for number, each in enumerate((e for e in entries if e["trace_id"] == trace_id), start=1):
        each["sequence_number"] = number


def empty_commit(forgery: Forgery) -> None:
    at = [line["kind"] for line in forgery.lines].index("commit", 1)
    forgery.lines.insert(at, dict(forgery.lines[at]))


def inner(**changes: Any) -> Field:
    return lambda forgery: forgery.records("checkpoint")[0]["checkpoint_state"].update(changes)


def uncommitted(forgery: Forgery, number: int = 0) -> None:
    forgery.records("action_request")[number]["proposal"]["args"]["$commit"] = "x"


def last_entry(forgery: Forgery) -> int:
    return max(number for number, line in enumerate(forgery.lines) if line["kind"] == "entry")


def called_twice(forgery: Forgery) -> None:
    """Where its effect must stand, the last call stands once more; its entry says that it is the effect."""
    line, call = forgery.lines[last_entry(forgery)], deepcopy(forgery.records("tool_call")[-1])
    for document in line["artifact"].get("document_hashes", [])[1:]:
        del forgery.payloads[document["hash"]]
    line["artifact"] = {**call, "ts": line["entry"]["ts"]}
    line["entry"]["artifact_id"] = call["tool_call_id"]


def another_attempt(make: Callable[[], Record] | None = None, **changes: Any) -> Field:
    """After the last entry; as it stands there it belongs to the call that just ended."""

    def changed(forgery: Forgery) -> None:
        made = {"kind": "attempt", "attempt": forgery.records("attempt")[3]} if make is None else make()
        made = deepcopy(made)
        made["attempt"].update(changes)
        forgery.lines.insert(last_entry(forgery) + 1, made)

    return changed


def another_checkpoint(forgery: Forgery) -> None:
    at = next(number for number, line in enumerate(forgery.lines) if line["kind"] == "checkpoint")
    other = deepcopy(forgery.lines[at])
    other["checkpoint"]["trace_id"] = uid(0x66)
    forgery.lines.insert(at + 1, other)


def of_all(name: str) -> Field:
    """The run record says another one, and whatever else says it says the same."""

    def changed(forgery: Forgery) -> None:
        old = forgery.records("run")[0][name]
        for line in forgery.lines:
            for part in (line.get("run", {}), line.get("artifact", {})):
                if part.get(name) == old:
                    part[name] = uid(0x66)

    return changed


def _attempt() -> Record:
    from tools.vectors.scenarios import three_steps

    return {"kind": "attempt", "attempt": dict(three_steps().attempts[0], trace_id=uid(0x1000))}


def side_effect(forgery: Forgery) -> None:
    forgery.records("attempt")[1]["side_effects"][0]["attempt"] = 7


def outcome(**changes: Any) -> Field:
    """What the caller was told, against what is on record."""

    def changed(forgery: Forgery) -> None:
        commitment = forgery.records("tool_effect")[-1]["document_hashes"][1]["hash"]
        value = forgery.value(commitment)
        for key, item in changes.items():
            value[key] = {**value[key], **item} if isinstance(item, dict) else item
        forgery.change_value(commitment, value)

    return changed


def both_told(of_meta: dict[str, Any], of_outcome: dict[str, Any], of_result: Any = None) -> Field:
    """In the effect and in the outcome alike."""

    def changed(forgery: Forgery) -> None:
        effect = forgery.records("tool_effect")[-1]
        effect["meta"].update(of_meta)
        if of_result is not None:
            effect["outcome"] = of_result
        outcome(**of_outcome)(forgery)

    return changed


def named(what: str, content: bytes) -> Field:
    """An envelope that is no salt and canonical JSON, under its commitment and with its size."""

    def changed(forgery: Forgery) -> None:
        commitment = forgery.records("attempt")[-1]["response"]
        envelope = forgery.payloads.pop(commitment)[:32] + content
        forgery.payloads[sha256_hex(envelope)] = envelope
        forgery.new[commitment] = sha256_hex(envelope)
        for document in forgery.records("tool_effect")[-1]["document_hashes"]:
            if document["hash"] == commitment:
                document["size_bytes"] = len(envelope)

    assert what
    return changed


STALE: dict[str, tuple[str, Field, str]] = {
    "a request": (
        "plan",
        field("action_request", risk_level="READ", intent="Run something else here"),
        "action_request",
    ),
    "a decision": ("plan", meta("supervisor_decision", 0, required_exact="5"), "supervisor_decision"),
    "an effect": (
        "plan without views",
        lambda f: (
            f.records("tool_effect")[0].update(ts="2026-01-01T00:00:00.001Z")
            or f.entry("tool_effect").update(ts="2026-01-01T00:00:00.001Z")
        ),
        "tool_effect",
    ),
    "an attempt": ("plan", field("attempt", 1, request_id="r-8"), "attempt"),
    "a vote": ("session", field("vote", reason=None, ts="2026-01-01T00:00:00.001Z"), "vote"),
    "a checkpoint": ("session", field("checkpoint", checkpoint_digest="a" * 64), "checkpoint"),
    "the seal": ("plan", field("seal", prev_store_seal="a" * 64), "seal"),
}
UNLINKED: dict[str, tuple[str, Field, str]] = {
    "an entry after another one than it names": (
        "plan",
        lambda f: f.entry("tool_effect").update(prev_entry_digest="a" * 64),
        "the entry before",
    ),
    "of another runtime: an entry that names another artifact": (
        "foreign",
        lambda f: f.entry("tool_effect").update(artifact_digest="a" * 64),
        "the artifact of an entry",
    ),
    "a run checkpoint after other lines": ("plan", field("run_checkpoint", run_head="a" * 64), "head"),
}
FIELDS: dict[str, tuple[str, Field]] = {
    "an effect of another plan": ("plan without views", field("tool_effect", plan_id=uid(0x66))),
    "an effect of another call, its entry of the right one": ("plan", field("tool_effect", tool_call_id=uid(0x66))),
    "an effect after another attempt": ("plan", meta("tool_effect", attempts_head="a" * 64)),
    "the number of an attempt that changed nothing": ("plan without views", field("attempt", 3, attempt=7)),
    "the time that a call took, in its effect alone": ("plan", meta("tool_effect", latency_ms=41)),
    "a call in the place of its effect": ("plan without views", called_twice),
    "an attempt of a call that nobody made": ("plan without views", another_attempt(trace_id=uid(0x66))),
    "an attempt after its call's end": ("plan without views", another_attempt()),
    "a checkpoint of a call that nobody made": ("session without views", another_checkpoint),
    "a run of another agent, which asked for every call": ("plan", of_all("agent_id")),
    "a run under another plan's name, as all of its records": ("plan", of_all("plan_id")),
    "a run of a plan with another hash, as its seal": (
        "plan",
        lambda f: [field(kind, plan_hash="sha256:" + "a" * 64)(f) for kind in ("run", "seal")],
    ),
    "a run of more steps than its plan, as its seal": (
        "refusals without views",
        lambda f: [field(kind, steps_planned=9)(f) for kind in ("run", "seal")],
    ),
    "a call at another place of a session": ("session without views", meta("action_request", step_index=7)),
    "an attempt of a version to come": ("plan without views", field("attempt", 3, schema="reenact.attempt.v7")),
    "an attempt with a key more": ("plan without views", field("attempt", 3, more=1)),
    "an effect of another trace": ("plan without views", field("tool_effect", -1, trace_id=uid(0x66))),
    "a key of a source that the run has not": ("plan", meta("action_request", 0, idempotency_source="trace")),
    "arguments that are not committed to": ("plan without views", uncommitted),
    "a caller's key that is no text": (
        "plan without views",
        lambda f: f.change_value(f.records("action_request")[-1]["meta"]["key"], 7),
    ),
    "a plan that is no object": (
        "plan without views",
        lambda f: (f.files.pop("plan.json"), f.change_value(f.records("run")[0]["plan"], [])),
    ),
    "an entry's number": ("plan", numbered),
    "an approval given twice": ("plan", twice_decided),
    "an approval given after the call": ("plan", way_back),
    "a commit that holds nothing": ("plan", empty_commit),
    "a run checkpoint of another run": ("plan", field("run_checkpoint", run_id=uid(0x66))),
    "a run checkpoint with an open trace": ("plan", field("run_checkpoint", open=[uid(0x66)])),
    "a run checkpoint with money apart": ("plan", field("run_checkpoint", reserved_exact="7")),
    "a run checkpoint that spent more": ("plan", field("run_checkpoint", spent_exact="7")),
    "a checkpoint of another plan": ("session", inner(plan_id=uid(0x66))),
    "a checkpoint of another trace": ("session", inner(trace_id=uid(0x66))),
    "a checkpoint in another state": ("session", inner(current_state="AUTHORIZED")),
    "a checkpoint at another entry": ("session", inner(last_entry_digest="a" * 64)),
    "a checkpoint of another number": ("session", field("checkpoint", checkpoint_sequence_number=2)),
    "a checkpoint of another number throughout": (
        "session",
        lambda f: (field("checkpoint", checkpoint_sequence_number=2)(f), inner(last_sequence_number=2)(f)),
    ),
    "an attempt's number": ("plan without views", field("attempt", 1, attempt=7, side_effects=[])),
    "the attempt of a side effect": ("plan", side_effect),
    "an attempt's predecessor": ("plan", field("attempt", 1, prev="a" * 64)),
    "retries used up in a success": ("plan", meta("tool_effect", -1, retries_used_up=True)),
    "a cost in cents": ("plan", both_told({"cost_cents": 9}, {"cost_cents": 9})),
    "an exact cost": ("plan", meta("tool_effect", 0, cost_exact="7")),
    "retries, told alike": ("plan", both_told({"retries": 7}, {"observability": {"backend_retries": 7}})),
    "side effects, told alike": ("plan", both_told({"side_effects": digest_of([])}, {"side_effects": []})),
    "a code, told alike": ("plan", both_told({"code": "OK_HTTP_CALL"}, {"code": "OK_HTTP_CALL"})),
    "a failure, told alike": ("plan without views", both_told({"status": "failure"}, {"status": "failure"})),
    "a failure of an effect that completed": (
        "plan without views",
        field("tool_effect", -1, outcome={"status": "FAILURE"}),
    ),
    "an attempt that the effect does not count": ("plan", meta("tool_effect", -1, attempts=9)),
    "an outcome of another code": ("plan", outcome(code="OK_OTHER")),
    "an outcome that may be tried again": ("plan", outcome(retryable=True)),
    "an outcome of another skill": ("plan", outcome(metadata={"skill_id": "x"})),
    "an outcome of another trace": ("plan", outcome(observability={"trace_id": uid(0x66)})),
    "an outcome of another run": ("plan", outcome(run_id=uid(0x66))),
    "an outcome with other retries": ("plan", outcome(observability={"backend_retries": 9})),
    "an outcome with other side effects": ("plan", outcome(side_effects=[])),
    "the size of an envelope": (
        "plan",
        lambda f: f.records("tool_effect")[0]["document_hashes"][0].update(size_bytes=5),
    ),
    "a value that is not JSON": ("plan without views", named("x", b"{")),
    "a value that is not canonical": ("plan without views", named("x", b'{ "a":1}')),
    "a value that is nothing but salt": ("plan without views", named("x", b"")),
    "a request's entry with a call's id": ("plan", entry("action_request", tool_call_id=uid(0x66))),
    "an effect's entry with another call's id": ("plan", entry("tool_effect", tool_call_id=uid(0x66))),
    "an effect's entry of another type": ("plan", entry("tool_effect", artifact_type="tool_call")),
    "a request on another server": (
        "plan",
        lambda f: f.records("action_request")[0]["proposal"].update(tool_server="x"),
    ),
    "a request whose key has another source": ("plan", meta("action_request", 0, idempotency_source="caller")),
    "a request of another skill": (
        "plan",
        lambda f: (
            meta("action_request", 0, skill_id="x")(f),
            field("action_request", intent="Run x@0.9.0 for step fetch")(f),
        ),
    ),
    "a request of another version": (
        "plan",
        lambda f: (
            meta("action_request", 0, skill_version="9")(f),
            field("action_request", intent="Run http_call@9 for step fetch")(f),
        ),
    ),
    "a refusal under which something was sent": (
        "plan without views",
        lambda f: f.records("supervisor_decision")[0].update(decision="DENY"),
    ),
    "an approval without a capability": (
        "refusals",
        lambda f: f.records("supervisor_decision")[1].update(
            minted_capability=f.records("supervisor_decision")[0]["minted_capability"]
        ),
    ),
    "a run of another plan's name": ("plan", field("run", plan_id=uid(0x66))),
}
REFUSED: dict[str, Field] = {
    "of another run": meta("action_request", -1, run_id=uid(0x66)),
    "of a step that the plan has not": lambda f: (
        meta("action_request", -1, step_id="x")(f),
        field("action_request", -1, intent="Run llm_invoke@0.9.0 for step x")(f),
    ),
    "of another skill": lambda f: (
        meta("action_request", -1, skill_id="x")(f),
        field("action_request", -1, intent="Run x@0.9.0 for step sum-up")(f),
        f.records("action_request")[-1]["proposal"].update(tool_name="x"),
    ),
    "on another server": lambda f: f.records("action_request")[-1]["proposal"].update(tool_server="x"),
    "whose key has another source": meta("action_request", -1, idempotency_source="trace"),
    "whose arguments are not committed to": lambda f: (
        f.payloads.pop(f.records("action_request")[-1]["proposal"]["args"]["$commit"]),
        uncommitted(f, -1),
    ),
}
"""What nothing but the request says, where nothing followed."""
FOREIGN: dict[str, Field] = {
    "an effect of another trace": field("tool_effect", trace_id=uid(0x66)),
    "a refusal after which the call was made": lambda f: (
        f.records("supervisor_decision")[0].pop("minted_capability"),
        field("supervisor_decision", decision="DENY")(f),
    ),
    "a call in the place of its effect": called_twice,
    "an attempt among its entries": another_attempt(_attempt),
    "an entry without its call's id": lambda f: f.entry("tool_call").update(tool_call_id=None),
    "a request of another plan": field("supervisor_decision", plan_id=uid(0x66)),
    "a decision on another request": field("supervisor_decision", action_request_id=uid(0x66)),
    "a decision on a changed request": field("supervisor_decision", action_request_digest="a" * 64),
    "a decision to the contrary": field("supervisor_decision", decision="DENY"),
    "an approval without its permission": lambda f: f.records("supervisor_decision")[0].pop("minted_capability"),
    "a call of another decision": field("tool_call", supervisor_decision_id=uid(0x66)),
    "a call of a changed decision": field("tool_call", supervisor_decision_digest="a" * 64),
    "a call of something else": lambda f: f.records("tool_call")[0]["call"].update(tool_name="x"),
    "an effect of another call": field("tool_effect", tool_call_id=uid(0x66)),
    "an effect of a changed call": field("tool_effect", tool_call_digest="a" * 64),
    "a success that is a failure": field("tool_effect", outcome={"status": "FAILURE"}),
    "an entry of another kind": lambda f: f.entry("tool_effect").update(artifact_type="tool_call"),
    "an entry of another artifact": lambda f: f.entry("tool_call").update(artifact_id=uid(0x66)),
    "an entry of another time": lambda f: f.entry("tool_call").update(ts="2026-01-01T00:00:09.000Z"),
    "a status that its trace does not have": lambda f: f.records("seal")[0].update(status="failed"),
    "an attempt where none is recorded": lambda f: f.lines.insert(-1, _attempt()),
}


def signed(change: Field, stale: str = "", key: Any = STORE) -> Change:
    return lambda files: forged(files, change, "seal", key, stale)


def topped(data: bytes) -> bytes:
    """An event before the first commit: no digest covers it."""
    found = next(line for line in data.splitlines(keepends=True) if b'"kind":"event"' in line)
    return found + data


def cut_open(commits: int, lines: int | None = None) -> Change:
    """An unsealed run of which so much is left, and what that names."""

    def changed(files: Files) -> Files:
        journal = b"".join(split_bodies(files[JOURNAL])[:commits])
        kept = b"".join(journal.splitlines(keepends=True)[:lines])
        made = {
            name: data for name, data in files.items() if not name.startswith("payloads/") or name[9:].encode() in kept
        }
        return remade({**made, JOURNAL: kept})

    return changed


def kinds() -> Iterator[Kind]:
    for name, (of, change, stale) in STALE.items():
        yield Kind(f"{name} under a digest that is not its own, and signed", of, signed(change, stale))
    yield Kind(
        "an entry under a digest that is not its own, and signed",
        "plan",
        signed(lambda f: f.entry("tool_effect", -1).update(entry_digest="a" * 64), "entry"),
    )
    yield Kind(
        "a run checkpoint under a digest that is not its own, and signed",
        "plan",
        signed(field("run_checkpoint", ts="2026-01-01T00:00:00.001Z"), "run_checkpoint"),
    )
    for name, change in (
        ("commits", field("run_checkpoint", commits=9)),
        ("traces", field("run_checkpoint", root="a" * 64)),
    ):
        yield Kind(f"a run checkpoint over other {name}, made to fit and signed", "plan", signed(change, "fields"))
    for name, (of, change, stale) in UNLINKED.items():
        yield Kind(f"{name}, signed", of, signed(change, stale))
    for name, (of, change) in FIELDS.items():
        yield Kind(f"{name}, made to fit and signed", of, signed(change))
    for name, change in REFUSED.items():
        yield Kind(f"a refused request {name}, signed", "refusals without views", signed(change))
    for name, change in FOREIGN.items():
        yield Kind(f"of another runtime: {name}, signed", "foreign", signed(change))
    yield Kind(
        "of another runtime: an artifact under a digest that is not its own, signed",
        "foreign",
        signed(field("tool_call", idempotency_key="other"), "tool_call"),
    )
    yield Kind("an event before the first commit", "session", both(edit(JOURNAL, topped), remade))
    yield Kind("an open run emptied", "open", both(cut_open(0), drop("plan.json"), remade))
    yield Kind(
        "an open run of which only a commit line is left", "open", both(cut_open(1, 1), drop("plan.json"), remade)
    )
    yield Kind("an open run of which the last line is cut", "open", both(edit(JOURNAL, lambda data: data[:-1]), remade))
    yield Kind("an open run of which the last commit is gone", "open", cut_open(5))
    yield Kind("an open run of which the last commit is gone: who remembers its head", "open", cut_open(5), "head")
    yield Kind("an open run with the first line of another commit", "open", cut_open(2, 6))
    yield Kind("an erased value that is there again, without views", "session without views", _restored)


def _restored(files: Files) -> Files:
    return erasures.restored(0)(files)
