"""Prometheus metrics read from a store: what `reenact metrics` prints, and a scraper gets from a process of its own.

A run that has ended never changes, so it is read once: what runs add up to is kept in the store, where whoever counts
may write there, and a scrape costs what happened since the last one.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from reenact.contracts.records import UNFINISHED
from reenact.errors import DamagedRecord, EvidenceError, StateError, StoreError
from reenact.record.document import read_document
from reenact.record.document_shape import StepDocument
from reenact.replay.modes.saving import saved_traces
from reenact.store.base import RunRow, Store, Tally
from reenact.telemetry.metrics import MATCH, MISMATCH, aspect_label

TALLY = "metrics.1"
"""By what the store keeps them; another shape of `Totals` has another name."""
AT_ONCE = 500
"""So many runs are counted before it is kept how far that came."""


@dataclass(slots=True)
class Totals:
    """Sums by label values."""

    runs: Counter[str] = field(default_factory=Counter)
    steps: Counter[tuple[str, ...]] = field(default_factory=Counter)
    attempts: Counter[tuple[str, ...]] = field(default_factory=Counter)
    retries: Counter[str] = field(default_factory=Counter)
    cost: Counter[str] = field(default_factory=Counter)
    side_effects: Counter[str] = field(default_factory=Counter)
    match: Counter[str] = field(default_factory=Counter)
    mismatch: Counter[str] = field(default_factory=Counter)
    unreadable: int = 0

    @classmethod
    def kept(cls, sums: bytes) -> Totals:
        """As `sums` wrote them."""
        kept = msgspec.json.decode(sums, type=Kept)
        found = {name: Counter({key_of(labels): number for labels, number in rows}) for name, rows in kept.sums.items()}
        return cls(**found, unreadable=kept.unreadable)  # type: ignore[arg-type]

    def sums(self) -> bytes:
        rows = {name: list(getattr(self, name).items()) for name in COUNTERS}
        return msgspec.json.encode({"sums": rows, "unreadable": self.unreadable})

    def add_step(self, step: StepDocument) -> None:
        skill = step["skill"].partition("@")[0]
        self.steps[skill, step["status"] or "", step["code"] or ""] += 1
        self.retries[skill] += step["retries"] or 0
        self.cost[skill] += step["cost_cents"]
        for attempt in step["attempts"]:
            if attempt["kind"] == "attempt":
                self.attempts[skill, attempt["code"] or ""] += 1
            for effect in attempt["side_effects"]:
                self.side_effects[effect["type"]] += 1

    def add_replay(self, behavior_match: object) -> None:
        for aspect, matched in behavior_match.items() if isinstance(behavior_match, dict) else ():
            (self.match if matched is True else self.mismatch)[aspect_label(str(aspect))] += 1


COUNTERS: Final = tuple(name for name in Totals.__slots__ if name != "unreadable")


class Kept(msgspec.Struct):
    """Sums as JSON: a label, or several, and how often."""

    sums: dict[str, list[tuple[str | list[str], int]]]
    unreadable: int


def key_of(labels: str | list[str]) -> str | tuple[str, ...]:
    return labels if isinstance(labels, str) else tuple(labels)


class StoreCollector(Collector):
    """Adds up the ended runs of a store. Replays are compared, never counted as runs."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._totals = Totals()
        self._sealed = 0
        """The seal of the last run that was counted."""
        self._lock = threading.Lock()

    def describe(self) -> list[Metric]:
        """Nothing is read from the store when the collector is registered."""
        return []

    def collect(self) -> Iterator[Metric]:
        with self._lock:
            self._go_on()
            families = list(self._families())
        yield from families

    def _go_on(self) -> None:
        """Count what ended since somebody last did, in this process or another."""
        self._take(self._store.tally(TALLY))
        while found := self._store.sealed(self._sealed, AT_ONCE):
            for number, row in found:
                self._add(row)
                self._sealed = number
            with suppress(StoreError):  # who may only read counts for himself
                self._store.keep_tally(TALLY, Tally(self._sealed, self._totals.sums()))

    def _take(self, kept: Tally | None) -> None:
        if kept is not None and isinstance(kept.sealed, int) and kept.sealed > self._sealed:
            with suppress(
                msgspec.DecodeError, UnicodeDecodeError, TypeError
            ):  # of another version, or no tally: all is counted anew
                self._totals, self._sealed = Totals.kept(kept.sums), kept.sealed

    def _add(self, row: RunRow) -> None:
        try:
            if row.damage is not None:
                raise DamagedRecord(row.damage)
            if row.mode == "live":
                steps = [step for step in read_document(self._store, row.run_id)["steps"] if step["code"] is not None]
                for step in steps:
                    self._totals.add_step(step)
                self._totals.runs[row.status] += 1
            else:
                for trace in saved_traces(self._store, row.run_id):
                    self._totals.add_replay(trace.get("behavior_match"))
        except (StateError, EvidenceError):
            self._totals.unreadable += 1  # a damaged run is for `reenact verify`; the others still count

    def _families(self) -> Iterator[Metric]:
        totals = self._totals
        yield counter("reenact_runs", "Runs that ended.", ["status"], {(k,): v for k, v in totals.runs.items()})
        labels = ["skill", "status", "code"]
        yield counter("reenact_steps", "Steps that ended.", labels, dict(totals.steps))
        yield counter("reenact_attempts", "Dispatches.", ["skill", "code"], dict(totals.attempts))
        for name, text, label, values in (
            ("reenact_retries", "Retries.", "skill", totals.retries),
            ("reenact_cost_cents", "Cents charged, rounded up per step.", "skill", totals.cost),
            ("reenact_side_effects", "Touches of the world.", "type", totals.side_effects),
            (MATCH, "Replays in which an aspect matched.", "aspect", totals.match),
            (MISMATCH, "Replays in which an aspect differed.", "aspect", totals.mismatch),
        ):
            yield counter(name, text, [label], {(k,): v for k, v in values.items()})
        gone = self._store.unattended()
        unfinished = Counter(
            "interrupted" if row.run_id in gone else row.status
            for row in self._store.runs(status=UNFINISHED)
            if row.mode == "live"
        )
        gauge = GaugeMetricFamily("reenact_runs_open", "Runs that have not ended.", labels=["status"])
        for status, number in sorted(unfinished.items()):
            gauge.add_metric([status], number)
        yield gauge
        unreadable = GaugeMetricFamily("reenact_runs_unreadable", "Ended runs whose journal cannot be read.")
        unreadable.add_metric([], totals.unreadable)
        yield unreadable


def counter(name: str, text: str, labels: list[str], values: dict[tuple[str, ...], int]) -> CounterMetricFamily:
    family = CounterMetricFamily(name, text, labels=labels)
    for key, value in sorted(values.items()):
        family.add_metric(list(key), value)
    return family


def exposition(store: Store) -> bytes:
    """The store's metrics in Prometheus' text format."""
    registry = CollectorRegistry()
    registry.register(StoreCollector(store))
    return generate_latest(registry)
