"""What a store must do. Small on purpose: one contract suite runs on every back-end.

A store MUST
 1. make `append` atomic and durable: when it returns, the commit survives a crash of process and machine;
 2. refuse an append whose fence is not the current one, or whose commit is not the next (`ConcurrentExecution`);
 3. keep commits, erasures and late effects append-only, refused by the database itself; but late effects go with
    the erasure of their call;
 4. give back the bytes it was given;
 5. never let an error of the database reach a caller as anything but a `StoreError`;
 6. give no lease of a run whose last commits, as far as it can tell, are gone or not what was written
    (`DamagedRecord`);
 7. erase a value and append its record, chained to the last one of the store, in one transaction;
 8. give its rows as they lie there to whoever checks them (`evidence`), in one snapshot;
 9. keep `key_secret` as it was made, and take the digest of a keyed request out with the erasure of its call;
10. authenticate the head of each commit with the key that its run began with; where that does not check
    (`NotAuthentic`), or the key is not there (`KeyUnavailable`), give no lease, and no commit to whoever has one;
11. refuse (`StoreGone`) what is written, what ends a run, and `watch`, which is asked before anything is sent, within a
    second after what it writes to is not there any more for others; `unkept` names the steps whose record is gone;
12. open a bounded number of connections, whatever the number of threads and runs, and none of its parent's in a forked
    child;
13. make a leaf of its log of every seal, and sign the head, within a second and outside of the run's commit; one head
    for a size, whatever is killed when;
14. in a file, vouch for what each agent has spent on a day, in the transaction that spends it (`beside.spending`):
    where it is not what was written, `spent` and an earmark that binds raise `NotAuthentic`, and a commit that has none
    goes on; a server has roles for who may change it;
15. go by one clock for leases and for the day of a limit, where several machines share it, and end whatever it does
    within a lease by the caller's own clock.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, Self

from msgspec import Struct

from reenact.contracts.records import RunKind, RunMode, RunStatus, Seal
from reenact.skills.services import KeyValueService, StoreFiles
from reenact.store.encryption import KeyFile
from reenact.store.keys.here import KeysHere
from reenact.store.keys.history import KeyHistory, Replacement, Rotation
from reenact.store.signing import SigningKey
from reenact.values.clock import Clock

if TYPE_CHECKING:
    from reenact.store.evidence import Evidence
    from reenact.store.log.log import Log

Guard = Callable[[object], object]
"""What a value goes through on its way into the store, or out of it."""

PAYLOAD_BITS = 12
"""A commit holds up to 4,095 payloads."""
INDEXED_CONTENT = 256
"""Envelopes from this size on are found again by content after any number of others; smaller ones only while recent."""
LEASE_MS = 10_000


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to append to a run, until it is taken over. `token` is the fence."""

    run_id: str
    owner: str
    token: int
    expires_ms: int
    """When it ends unless renewed, as its holder's clock tells the time: what others are told, and nobody goes by."""
    cancel: str | None = None
    """Somebody asked for the run to be cancelled, as it lies there: `asked_to_cancel` says whether to believe it."""
    kid: str = ""
    """The key that the heads of the run are authenticated with; the store's own where nothing else is said."""
    until: float = 0.0
    """Up to when nobody takes it over, on the holder's clock that never goes back."""


class NewPayload(NamedTuple):
    commitment: str
    content_key: bytes
    """Empty for content that nothing will ever equal."""
    envelope: bytes


class NewTrace(NamedTuple):
    trace_id: str
    step_index: int
    step_id: str


KeyState = Literal["reserved", "completed", "released", "in_doubt"]
"""In the hands of a call; used up by one that succeeded; free again after one that failed; or nobody knows."""


@dataclass(frozen=True, slots=True)
class KeyReservation:
    """An idempotency key that a caller gave, reserved in the transaction of the tool_call."""

    server: str
    tool: str
    key: str
    request_digest: str
    agent_id: str
    trace_id: str
    after: str | None = None
    """The trace whose call under this key is in doubt, where this call may follow it: the key goes from it to us."""


@dataclass(frozen=True, slots=True)
class KeyCompletion:
    """The call of a reserved key ends in this commit. Only the call that holds the key completes it."""

    server: str
    tool: str
    key: str
    trace_id: str
    state: KeyState


@dataclass(frozen=True, slots=True)
class KeyRecord:
    server: str
    tool: str
    key: str
    request_digest: str | None
    """None once the call was erased: then only the agent is compared."""
    agent_id: str
    trace_id: str
    run_id: str
    state: KeyState


@dataclass(slots=True)
class Earmark:
    """What a call may cost, set apart in the transaction of the tool_call. Exact picodollars."""

    trace_id: str
    day: str
    agent_id: str
    model: str
    exact: int
    day_limit: int | None
    model_limit: int | None
    binding: bool = True
    """Whether passing a limit refuses the commit."""


@dataclass(frozen=True, slots=True)
class NewRun:
    """Written with a run's first commit."""

    kind: RunKind
    mode: RunMode
    parent_run: str | None
    plan_id: str
    agent_id: str
    started_at: str
    dedupe_key: bytes
    """Keys the hash by which equal content is found again; never exported."""
    session: str | None = None
    """The id that a session's host gave it, unique per agent but for a run that continues its parent."""


class Unit(Struct, kw_only=True):
    """One commit of one run, not yet written."""

    run_id: str
    n: int
    body: bytes
    """The lines, up to the seal."""
    seal: Seal | None = None
    """Put behind the body by the store, which alone knows the seal before it. One that has its digest stands in the
    body already."""
    payloads: list[NewPayload] = []
    traces: list[NewTrace] = []
    reservations: list[KeyReservation] = []
    completions: list[KeyCompletion] = []
    earmarks: list[Earmark] = []
    ended: list[str] = []
    """Traces that end here, where money may be set apart for them."""
    new_run: NewRun | None = None
    status: RunStatus | None = None
    shared: list[tuple[str, int]] = []
    """(commitment, commit that stored it) of payloads of earlier commits that this one names again"""
    spent: list[tuple[str, str, str, int]] = []
    """(day, agent, model, picodollars) to add to what was spent"""
    frontier: bytes | None = None
    """With a run checkpoint: what recovery needs to go on from it."""
    signs: list[tuple[str, str]] = []
    """(schema, digest) of records that the run's key signs a note about, in the same transaction"""


class Appended(Struct, frozen=True):
    """A unit that is durable."""

    lease: Lease
    head: str
    """SHA-256 of its body as it was written."""
    seal: Seal | None = None
    """As it stands there."""


@dataclass(frozen=True, slots=True)
class RunRow:
    run_id: str
    kind: RunKind
    mode: RunMode
    status: RunStatus
    plan_id: str
    agent_id: str
    parent_run: str | None
    commits: int
    started_at: str
    session: str | None = None
    """The id that its host gave to a session."""
    damage: str | None = None
    """What cannot be read of the row: then nothing but `run_id` is, and that only where it can be."""

    @classmethod
    def unreadable(cls, run_id: str, damage: str) -> Self:
        return cls(run_id, "plan", "live", "held", "", "", None, 0, "", damage=damage)

    @property
    def how_to_go_on(self) -> str:
        """Of a session, in words."""
        if self.session is not None:
            return "start its program again"
        if self.kind == "trace":
            return "the runtime that wrote this trace goes on with it"
        return f"its host goes on with session(resume={self.run_id!r})"


@dataclass(frozen=True, slots=True)
class Tally:
    """What the runs up to a seal add up to, for whoever counted them."""

    sealed: int
    sums: bytes


@dataclass(frozen=True, slots=True)
class TraceRow:
    trace_id: str
    run_id: str
    step_index: int
    step_id: str
    commit_n: int


@dataclass(frozen=True, slots=True)
class LateEffect:
    """What an executor got after it was fenced off."""

    trace_id: str
    body: bytes
    """Canonical JSON of the attempt as it ended, with its values."""


class BrokenLease(Struct, frozen=True):
    """A lease that a person took from its holder."""

    run_id: str
    owner: str
    token: int
    """Under which nothing is written any more."""
    expires_ms: int
    who: str
    reason: str
    ts: str


class OpenRun(NamedTuple):
    """A run that has not ended, and who holds its lease, if anybody."""

    run_id: str
    kind: RunKind
    status: RunStatus
    owner: str | None
    expires_ms: int
    token: int = 0
    """How often somebody has taken the run up, its beginning counted."""


@dataclass(frozen=True, slots=True)
class Erasing:
    """Which values of a run go, and who says so."""

    run_id: str
    commitments: frozenset[str]
    traces: frozenset[str]
    """Calls of which what was left late, and votes that nobody took up, go too."""
    whole: bool
    """The whole run is erased, with what was said when it was to be cancelled."""
    who: str
    reason: str


@dataclass(frozen=True, slots=True)
class Archiving:
    """Which values of a sealed run go to a bundle that holds them, and who says so."""

    run_id: str
    commitments: frozenset[str]
    bundle: str
    """The digest of its manifest."""
    place: str
    """Where it was put, which may change."""
    who: str
    reason: str


@dataclass(frozen=True, slots=True)
class Archive:
    """A bundle that values of a run were moved to."""

    bundle: str
    place: str
    values: int
    """That are there and not in the store, and were not erased since."""


class KeyKeeper(Protocol):
    """Which keys sign for a store: those on record, and those that are here."""

    here: KeysHere

    def history(self) -> KeyHistory: ...
    def on_record(self) -> dict[str, str]: ...
    def own_key(self) -> SigningKey: ...
    def key_for(self, run_id: str, run_no: int, kid: str) -> SigningKey: ...
    def needing(self, history: KeyHistory) -> list[NeedingRun]: ...
    def rotate(self, who: str) -> Rotation: ...
    def replace(self, who: str, reason: str, is_sound: Callable[[str], bool]) -> list[Replacement]: ...


class NeedingRun(NamedTuple):
    """A run that has not ended, and the key that it needs to go on."""

    run_id: str
    commits: int
    head: str
    kid: str


class Store(Protocol):
    """Where runs are kept. Methods may be called from any thread."""

    store_id: str
    key_secret: bytes
    """What idempotency keys are made with, and nothing else: random, made with the store id, never exported."""
    url: str
    in_memory: bool
    """Nothing in it waits for a disk, and nothing outlives the process."""

    encryption_file: KeyFile | None
    """The keys that secrets in its values are encrypted with, beside the store and never in it.

    None where no key would be kept: what is like a secret is then taken out for good.
    """

    leftovers: str | None
    """What else may hold the bytes of a value that was erased, in words; None where nothing does."""

    key_table: KeyKeeper
    log: Log
    """Its seals as a transparency log."""
    files: StoreFiles
    """Those that it lies in, and its keys: for whoever keeps others from them."""

    @property
    def signing_key(self) -> SigningKey: ...
    def key_of(self, kid: str) -> SigningKey | None: ...
    def key_for(self, run_id: str, kid: str) -> SigningKey: ...
    def vouch(self) -> int: ...
    def authenticate(self, run_id: str) -> None: ...
    def check_recorded(self, run_id: str) -> None: ...

    def watch(self) -> None: ...
    def unkept(self, run_id: str, traces: Collection[str]) -> list[str]: ...
    def append(self, unit: Unit, lease: Lease | None, *, owner: str = "") -> Appended: ...
    def append_many(self, units: list[tuple[Unit, Lease | None, str]]) -> list[Appended | Exception]: ...
    def acquire(self, run_id: str, owner: str) -> Lease: ...
    def renew(self, held: list[Lease]) -> list[Lease]: ...
    def release(self, lease: Lease, status: RunStatus | None = None) -> None: ...
    def free_in_s(self, run_id: str) -> float | None: ...
    def break_lease(self, run_id: str, *, who: str, reason: str) -> BrokenLease | None: ...
    def broken_leases(self, run_id: str) -> list[BrokenLease]: ...

    def request_cancel(self, run_id: str, note: str) -> None: ...
    def cancel_request(self, run_id: str) -> str | None: ...
    def cast_vote(
        self, run_id: str, trace_id: str, body: bytes, *, settles: bool, replaces: bytes | None = None
    ) -> bool: ...
    def pending_votes(self, run_id: str) -> dict[str, bytes]: ...

    def find_run(self, prefix: str) -> RunRow: ...
    def find_session(self, agent_id: str, session: str) -> RunRow | None: ...
    def open_session(self, agent_id: str, session: str) -> RunRow | None: ...
    def runs(
        self, *, status: tuple[RunStatus, ...] | None = None, limit: int | None = None, before: str | None = None
    ) -> list[RunRow]: ...
    def replays(self, run_id: str) -> list[RunRow]: ...
    def sealed(self, after: int, limit: int) -> list[tuple[int, RunRow]]: ...
    def tally(self, name: str) -> Tally | None: ...
    def keep_tally(self, name: str, tally: Tally) -> bool: ...
    def unattended(self) -> frozenset[str]: ...
    def open_run(self, run_id: str) -> OpenRun | None: ...
    def bodies(self, run_id: str, *, after: int = 0, unchecked: bool = False) -> Iterator[bytes]: ...
    def latest_frontier(self, run_id: str) -> tuple[int, bytes] | None: ...
    def trace(self, trace_id: str, *, run_id: str | None = None) -> TraceRow | None: ...
    def trace_at(self, run_id: str, step_index: int) -> TraceRow | None: ...
    def step_ids(self, run_id: str) -> list[str]: ...

    def payload(self, run_id: str, commitment: str, *, near: int | None = None) -> bytes | None: ...
    def payloads(self, run_id: str) -> Iterator[tuple[str, bytes]]: ...
    def find_content(self, run_id: str, content_key: bytes) -> tuple[str, int] | None: ...
    def dedupe_key(self, run_id: str) -> bytes: ...
    def body(self, run_id: str, n: int) -> bytes | None: ...

    def today(self, clock: Clock) -> str:
        """The day that limits go by, `YYYY-MM-DD` in UTC: the same for all who share the store at one moment.

        `clock` is the asker's own, which is believed where all of them share a machine.
        """

    def spent(self, day: str, agent_id: str) -> dict[str, int]: ...
    def set_apart(self, day: str, agent_id: str, besides: Collection[str] = ()) -> dict[str, int]: ...
    def key_record(self, server: str, tool: str, key: str) -> KeyRecord | None: ...
    def add_late_effect(self, run_id: str, late: LateEffect) -> None: ...
    def late_effects(self, run_id: str, trace_id: str) -> list[LateEffect]: ...

    def key_values(self, agent_id: str, redact: Guard, decrypt: Guard) -> KeyValueService: ...
    def public_keys(self) -> dict[str, str]: ...
    def erasures(self) -> list[bytes]: ...
    def erase(self, erasing: Erasing) -> int: ...
    def archive(self, archiving: Archiving) -> int: ...
    def restore(self, run_id: str, envelopes: Iterable[tuple[str, bytes]]) -> int: ...
    def archives(self, run_id: str) -> list[Archive]: ...
    def is_archived(self, run_id: str, commitment: str) -> bool: ...
    def archived_values(self, run_id: str) -> list[str]: ...
    def sealed_with_values(self) -> Iterator[str]: ...
    def scrub(self) -> None: ...
    def evidence(self) -> Evidence: ...
    def close(self) -> None: ...
