"""`Draft`: records staged for the next commit, and the body that they become."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter, itemgetter

from msgspec import Struct, field
from msgspec.structs import replace

from reenact.contracts.records import RunCheckpoint
from reenact.journal import chain
from reenact.store.base import Unit

IN_ORDER = attrgetter("begins", "step_index")
"""Of traces in a commit: those that began earlier, then new ones, each by step index."""
LISTS = (
    *("run", "events", "votes", "payloads", "shared", "traces"),
    *("reservations", "completions", "earmarks", "ended", "spent", "signs", "after"),
)


RUN_CHECKPOINT = "reenact.run_checkpoint.v1"


class TraceLines(Struct):
    """What one trace adds to a commit."""

    step_index: int
    begins: bool
    lines: list[bytes] = []
    attempts: list[bytes] = []
    """Leaves of the seal's tree of attempts."""


class Place(Struct):
    """The commit in which something is stored, once it is durable."""

    n: int = 0


class Draft(Unit, kw_only=True):
    """A commit in the making: what goes with it to the store, and the lines that become its body."""

    n: int = 0
    body: bytes = b""
    run: list[bytes] = field(default_factory=list)
    events: list[tuple[str, bytes]] = field(default_factory=list)
    votes: list[bytes] = field(default_factory=list)
    lines_of: dict[str, TraceLines] = field(default_factory=dict)
    """By trace."""
    checkpoints: dict[int, bytes] = field(default_factory=dict)
    run_checkpoint: RunCheckpoint | None = None
    after: list[Callable[[], None]] = field(default_factory=list)
    """Called once it is durable."""
    place: Place = field(default_factory=Place)

    @property
    def has_lines(self) -> bool:
        return bool(self.lines_of or self.run or self.events or self.votes or self.checkpoints or self.seal)

    def lines_for(self, trace_id: str, step_index: int, *, begins: bool = False) -> TraceLines:
        lines = self.lines_of.get(trace_id)
        if lines is None:
            lines = self.lines_of[trace_id] = TraceLines(step_index, begins)
        return lines

    def write_body(self, n: int, prev: str, traces: list[TraceLines]) -> None:
        """As commit `n` behind `prev`: the lines in the format's order, up to the seal. `traces` are in order."""
        self.n = n
        lines = [chain.commit_line(n, prev, self.run_id), *self.run]
        if self.events:  # sorted, since a clock may have been set back between two events
            lines += [line for _, line in sorted(self.events, key=itemgetter(0))]
        lines += self.votes
        for trace in traces:
            lines += trace.lines
        if self.checkpoints:
            lines += [line for _, line in sorted(self.checkpoints.items())]
        body = b"".join(lines)
        if self.run_checkpoint is not None:
            checkpoint = chain.with_digest(replace(self.run_checkpoint, run_head=chain.sha(body)))
            body += chain.run_checkpoint_line(checkpoint)
            self.signs = [*self._signed_besides(), (checkpoint.schema, str(checkpoint.digest))]
        self.body = body

    def absorb(self, later: Draft) -> None:
        """What was staged meanwhile, behind this."""
        for name in LISTS:
            getattr(self, name).extend(getattr(later, name))
        for trace_id, lines in later.lines_of.items():
            mine = self.lines_for(trace_id, lines.step_index, begins=lines.begins)
            mine.lines += lines.lines
            mine.attempts += lines.attempts
        self.checkpoints |= later.checkpoints
        self.seal = later.seal or self.seal
        self.status = later.status or self.status
        self.forget_run_checkpoint()

    def forget_run_checkpoint(self) -> None:
        """It is made anew from what is staged then."""
        if self.run_checkpoint is not None:
            self.signs = self._signed_besides()
        self.run_checkpoint = self.frontier = None

    def _signed_besides(self) -> list[tuple[str, str]]:
        """All but the run checkpoint, which has another digest in another commit."""
        return [each for each in self.signs if each[0] != RUN_CHECKPOINT]
