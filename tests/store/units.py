"""Commits for stores that are tested alone: real lines, made by the journal's own functions."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from reenact.contracts.records import Event, RunRecord, RunStatus, Seal
from reenact.journal import chain
from reenact.store.base import Appended, KeyCompletion, KeyReservation, NewPayload, NewRun, NewTrace, Unit
from reenact.store.sqlite.store import SqliteStore
from reenact.values.clock import Clock, FixedClock
from reenact.values.digest import ZERO_DIGEST

TS = "2026-01-01T00:00:00.000Z"


def open_store(folder: Path, clock: Clock | None = None) -> SqliteStore:
    return SqliteStore(f"sqlite:///{folder / 'store.db'}", clock=clock or FixedClock())


def payload(content: bytes, salt: int = 0, *, key: bytes | None = None) -> NewPayload:
    envelope = salt.to_bytes(32, "big") + content
    content_key = sha256(content).digest()[:16] if key is None else key
    return NewPayload(sha256(envelope).hexdigest(), content_key, envelope)


class Run:
    """A run that knows its next commit."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.bodies: list[bytes] = []

    @property
    def head(self) -> str:
        return chain.sha(self.bodies[-1]) if self.bodies else ZERO_DIGEST

    def unit(
        self,
        *,
        n: int | None = None,
        payloads: list[NewPayload] | None = None,
        traces: list[NewTrace] | None = None,
        reservations: list[KeyReservation] | None = None,
        completions: list[KeyCompletion] | None = None,
        status: RunStatus | None = None,
        sealed: bool = False,
        new: bool | None = None,
        note: str | None = None,
    ) -> tuple[Unit, Callable[[Appended], None]]:
        """The next commit, and what to call once the store has taken it."""
        number = n or len(self.bodies) + 1
        begins = number == 1 if new is None else new
        lines = chain.commit_line(number, self.head, self.run_id)
        lines += chain.run_line(record(self.run_id)) if begins else b""
        lines += chain.event_line(event(note))
        unit = Unit(
            run_id=self.run_id,
            n=number,
            body=lines,
            seal=make_seal(self.run_id, number) if sealed else None,
            payloads=payloads or [],
            traces=traces or [],
            reservations=reservations or [],
            completions=completions or [],
            new_run=new_run() if begins else None,
            status=status,
        )
        return unit, lambda done: self.bodies.append(lines + (chain.seal_line(done.seal) if done.seal else b""))


def new_run() -> NewRun:
    return NewRun(
        kind="plan", mode="live", parent_run=None, plan_id="p", agent_id="a", started_at=TS, dedupe_key=b"k" * 32
    )


def event(note: str | None = None) -> Event:
    return Event(data=None, reason=None, trace_id=None, ts=TS, type="turn", who=note)


def record(run_id: str) -> RunRecord:
    return RunRecord(
        agent_id="a",
        capability_key="0" * 16,
        kind="plan",
        mode="live",
        parent_run=None,
        plan=None,
        plan_hash=None,
        plan_id="p",
        reenact_version="0",
        run_id=run_id,
        started_at=TS,
        steps_planned=0,
    )


def make_seal(run_id: str, commits: int) -> Seal:
    """As a writer gives it to the store, which puts in what the bytes before it and the seal before it make of it."""
    return Seal(
        attempts_root=ZERO_DIGEST,
        commits=commits,
        plan_hash=None,
        prev_store_seal=ZERO_DIGEST,
        root=ZERO_DIGEST,
        run_head=ZERO_DIGEST,
        run_id=run_id,
        sealed_at=TS,
        status="completed",
        steps_planned=0,
        traces=0,
    )


def reservation(key: str, trace_id: str = "t", request: str = "r") -> KeyReservation:
    return KeyReservation("local", "mail", key, request, "a", trace_id)


def completion(key: str, trace_id: str = "t", *, succeeded: bool = True) -> KeyCompletion:
    return KeyCompletion("local", "mail", key, trace_id, "completed" if succeeded else "released")
