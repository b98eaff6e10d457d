"""What is handed to `session.call`: the host's mistakes are errors, a model's become calls that a gate refuses."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence

from reenact.contracts.model_mistakes import UNKNOWN_TOOL, misnamed, unusable
from reenact.contracts.plan import STEP_ID
from reenact.contracts.plan_rules import SKILL_ID, VERSION
from reenact.contracts.references import SCALARS, escape
from reenact.errors import CanonicalizationError, SkillError, UsageError
from reenact.runtime.drain import Drain
from reenact.runtime.effects.threads import forked
from reenact.runtime.session.answering.lanes import NUMBERED, lane_of
from reenact.runtime.session.plan import Document
from reenact.skills.context import CURRENT
from reenact.skills.plain import to_plain
from reenact.values.bounds import place_in
from reenact.values.canonical import MAX_DEPTH, as_recorded, canonicalize
from reenact.values.ids import refuse_nul

POINTER = re.compile(r"(/([^/~]|~[01])*)+\Z")
LONGEST_KEY = 255
DEPTH_IN_A_PLAN = 8


class StepNames:
    """The ids of a session's calls: `c1`, `c2`, … by their place, or as the host says; each of them once.

    `earlier` gives those that an earlier process took. It is asked when the host first says one.
    """

    def __init__(self, earlier: Callable[[], Iterable[str]]) -> None:
        self._earlier = earlier
        self._given: set[str] | None = None

    def automatic(self, index: int) -> str:
        return f"c{index + 1}"

    def given(self, name: str, index: int) -> str:
        """The name that the host says; UsageError where it is, or will be, that of another call."""
        if NUMBERED.match(name) and name != self.automatic(index):
            raise UsageError(f"step_id {name!r} is what the session itself calls its calls; take another")
        if self._given is None:
            self._given = {known for known in self._earlier() if not NUMBERED.match(known)}
        if name in self._given:
            raise UsageError(f"step_id {name!r} is that of another call of this session; take another")
        return name

    def take(self, name: str) -> None:
        """A call of this name has begun."""
        if self._given is not None and not NUMBERED.match(name):
            self._given.add(name)


class Whereabouts:
    """Where a session lives: in one process and one loop. In any other nobody would wake what waits here."""

    def __init__(self, in_flight: Mapping[str, object]) -> None:
        self._in_flight = in_flight
        self._process = os.getpid()
        self._loop = asyncio._get_running_loop()  # noqa: SLF001  # None where there is none

    @property
    def is_forked(self) -> bool:
        """Whether this process is a child of the one that it was opened in."""
        return os.getpid() != self._process

    @property
    def is_idle(self) -> bool:
        """No call is under way, as far as its loop is still there."""
        return not self._in_flight or self._loop is None or self._loop.is_closed()

    def check(self, run_id: str, drain: Drain, *, by_threads: bool) -> None:
        """Before anything is asked of the session."""
        if drain.asked:
            drain.refuse()
        self.refuse_elsewhere(run_id, by_threads=by_threads)

    def refuse_elsewhere(self, run_id: str, *, by_threads: bool) -> None:
        """What threads use through its synchronous front comes from other loops, and is done in its own."""
        if os.getpid() != self._process:
            raise UsageError(forked(self._process))
        running = asyncio._get_running_loop()  # noqa: SLF001  # as above
        if running is not self._loop and running is not None and not by_threads:
            raise UsageError(
                f"session {run_id} was opened in another event loop, and is used and left there alone; open one in "
                "this loop, or use `with runtime.session(…)`, which threads share"
            )


def refuse_in_tool(run_id: str) -> None:
    """A tool's body is not run when its call is answered from the record, so what it would ask for is never asked."""
    ctx = CURRENT.get()
    if ctx is not None and ctx.run_id == run_id:
        raise UsageError(
            "a tool's body cannot call the session that called it: a program that is started again would not ask for "
            "that. Call from the program, in a lane, or give the tool a session with an id of its own"
        )


def refuse_place(step_id: str) -> None:
    """A host does not call its calls what the session calls them by their place."""
    if lane_of(step_id) is not None:
        raise UsageError(f"step_id {step_id!r} is what the session itself calls its calls; take another")


class Unbindable(Exception):  # it becomes a refusal: whether a place is there depends on what a model wrote
    """A secret's place is not in the parameters."""


def is_recordable(skill_id: object, is_writable: Callable[[str], bool]) -> bool:
    """Whether the name of a tool can be recorded; a model may have made one up that cannot.

    `is_writable` says whether a name may stand in the chain as it is.
    """
    if not isinstance(skill_id, str):
        raise UsageError(f"the name of a tool is a text, not a {type(skill_id).__name__}")
    return SKILL_ID.match(skill_id) is not None and is_writable(skill_id)


def no_tool(skill_id: str, parameters: Document) -> tuple[str, None, Document]:
    """(skill id, version, parameters) of a call whose tool has a name that cannot be recorded: no skill answers it."""
    return UNKNOWN_TOOL, None, misnamed(skill_id, parameters)


def check_arguments(version: object, step_id: object, key: object, secrets: Mapping[str, str]) -> None:
    """What the host itself says about a call; UsageError before anything of the call is recorded."""
    if version is not None and not (isinstance(version, str) and VERSION.match(version)):
        raise UsageError(f"version {version!r} is not a version like 1.2.0; leave it out for the highest")
    if step_id is not None and not (isinstance(step_id, str) and STEP_ID.match(step_id)):
        raise UsageError(f"step_id {step_id!r} is not 1 to 128 of A-Z a-z 0-9 _ . : -")
    if key is not None:
        check_key(key)
    for pointer, name in secrets.items():
        if not (isinstance(pointer, str) and POINTER.match(pointer)):
            raise UsageError(f"{pointer!r} is not a JSON pointer such as /headers/authorization")
        if not (isinstance(name, str) and is_text(name) and name):
            raise UsageError(f"secrets[{pointer!r}] is the name of a secret, not {name!r}")


def check_id(session_id: object, resume: str | None) -> None:
    """What the host calls a session."""
    if not isinstance(session_id, str) or not is_text(session_id) or not 1 <= len(session_id) <= LONGEST_KEY:
        raise UsageError(f"the id of a session is 1 to {LONGEST_KEY} characters of text, not {session_id!r}")
    refuse_nul("the id of a session", session_id)
    if resume is not None:
        raise UsageError("id= finds a session by what you call it, resume= by its run id: say one of them")


def check_divergence(wish: object, accept: Sequence[str], *, has_id: bool) -> None:
    """What is to happen where a program that is started again goes another way."""
    if wish not in ("raise", "fork"):
        raise UsageError(f"on_divergence={wish!r} is neither raise nor fork")
    if isinstance(accept, str) or not all(isinstance(name, str) for name in accept):
        raise UsageError('accept is a list of names of calls, such as ["main:3"]')
    if (wish == "fork" or accept) and not has_id:
        raise UsageError("on_divergence and accept are about a session that has an id")
    if accept and wish != "fork":
        raise UsageError('accept says what on_divergence="fork" may leave behind; say that too')


def check_key(key: object) -> None:
    if not isinstance(key, str):
        raise UsageError(f"idempotency_key is a text, not a {type(key).__name__}")
    if not 1 <= len(key) <= LONGEST_KEY or not is_text(key):
        raise UsageError(f"idempotency_key is 1 to {LONGEST_KEY} characters of text; this one has {len(key)}")
    refuse_nul("idempotency_key", key)


def check_commands(commands: Sequence[str], timeout_s: float) -> None:
    """What `verify` is given; UsageError before anything of it is run."""
    if isinstance(commands, str | bytes) or not isinstance(commands, Sequence):
        raise UsageError('commands is a list of commands: verify(["make test"])')
    for number, command in enumerate(commands):
        where = f"commands[{number}]"
        if not isinstance(command, str) or not is_text(command) or "\0" in command:
            raise UsageError(f"{where} is a text, as one would type it, not {command!r}")
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise UsageError(f"{where} cannot be split into words: {error}") from None
        if not words or not words[0]:
            raise UsageError(f"{where} is empty")
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float) or not timeout_s > 0:
        raise UsageError(f"timeout_s is a number of seconds above 0, not {timeout_s!r}")


def is_text(value: str) -> bool:
    """Without half of a surrogate pair."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def spoken_parameters(parameters: object, secrets: Mapping[str, str]) -> Document:
    """What a model said, as it can be recorded: escaped, with the references that the host bound at their pointers."""
    if parameters is None:
        parameters = {}
    try:
        if not isinstance(parameters, Mapping):
            parameters = to_plain(parameters, "the parameters")
        if not isinstance(parameters, Mapping):
            return unusable(f"the parameters of a call are an object, not a {type(parameters).__name__}")
        try:
            value = recordable(dict(parameters))
        except CanonicalizationError:  # a host hands over values of its own: dates, models, subclasses of str
            value = recordable(to_plain(dict(parameters), "the parameters"))
    except CanonicalizationError as error:
        return unusable(f"the parameters cannot be recorded: {error}")
    except SkillError as error:
        return unusable(str(error))
    try:
        for pointer, name in secrets.items():
            bind_secret(value, pointer, name)
    except Unbindable as error:
        return unusable(str(error))
    return value


def recordable(plain: Document) -> Document:
    if not SCALARS.issuperset(map(type, plain.values())):
        refuse_too_deep(plain)
    value = escape(as_recorded(plain))
    assert isinstance(value, dict)
    return value


def refuse_too_deep(plain: Document) -> None:
    """CanonicalizationError where the session's plan, in which they come to stand, could not be written with them."""
    content = canonicalize(plain)
    if content.count(b"{") + content.count(b"[") > MAX_DEPTH - DEPTH_IN_A_PLAN:
        canonicalize({"context": {"steps": [{"parameters": plain}]}})


def bind_secret(value: Document, pointer: str, name: str) -> None:
    parts = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]
    target: object = value
    for part in parts[:-1]:
        target = step_into(target, part, pointer)
    last = parts[-1]
    if isinstance(target, dict):
        target[last] = {"$secret": name}
    elif isinstance(target, list) and (place := place_in(target, last)) is not None:
        target[place] = {"$secret": name}
    else:
        raise Unbindable(f"the secret at {pointer!r} has no place in these parameters")


def step_into(target: object, part: str, pointer: str) -> object:
    if isinstance(target, dict):
        return target.setdefault(part, {})
    if isinstance(target, list) and (place := place_in(target, part)) is not None:
        return target[place]
    raise Unbindable(f"the secret at {pointer!r} has no place in these parameters")
