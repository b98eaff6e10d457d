"""The rules of the lease as an explicit-state model: two executors, one run, clocks that wander, and every state.

Time goes in ticks; a lease lasts `LEASE` of them. What no executor can know (`Ghost`: whom the run was given to last,
and how) is kept beside what the rules may look at, and only the invariants look there. Each rule can be switched off.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

LEASE: Final = 2
MOST_GRANTS: Final = 3
MOST_WANDERINGS: Final = 1

RULES: Final = {
    "the fence is compared": "a commit under another token than the run's is refused",
    "a takeover raises the token": "whoever gets the run gets a new token",
    "a break raises the token": "a lease that a person breaks leaves its token behind",
    "a past deadline frees nothing": "what a clock says of the deadline does not free a run",
    "a far deadline keeps nothing": "what a clock says of the deadline does not keep a run",
    "a renewal shows": "each renewal changes the row, also while a clock stands still",
    "a renewal restarts the watch": "who watches begins again when the row has changed",
    "a watch lasts a lease": "the row is watched for as long as a lease lasts",
    "a holder goes by no wall clock": "it judges its own lease by a clock that never goes back",
    "a holder stops in time": "it renews before it sends where its lease may be over",
    "only the holder releases": "who was fenced off gives nothing back",
    "only the holder renews": "who was fenced off renews nothing",
    "a stopped process is not gone": "only one that has ended gives up its lease at once",
    "a dead process is gone": "one of this host that has ended gives up its lease at once",
}

NOTHING: Final = {"token": 0, "age": 0, "lease_wall": 0, "robbed": False}
"""What an executor has that knows that its lease is gone."""

WANDERED: Final = {-1: "a year behind", 0: "set right", 1: "a year ahead"}

Life = Literal["alive", "frozen", "dead"]


class Row(NamedTuple):
    """As it lies in the store."""

    owner: int | None = None
    token: int = 1
    age: int = 0
    """Ticks since it was last granted or renewed."""
    wall: int = 0
    """The clock that its deadline was written by: 0 is right, 1 is a year ahead, -1 a year behind."""


class Executor(NamedTuple):
    life: Life = "alive"
    wall: int = 0
    token: int = 0
    """Of the lease that it believes to have; 0 for none."""
    age: int = 0
    """Ticks since it got or renewed that, on its own clock that never goes back."""
    lease_wall: int = 0
    watched: tuple[bool, int] | None = None
    """(whether the row is still what it saw, ticks since it saw that first)"""
    robbed: bool = False
    """A person took its lease, and not the rules: what it has under way goes out."""


class Ghost(NamedTuple):
    """The truth, which only invariants look at."""

    holder: int | None = None
    """Whom the run was given to last; None once that one gave it back, or a person took it."""
    token: int = 0
    """Grants and breaks so far."""
    wanderings: int = 0


class State(NamedTuple):
    row: Row = Row()
    executors: tuple[Executor, ...] = (Executor(), Executor())
    ghost: Ghost = Ghost()


class Step(NamedTuple):
    """An action with what came of it; `broken` names the invariant that it violates."""

    action: str
    who: int | None
    result: str
    state: State
    broken: str | None = None


class Model:
    """All steps from a state, with every rule but `off`. On one host a dead process is seen to be gone."""

    def __init__(self, off: str | None = None, *, one_host: bool = True) -> None:
        assert off is None or off in RULES
        self.off = off
        self.one_host = one_host

    def has(self, rule: str) -> bool:
        return rule != self.off

    def steps(self, state: State) -> Iterator[Step]:
        yield self.tick(state)
        if state.row.owner is not None:
            yield self.break_lease(state)
        for who, executor in enumerate(state.executors):
            if executor.life == "alive":
                yield from self.of_the_living(state, who)
            elif executor.life == "frozen":
                yield changed(state, "wake", who, life="alive")
            else:
                yield changed(
                    state, "start", who, life="alive", token=0, age=0, lease_wall=0, watched=None, robbed=False
                )

    def of_the_living(self, state: State, who: int) -> Iterator[Step]:
        executor = state.executors[who]
        yield changed(state, "freeze", who, life="frozen")
        yield changed(state, "die", who, life="dead")
        if state.ghost.wanderings < MOST_WANDERINGS:
            ghost = state.ghost._replace(wanderings=state.ghost.wanderings + 1)
            for wall in {-1, 0, 1} - {executor.wall}:
                yield changed(state._replace(ghost=ghost), "wander", who, result=WANDERED[wall], wall=wall)
        if executor.token:
            yield self.renew(state, who)
            yield self.commit(state, who)
            yield self.dispatch(state, who)
            yield self.release(state, who)
        elif state.ghost.token < MOST_GRANTS:
            yield self.acquire(state, who)

    # -- time, people ----------------------------------------------------------------------------------------------

    def tick(self, state: State) -> Step:
        """A clock that never goes back goes on for everybody, frozen or not."""
        executors = tuple(
            each._replace(
                age=min(each.age + 1, LEASE) if each.token else 0,
                watched=None if each.watched is None else (each.watched[0], min(each.watched[1] + 1, LEASE)),
            )
            for each in state.executors
        )
        row = state.row._replace(age=min(state.row.age + 1, LEASE) if state.row.owner is not None else 0)
        return Step("tick", None, "", state._replace(row=row, executors=executors))

    def break_lease(self, state: State) -> Step:
        token = state.row.token + self.has("a break raises the token")
        ghost, owner = state.ghost._replace(holder=None, token=state.ghost.token + 1), state.row.owner
        assert owner is not None
        after = seen_to_change(state, Row(None, token), ghost)
        robbed = after.executors[owner]._replace(robbed=after.executors[owner].token == state.row.token)
        return Step("break", None, "broken", with_executor(after, owner, robbed))

    # -- executors -------------------------------------------------------------------------------------------------

    def acquire(self, state: State, who: int) -> Step:
        """Take the run if it is free; else what is seen of its lease is remembered, and that is a watch."""
        row, ghost = state.row, state.ghost
        watch = self.watch(state, who)
        if row.owner is not None and not self.may_take(state, who, watch):
            told = None
            if watch[1] >= LEASE and row.age >= LEASE:
                told = "a silent holder keeps its run beyond a lease of watching"
            elif self.one_host and state.executors[row.owner].life == "dead":
                told = "a process of this host that has ended keeps its run"
            return changed(state, "acquire", who, result="refused", broken=told, watched=watch)
        violated = None
        holder = None if ghost.holder is None else state.executors[ghost.holder]
        if holder is not None and holder.life != "dead" and row_is_fresh(state):
            violated = "the run of a holder that lives and renews was taken"
        token = row.token + self.has("a takeover raises the token")
        if token in [each.token for each in state.executors if each.token and each is not state.executors[who]]:
            violated = violated or "two have the same token"
        mine = state.executors[who]
        taken = seen_to_change(state, Row(who, token, 0, mine.wall), ghost._replace(holder=who, token=ghost.token + 1))
        lease = mine._replace(token=token, age=0, lease_wall=mine.wall, watched=None, robbed=False)
        return Step("acquire", who, "taken", with_executor(taken, who, lease), violated)

    def watch(self, state: State, who: int) -> tuple[bool, int]:
        seen = state.executors[who].watched
        if seen is None or (not seen[0] and self.has("a renewal restarts the watch")):
            return True, 0
        return seen

    def may_take(self, state: State, who: int, watch: tuple[bool, int]) -> bool:
        row, mine = state.row, state.executors[who]
        assert row.owner is not None
        life = state.executors[row.owner].life
        if self.one_host and life == "dead" and self.has("a dead process is gone"):
            return True
        if self.one_host and life == "frozen" and not self.has("a stopped process is not gone"):
            return True
        is_past = mine.wall > row.wall or (mine.wall == row.wall and row.age >= LEASE)
        if is_past and not self.has("a past deadline frees nothing"):
            return True
        if not is_past and not self.has("a far deadline keeps nothing"):
            return False
        return watch[1] >= (LEASE if self.has("a watch lasts a lease") else LEASE - 1)

    def renew(self, state: State, who: int) -> Step:
        row, mine = state.row, state.executors[who]
        if row.owner != who or row.token != mine.token:
            if self.has("only the holder renews"):
                return changed(state, "renew", who, result="refused", **NOTHING)
            return changed(state, "renew", who, result="renewed", age=0, lease_wall=mine.wall)
        renewed = row._replace(age=0, wall=mine.wall)
        shows = self.has("a renewal shows") or mine.wall != row.wall
        after = seen_to_change(state, renewed, state.ghost) if shows else state._replace(row=renewed)
        return Step("renew", who, "renewed", with_executor(after, who, mine._replace(age=0, lease_wall=mine.wall)))

    def commit(self, state: State, who: int) -> Step:
        mine, ghost = state.executors[who], state.ghost
        if mine.token != state.row.token and self.has("the fence is compared"):
            return changed(state, "commit", who, result="refused", **NOTHING)
        violated = None if ghost.holder == who else "a write was committed by somebody who has not got the run"
        return Step("commit", who, "committed", state, violated)

    def dispatch(self, state: State, who: int) -> Step:
        """Where its lease may be over it is renewed first, in the same breath."""
        mine = state.executors[who]
        if not self.is_sure(mine):
            renewed = self.renew(state, who)
            if renewed.result == "refused":
                return renewed._replace(action="dispatch")
            state = renewed.state
        lost = state.ghost.holder != who and not mine.robbed
        return Step("dispatch", who, "sent", state, "a call was sent by somebody who lost the run" if lost else None)

    def is_sure(self, mine: Executor) -> bool:
        """Whether nobody can have taken its lease, as far as it can tell by itself."""
        longest = LEASE if self.has("a holder stops in time") else LEASE + 1
        if self.has("a holder goes by no wall clock"):
            return mine.age < longest
        return mine.wall < mine.lease_wall or (mine.wall == mine.lease_wall and mine.age < longest)

    def release(self, state: State, who: int) -> Step:
        row, mine = state.row, state.executors[who]
        bare = mine._replace(**NOTHING)  # type: ignore[arg-type]
        if (row.owner != who or row.token != mine.token) and self.has("only the holder releases"):
            return Step("release", who, "left", with_executor(state, who, bare))
        ghost = state.ghost._replace(holder=None) if state.ghost.holder == who else state.ghost
        return Step(
            "release", who, "free", with_executor(seen_to_change(state, Row(None, row.token), ghost), who, bare)
        )


def row_is_fresh(state: State) -> bool:
    """Whether less than a lease has passed since the last holder got or renewed the run."""
    holder = state.ghost.holder
    return holder is not None and state.executors[holder].token > 0 and state.executors[holder].age < LEASE


def seen_to_change(state: State, row: Row, ghost: Ghost) -> State:
    """Whoever looks next sees another row."""
    executors = tuple(
        each if each.watched is None else each._replace(watched=(False, each.watched[1])) for each in state.executors
    )
    return State(row, executors, ghost)


def with_executor(state: State, who: int, executor: Executor) -> State:
    executors = tuple(executor if number == who else each for number, each in enumerate(state.executors))
    return state._replace(executors=executors)


def changed(
    state: State, action: str, who: int, *, result: str = "", broken: str | None = None, **change: object
) -> Step:
    executor = state.executors[who]._replace(**change)  # type: ignore[arg-type]  # fields by their names
    return Step(action, who, result, with_executor(state, who, executor), broken)


class Explored(NamedTuple):
    states: int
    steps: int
    broken: str | None
    """The first invariant that does not hold."""
    trace: tuple[Step, ...]
    """The shortest way there."""

    def __str__(self) -> str:
        if self.broken is None:
            return f"{self.states} states, {self.steps} steps: every invariant holds"
        lines = [f"  {number}. {told(step)}" for number, step in enumerate(self.trace, start=1)]
        return "\n".join([f"{self.broken}:", *lines])


def told(step: Step) -> str:
    who = "" if step.who is None else f"{'AB'[step.who]} "
    return f"{who}{step.action}{' → ' + step.result if step.result else ''}"


def explore(model: Model) -> Explored:
    """Every state that can be reached, the nearest first; ends with the first that breaks an invariant."""
    first = State()
    came: dict[State, tuple[State, Step] | None] = {first: None}
    queue, count = deque([first]), 0
    while queue:
        state = queue.popleft()
        for step in model.steps(state):
            count += 1
            if step.broken is not None:
                return Explored(len(came), count, step.broken, (*way_to(came, state), step))
            if step.state not in came:
                came[step.state] = (state, step)
                queue.append(step.state)
    return Explored(len(came), count, None, ())


def way_to(came: dict[State, tuple[State, Step] | None], state: State) -> list[Step]:
    steps: list[Step] = []
    while (before := came[state]) is not None:
        state, step = before
        steps.append(step)
    return steps[::-1]
