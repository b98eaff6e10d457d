"""Run the checks of `reenact doctor` on a store: what is there, what is wrong, what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from reenact.errors import ReenactError
from reenact.store.base import LEASE_MS
from reenact.store.doctor.examination import Examination
from reenact.store.doctor.findings import NAMED, Finding, command, counted, flat
from reenact.store.doctor.journals import OpenJournals
from reenact.store.doctor.runs import FUTURE_MS, look_at_runs
from reenact.store.log.past import compare_newest
from reenact.store.open import open_examination
from reenact.values.clock import Clock, parse_ts, say_ts

AT_ONCE = 1024
"""So many of the newest seals, or twice that, are held against the log; `log consistency` reads all."""
NEWEST = 8
"""So many runs are asked for the time of their last commit."""
TIME = re.compile(rb'"(?:ts|ended_at|sealed_at|started_at)":"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)"')


def examine(url: str | Path | None, clock: Clock, *, store: str | None = None) -> list[Finding]:
    """Every look, in order. Nothing is changed, and nothing is made where nothing is.

    `store` is how the store was named, where what is to be typed has to name it too.
    """
    with open_examination(url) as looked:
        findings, is_there = looked.look_from_outside()
        if not is_there:
            return findings
        try:
            findings += looked.look_inside()
            if looked.is_readable:
                findings += look_at_rows(looked, clock, store)
        except ReenactError as error:
            findings.append(Finding("store", "trouble", flat(str(error))))
        return [*findings, *looked.look_around()]


def look_at_rows(looked: Examination, clock: Clock, store: str | None) -> Iterator[Finding]:
    """The clock, what the table of runs and the journal do not have in common, and the runs that are open."""
    yield clock_finding(looked, clock)
    forgotten, unsealed = looked.forgotten_runs(), looked.unsealed_runs()
    if forgotten:
        says = f"the journal has {counted(forgotten, 'run')} with no row in the table of runs"
        yield Finding("runs", "trouble", says, f"copy {looked.name} away, then restore a backup; nothing recovers them")
    for run_id in unsealed[:NAMED]:
        verify = command(store, "verify", run_id)
        yield Finding(f"run {run_id}", "warning", "is called ended and has no seal", f"`{verify}` says what it has")
    if len(unsealed) > NAMED:
        yield Finding("runs", "warning", f"{len(unsealed) - NAMED} more are called ended and have no seal")
    yield from look_at_log(looked, store)
    open_runs = looked.open_runs()
    yield from OpenJournals(looked.name, store).look(open_runs)
    yield from look_at_runs(looked.status_counts(), open_runs, clock, store)


# -- the log of seals ------------------------------------------------------------------------------------------------


def look_at_log(looked: Examination, store: str | None) -> Iterator[Finding]:
    """Whether the newest seals are those that the log has, and nobody outside holds another head."""
    do = f"copy {looked.name} away; `{command(store, 'log', 'consistency')}` says from where on, `verify` what of a run"
    try:
        log = looked.seal_log()
        past, held = compare_newest(log, AT_ONCE), log.rows.contradictions()
    except ReenactError as error:
        yield Finding("seals", "trouble", flat(str(error)), do)
        return
    if past.problem is not None:
        says = f"contradicts its seals: {past.problem} (log: {past.expected}; seals: {past.got})"
        yield Finding("seals", "trouble", flat(says), do)
    for source in sorted({source for source, _ in held})[:NAMED]:
        yield Finding("seals", "trouble", f"{flat(source)} holds a head that is none of this log", do)
    if past.problem is None and not held:
        yield Finding("seals", "ok", past.says)


# -- the clock -------------------------------------------------------------------------------------------------------


def clock_finding(looked: Examination, clock: Clock) -> Finding:
    last, now = last_time(looked), say_ts(clock.now_ms())
    if last > clock.now_ms() + FUTURE_MS:
        return Finding(
            "clock",
            "warning",
            f"it is {now}, and the store was written to at {say_ts(last)}, which has not come yet",
            "set the clock: leases, budgets of a day and expiry go by it",
        )
    return Finding("clock", "ok", f"it is {now}")


def last_time(looked: Examination) -> int:
    """The latest moment that the store tells of, in Unix milliseconds; 0 where it tells of none."""
    began, lease = looked.latest_times()
    times = [lease - LEASE_MS] if lease else [0]
    texts = {began} if began else set()
    for run in looked.newest_runs(NEWEST):
        last = run.last_commit()  # that it cannot be read is told with its run
        body = b"" if last is None or last.body is None else last.body
        texts |= {found.decode() for found in TIME.findall(body)}
    for text in sorted(texts):
        try:
            times.append(parse_ts(text))
        except ReenactError:
            continue
    return max(times)
