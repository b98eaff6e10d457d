"""Runs that have not ended: who works on them, and what to type where nobody does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from reenact.errors import ReenactError
from reenact.store.base import LEASE_MS, OpenRun, Store
from reenact.store.doctor.findings import NAMED, Finding, command
from reenact.store.evidence import RunEvidence
from reenact.store.location import to_resolve
from reenact.store.naming import read_lines
from reenact.store.owner import is_stopped, owner_is_gone
from reenact.values.clock import Clock, say_ts

FUTURE_MS = 60_000
WAITS = "waits for a person"
HELD = "is held"
ABANDONED = "nobody works on it"
HOSTLESS = "a session that nobody works on"


class Unsettled(NamedTuple):
    """The steps of a run that a person may be asked about."""

    asked: Sequence[str] = ()
    """They wait for an approval."""
    sent: Sequence[str] = ()
    """They were sent, and have no answer."""


def look_at_runs(
    counts: Mapping[str, int], open_runs: Sequence[tuple[RunEvidence, OpenRun]], clock: Clock, store: str | None
) -> Iterator[Finding]:
    summary = ", ".join(f"{count} {status}" for status, count in sorted(counts.items())) or "none yet"
    yield Finding("runs", "ok", summary)
    seen: Counter[str] = Counter()
    for run, row in open_runs:
        finding = open_run(row, now=clock.now_ms(), store=store)
        seen[finding.says] += 1
        if finding.says in (WAITS, HELD) and seen[finding.says] <= NAMED:
            finding = open_run(row, now=clock.now_ms(), store=store, unsettled=unsettled_of(run))
        if seen[finding.says] <= NAMED or " process " in finding.says:
            yield finding
    yield from (more(says, count - NAMED, store) for says, count in seen.items() if count > NAMED)


def more(says: str, count: int, store: str | None) -> Finding:
    """About those that were not named."""
    if says == WAITS:
        return Finding("runs", "note", f"{count} more: {says}", f"`{command(store, 'ls', '--waiting')}` lists them")
    listing = f"`{command(store, 'ls')}` lists them"
    if says == ABANDONED:
        listing = (
            f"`{command(store, 'recover')}`, with the --skills that they need, goes on with all of them; {listing}"
        )
    return Finding("runs", "warning", f"{count} more: {says}", listing)


def unsettled_of(run: RunEvidence) -> Unsettled:
    """As the journal says it; nothing where that cannot be read, which is told elsewhere."""
    states: dict[object, object] = {}
    try:
        for commit in run.commits():
            for line in read_lines(commit.body or b""):
                entry = line.get("entry")
                if line.get("kind") == "entry" and isinstance(entry, dict):
                    states[entry.get("trace_id")] = entry.get("to_state")
                elif line.get("kind") == "vote":
                    states[line.get("trace_id")] = "VOTED"
        steps = [(str(cells.step_id), states.get(cells.trace_id)) for cells in run.traces()]
    except (ReenactError, TypeError):
        return Unsettled()
    asked, sent = ([step for step, state in steps if state == wanted] for wanted in ("PENDING", "EXECUTING"))
    return Unsettled(asked, sent)


def look_at_run(
    opened: Store, run_id: str, clock: Clock, *, store: str | None = None, unsettled: Unsettled | None = None
) -> Finding | None:
    """Whether somebody works on a run; None for one that has ended, and where the store cannot be read just now."""
    try:
        row = opened.open_run(run_id)
    except ReenactError:
        return None
    return None if row is None else open_run(row, now=clock.now_ms(), store=store, unsettled=unsettled)


def open_run(row: OpenRun, *, now: int, store: str | None, unsettled: Unsettled | None = None) -> Finding:
    asked, sent = unsettled or Unsettled()
    subject = f"run {row.run_id}"
    if row.owner is not None and now < row.expires_ms and not owner_is_gone(row.owner):
        return being_worked_on(subject, row.owner, row.expires_ms, now)
    if row.status == "waiting":
        steps = asked[:1] if len(asked) > 1 else ()
        approve, deny = (command(store, word, row.run_id, *steps, "--reason", "…") for word in ("approve", "deny"))
        others = f"; so do {', '.join(asked[1:])}" if steps else ""
        return Finding(subject, "note", WAITS, f"`{approve}`, or `{deny}`{others}")
    if row.status == "held":
        option = [] if store is None else ["--store", store]
        says = f"`{command(store, 'resume', row.run_id)}` says what it needs"
        if sent:
            look = ", ".join(f"`{to_resolve(row.run_id, step, option)}`" for step in sent[:NAMED])
            says = f"look whether {', '.join(sent[:NAMED])} happened, then {look}; {says}"
        return Finding(subject, "warning", HELD, says)
    if row.kind == "session":
        cancel = command(store, "cancel", row.run_id, "--reason", "…")
        go_on = f"start its program again where the session has an id, else session(resume={row.run_id!r})"
        do = f"{go_on}; to end it where there is none: `{cancel}`"
        return Finding(subject, "warning", HOSTLESS, do)
    resume, recover = command(store, "resume", row.run_id), command(store, "recover")
    return Finding(subject, "warning", ABANDONED, f"`{resume}`, or `{recover}`, with the --skills that it needs")


def being_worked_on(subject: str, owner: str, expires: int, now: int) -> Finding:
    host, pid = (*owner.split("|"), "?")[:2]
    if expires > now + LEASE_MS + FUTURE_MS:
        says = f"process {pid} on {host} has it until {say_ts(expires)}, longer than any lease is"
        do = "a clock was changed, here or there: set it; `reenact recover` watches it and takes it if nobody renews"
        return Finding(subject, "warning", says, do)
    if is_stopped(owner):
        says = f"process {pid} on {host} has it, and is stopped since {say_ts(expires - LEASE_MS)} or a little later"
        return Finding(subject, "warning", says, f"`kill -CONT {pid}` lets it go on, `kill -KILL {pid}` ends it")
    return Finding(subject, "ok", f"is being worked on by process {pid} on {host}")
