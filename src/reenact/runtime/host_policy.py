"""The host's policy: where it is found, and what it leaves of every plan and session.

In this order: `Runtime(policy=…)` or `--host-policy`; the file that REENACT_POLICY names; `reenact.toml` in the user's
configuration; else the careful default. `reenact.toml` in the current folder comes on top of the last two, and only
narrows: a folder that came by mail, or by `git clone`, belongs to its reader too, and must not bring its own
permission.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from reenact.contracts.host_policy import Policy, read_policy
from reenact.contracts.plan import Context, Plan, plan_from_document
from reenact.contracts.references import secret_mistakes, secret_names
from reenact.errors import BeyondPolicy, PolicyError
from reenact.policy.ceiling import OPEN, Beyond, Ceiling, careful, ceiling_of, first_beyond, names, narrow
from reenact.runtime.effects.secrets import Secrets
from reenact.store.location import POLICY_FILE as FILE
from reenact.store.location import POLICY_VARIABLE as VARIABLE
from reenact.store.location import config_directory
from reenact.values.bounds import parse_toml
from reenact.values.canonical import canonicalize
from reenact.values.digest import sha256_hex
from reenact.values.threads import once

DEFAULT: Final = "the careful default; nobody has set a policy"
NOTHING_SAID: Final = Policy()
IN_CODE: Final = "Runtime(policy=…)"
MOST_BYTES: Final = 1_000_000
Document = dict[str, object]

Part = TypeVar("Part", bound=msgspec.Struct)


@dataclass(frozen=True)
class HostPolicy:
    """What was said, by whom, and the ceilings that follow."""

    said: Policy = NOTHING_SAID
    origin: str = DEFAULT
    by_command: bool = False
    """No program of the host is at work, but the command line."""
    lines: Mapping[str, str] = field(default_factory=dict)
    """By key, the file and the line that say it."""
    trusts_plans: bool = False
    """The user has said that what a plan names may be loaded; a policy that lists supervisors still holds."""

    @property
    def is_stated(self) -> bool:
        return self.said != NOTHING_SAID

    @once
    def digest(self) -> str | None:
        """By which a run tells under which policy it was pinned; None where nobody has set one."""
        return sha256_hex(canonicalize(msgspec.to_builtins(self.said))) if self.is_stated else None

    @property
    def for_plans(self) -> Ceiling:
        ceiling = ceiling_of(self.said, careful(current_folder()), here)
        if self.trusts_plans and self.said.supervisors is UNSET:
            return replace(ceiling, supervisors=None)
        return ceiling

    @once
    def for_sessions(self) -> Ceiling:
        """What a policy says holds for sessions too; what it leaves unset, their own program says.

        A command has only a session's record, and that may be anybody's, as a plan.
        """
        if self.by_command:
            return self.for_plans
        return ceiling_of(self.said, OPEN, here) if self.is_stated else OPEN

    # -- plans -----------------------------------------------------------------------------------------------------

    def admit(self, plan: Plan, document: Document, secrets: Secrets, *, source: str) -> tuple[Plan, Document]:
        """The plan within the ceiling; BeyondPolicy where it asks by name for what it may not have."""
        ceiling = self.for_plans
        try:
            refuse_agent(plan.agent_id, ceiling)
            refuse_secret_names(plan, ceiling, secrets)
            context = narrow(plan.context, ceiling, here)
        except Beyond as beyond:
            raise self.refusal(beyond, source) from None
        if context == plan.context:
            return plan, document
        return msgspec.structs.replace(plan, context=context), self.narrowed(document, plan.context, context)

    def narrowed(self, document: Document, before: Context, after: Context) -> Document:
        """The document with what became of its context; one that is pinned says under which policy."""
        own = document.get("context")
        written: Document = dict(own) if isinstance(own, dict) else {}
        for name in changed(before, after):
            written[name] = msgspec.to_builtins(getattr(after, name))
        pins = written.get("pins")
        if isinstance(pins, dict) and self.digest is not None:
            written["pins"] = {**pins, "policy": self.digest}
        return {**document, "context": written}

    def refusal(self, beyond: Beyond, source: str) -> BeyondPolicy:
        decides = f"{beyond.key} in the host's policy decides ({self.lines.get(beyond.key, self.origin)})"
        if not self.is_stated:
            decides += f"; say more in a file that --host-policy or {VARIABLE} names"
        return BeyondPolicy(f"{source}: {beyond}; {decides}", key=beyond.key)

    def decided_by(self, key: str, refuses: Callable[[Ceiling], bool], *, is_session: bool) -> str:
        """Of a call that a limit refused: which key says so, and where; nothing where the policy does not."""
        if not self.is_stated or not refuses(self.for_sessions if is_session else self.for_plans):
            return ""
        return f"; {key} in the host's policy decides ({self.lines.get(key, self.origin)})"

    # -- sessions --------------------------------------------------------------------------------------------------

    def admit_session(self, agent_id: str, context: Document) -> Document:
        """What a session is opened with, within what the policy says."""
        if not self.is_stated:
            return context
        empty = {"plan_id": "session", "agent_id": agent_id, "steps": [], "context": context}
        before = plan_from_document(empty, source="session")[0].context
        try:
            refuse_agent(agent_id, self.for_sessions)
            after = narrow(before, self.for_sessions, here)
        except Beyond as beyond:
            raise self.refusal(beyond, "session") from None
        return {**context, **{name: msgspec.to_builtins(getattr(after, name)) for name in changed(before, after)}}

    # -- runs that go on -------------------------------------------------------------------------------------------

    def forbids(self, plan: Plan, secrets: Secrets, *, is_session: bool) -> str | None:
        """Why a run that was begun goes no further under the policy of today; None where all of it is allowed."""
        ceiling = self.for_sessions if is_session else self.for_plans
        try:
            refuse_agent(plan.agent_id, ceiling)
            refuse_secret_names(plan, ceiling, secrets)
            narrower = list(changed(plan.context, narrow(plan.context, ceiling, here)))
        except Beyond as beyond:
            return str(self.refusal(beyond, "it was begun with more than the host's policy allows today"))
        if not narrower:
            return None
        named = ", ".join(f"context.{name}" for name in narrower)
        return (
            f"the host's policy allows less today than it was begun with, in {named} ({self.origin}); change that, or "
            "end the run with `reenact cancel`"
        )


def current_folder() -> str | None:
    try:
        return str(Path.cwd().resolve())
    except OSError:  # it was removed
        return None


def here(path: str) -> str:
    return str(Path(path).resolve())


def changed(before: Context, after: Context) -> Iterator[str]:
    return (name for name in Context.__struct_fields__ if getattr(before, name) != getattr(after, name))


def refuse_agent(agent_id: str, ceiling: Ceiling) -> None:
    if not names(ceiling.agents, agent_id):
        raise Beyond("$.agent_id", "agents", f"{agent_id!r} is not among the agents of this host")


def refuse_secret_names(plan: Plan, ceiling: Ceiling, secrets: Secrets) -> None:
    """A secret is named in so many words: nothing that a tool says becomes the name of one."""
    for index, step in enumerate(plan.steps):
        for mistake in secret_mistakes(step.parameters, f"$.steps[{index}].parameters"):
            where, _, why = mistake.partition(": ")
            raise Beyond(where, "secrets", why)
        for name in secret_names(step.parameters) if ceiling.secrets is not None else ():
            if not names(ceiling.secrets, name) and not secrets.binds(name):
                why = f"the secret {name!r} is not among those that plans may name here"
                raise Beyond(f"$.steps[{index}].parameters", "secrets", why)


PolicyLike = HostPolicy | Policy | Mapping[str, object] | str | Path | None

# -- where it comes from -----------------------------------------------------------------------------------------------


def find_policy(given: PolicyLike = None) -> HostPolicy:
    """The policy in force; PolicyError where it cannot be read, or lies where it may not say what it says."""
    if isinstance(given, HostPolicy):
        return given
    if isinstance(given, Policy):  # which takes whatever it is given: a text in place of a list would be its letters
        said = read_policy(msgspec.to_builtins(given), source=IN_CODE)
        return HostPolicy(with_whole_paths(said, Path()), IN_CODE)
    if isinstance(given, Mapping):
        return HostPolicy(with_whole_paths(read_policy(given, source="policy"), Path()), IN_CODE)
    named = given or os.environ.get(VARIABLE)
    if named:
        return read_file(Path(named), f"{VARIABLE}={named}" if given is None else str(named))
    settings, beside = config_directory(), Path(FILE)
    own = None if settings is None else settings / "reenact" / FILE
    base = HostPolicy() if own is None or not own.is_file() else read_file(own, str(own))
    if not beside.is_file() or (own is not None and own.is_file() and beside.samefile(own)):
        return base
    return narrowed_by(base, read_file(beside, str(beside.resolve())))


def narrowed_by(base: HostPolicy, inner: HostPolicy) -> HostPolicy:
    """The policy of the current folder on top of the user's own, or of the careful default: it only narrows."""
    unsaid = base.for_plans
    beyond = first_beyond(ceiling_of(inner.said, unsaid, here), unsaid)
    if beyond is not None:
        raise PolicyError(
            f"{inner.origin}: {beyond} allows more than {base.origin}, and a file that merely lies in the current "
            f"folder may only narrow; if it is yours, name it: {VARIABLE}={FILE} or --host-policy {FILE}",
            key=beyond,
        )
    shell, money = over(base.said.shell, inner.said.shell), over(base.said.money, inner.said.money)
    both = msgspec.structs.replace(over(base.said, inner.said), shell=shell, money=money)
    origin = f"{inner.origin}, within {base.origin}" if base.is_stated else inner.origin
    return HostPolicy(both, origin, lines={**base.lines, **inner.lines})


def over(outer: Part, inner: Part) -> Part:
    """What the inner one says, and the outer one where it says nothing."""
    said = {name: getattr(inner, name) for name in inner.__struct_fields__ if getattr(inner, name) is not UNSET}
    return msgspec.structs.replace(outer, **said)


def with_whole_paths(policy: Policy, folder: Path) -> Policy:
    """What a policy calls a folder lies beneath the one that its file is in, wherever plans are run."""

    def whole(paths: list[str] | UnsetType) -> list[str] | UnsetType:
        return UNSET if paths is UNSET else [each if each == "*" else str((folder / each).resolve()) for each in paths]

    shell = msgspec.structs.replace(policy.shell, readable=whole(policy.shell.readable))
    return msgspec.structs.replace(policy, workspaces=whole(policy.workspaces), shell=shell)


def read_file(path: Path, origin: str) -> HostPolicy:
    """The policy in a file that belongs to the user, or to root, and that nobody else can write."""
    try:
        with path.open("rb") as file:
            refuse_writable(os.fstat(file.fileno()), path)
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise PolicyError(f"{path}: a policy has at most {MOST_BYTES} bytes")
        text = data.decode()
        document = parse_toml(data)
    except OSError as error:
        raise PolicyError(f"{path}: the policy cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise PolicyError(f"{path}: the policy is not TOML: {error}") from None
    try:
        said = read_policy(document, source=str(path))
    except PolicyError as error:
        line = line_of(error.key, text)
        at = str(error) if line is None else str(error).replace(f"{path}:", f"{path}:{line}:", 1)
        raise PolicyError(at, key=error.key) from None
    return HostPolicy(with_whole_paths(said, path.resolve().parent), origin, lines=dict(lines_of(said, text, origin)))


def refuse_writable(found: os.stat_result, path: Path) -> None:
    if os.name == "nt":
        return
    if found.st_uid not in (os.getuid(), 0):
        raise PolicyError(f"{path}: the policy belongs to another user; it is not used")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PolicyError(f"{path}: others can write the policy; take that away: chmod go-w {path}")


def lines_of(said: Policy, text: str, origin: str) -> Iterator[tuple[str, str]]:
    for prefix, table in (("", said), ("shell.", said.shell), ("money.", said.money)):
        for name in table.__struct_fields__:
            line = None if getattr(table, name) is UNSET else line_of(f"{prefix}{name}", text)
            if line is not None:
                yield f"{prefix}{name}", f"{origin}:{line}"


def line_of(key: str, text: str) -> int | None:
    """The line on which a key stands, in its table or beneath it."""
    last = re.escape(key.rpartition(".")[2])
    wanted = re.compile(rf"[ \t]*(?:\[[ \t]*\"?{last}\"?[ \t]*[\].]|\"?{last}\"?[ \t]*[=.])")
    return next((number for number, line in enumerate(text.splitlines(), start=1) if key and wanted.match(line)), None)
