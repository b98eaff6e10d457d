"""The ceiling: what a host's policy leaves to a plan or a session, and the context that is left of what one asks for.

What a context limits and the ceiling limits too is narrowed to both. What it asks for by name and may not have (a
shell, a folder, a supervisor) is refused as a whole: a plan that got something else would not be the plan any more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Final, TypeVar

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from reenact.contracts.host_policy import Policy
from reenact.contracts.plan import AgentProfile, Budget, Context
from reenact.contracts.plan_rules import PriceList, ShellRules
from reenact.policy.hosts import Target, fits, read_address
from reenact.policy.lists import covers, covers_skill, lists

Names = tuple[str, ...]
Real = Callable[[str], str]
"""The folder that a path really names, links followed."""
CONFINEMENTS: Final = ("require", "best-effort", "off")
"""The strictest first."""
ANYTHING: Final = "*"
T = TypeVar("T")


class Beyond(Exception):
    """Something that may not be had: where it is asked for, the policy's key that decides, and why."""

    def __init__(self, place: str, key: str, why: str) -> None:
        super().__init__(f"{place}: {why}")
        self.key = key


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """A policy with nothing unset; None is no limit."""

    agents: Names | None = None
    skills: Names | None = None
    denied_skills: Names = ()
    hosts: Names | None = None
    private_hosts: Names | None = None
    workspaces: Names | None = None
    """Folders, as they really are."""
    secrets: Names | None = None
    """The names that may be looked up."""
    environment: bool = True
    """Whether a name is also one of a variable; without it, only of one that begins with REENACT_SECRET_."""
    supervisors: Names | None = None
    disallowed_side_effects: Names = ()
    max_external_calls: int | None = None
    shell: bool = True
    confine: str = "off"
    commands: Names | None = None
    readable: Names | None = None
    budget_cents: int | None = None
    per_step_cents: int | None = None
    per_day_cents: int | None = None
    prices: PriceList | None = None

    @property
    def limits_money(self) -> bool:
        return (self.budget_cents, self.per_step_cents, self.per_day_cents) != (None, None, None)


OPEN: Final = Ceiling()
"""Of a session: its context is an argument that the host's own program gives."""


def careful(folder: str | None) -> Ceiling:
    """Of a plan where nobody has said anything else; `folder` is the current one, where there is one."""
    return Ceiling(
        private_hosts=("localhost", "127.0.0.1", "::1"),
        workspaces=() if folder is None else (folder,),
        environment=False,
        supervisors=("auto", "ask"),
        shell=False,
        confine="require",
        readable=(),
    )


def ceiling_of(policy: Policy, unsaid: Ceiling, real: Real) -> Ceiling:
    """What the policy says, and `unsaid` where it says nothing. Its folders are named for `real`."""

    def some(value: list[str] | UnsetType, otherwise: Names | None) -> Names | None:
        return otherwise if value is UNSET else None if ANYTHING in value else tuple(value)

    def folders(value: list[str] | UnsetType, otherwise: Names | None) -> Names | None:
        named = some(value, otherwise)
        return named if named is None or value is UNSET else tuple(real(name) for name in named)

    def said(value: T | UnsetType, otherwise: T) -> T:
        return otherwise if value is UNSET else value

    shell, money = policy.shell, policy.money
    return Ceiling(
        agents=some(policy.agents, unsaid.agents),
        skills=some(policy.skills, unsaid.skills),
        denied_skills=tuple(said(policy.denied_skills, list(unsaid.denied_skills))),
        hosts=some(policy.hosts, unsaid.hosts),
        private_hosts=some(policy.private_hosts, unsaid.private_hosts),
        workspaces=folders(policy.workspaces, unsaid.workspaces),
        secrets=some(policy.secrets, unsaid.secrets),
        environment=unsaid.environment or policy.secrets is not UNSET,
        supervisors=some(policy.supervisors, unsaid.supervisors),
        disallowed_side_effects=tuple(said(policy.disallowed_side_effects, list(unsaid.disallowed_side_effects))),
        max_external_calls=said(policy.max_external_calls, unsaid.max_external_calls),
        shell=said(shell.allow, unsaid.shell),
        confine=said(shell.confine, unsaid.confine),
        commands=some(shell.commands, unsaid.commands),
        readable=folders(shell.readable, unsaid.readable),
        budget_cents=said(money.budget_cents, unsaid.budget_cents),
        per_step_cents=said(money.per_step_cents, unsaid.per_step_cents),
        per_day_cents=said(money.per_day_cents, unsaid.per_day_cents),
        prices=said(policy.prices, unsaid.prices),
    )


# -- one thing and another ---------------------------------------------------------------------------------------------


def names(patterns: Names | None, name: str) -> bool:
    return patterns is None or lists(patterns, name)


def covers_host(pattern: str, entry: str) -> bool:
    """Whether all that the entry names is named by the pattern; what is no plain address is covered by none."""
    wide, narrow = read_address(pattern), None if set(entry) & set("/\\@?# ") else read_address(entry)
    if wide is None or narrow is None or wide.port not in (None, narrow.port):
        return False
    return fits(wide.host, narrow.host) or (wide.host.startswith("*.") and wide.host == narrow.host)


def both_hosts(one: str, other: str) -> str | None:
    """The hosts that two entries have in common, as an entry."""
    a, b = read_address(one), read_address(other)
    if a is None or b is None or (a.port != b.port and None not in (a.port, b.port)):
        return None
    host = a.host if a.host == b.host or fits(b.host, a.host) else b.host if fits(a.host, b.host) else None
    return None if host is None else str(Target(host, b.port if a.port is None else a.port))


def both_skills(one: str, other: str) -> str | None:
    return one if covers_skill(other, one) else other if covers_skill(one, other) else None


def both_names(one: str, other: str) -> str | None:
    return one if covers(other, one) else other if covers(one, other) else None


def both(asked: list[str] | None, most: Names | None, common: Callable[[str, str], str | None]) -> list[str] | None:
    """What two lists have in common. One that lies within the other stays as it is, so that twice is once."""
    if most is None:
        return asked
    if asked is None:
        return list(dict.fromkeys(common(each, each) or each for each in most))
    if all(any(common(one, other) == one for other in most) for one in asked):
        return asked
    found = (common(one, other) for one in asked for other in most)
    return list(dict.fromkeys(entry for entry in found if entry is not None))


def least(*limits: int | None) -> int | None:
    return min((limit for limit in limits if limit is not None), default=None)


def is_within(folder: str, folders: Names | None) -> bool:
    return folders is None or any(is_beneath(folder, each) for each in folders)


def is_beneath(folder: str, other: str) -> bool:
    """Whether it is that folder or lies in it; both are absolute, with nothing left to follow."""
    return folder == other or folder.startswith(f"{other.rstrip('/')}/")


# -- what is left of a context -----------------------------------------------------------------------------------------


def narrow(context: Context, ceiling: Ceiling, real: Real) -> Context:
    """The context within the ceiling; Beyond where it asks by name for what it may not have."""
    refuse_folder("$.context.workspace", context.workspace, ceiling, real)
    for number, entry in enumerate(context.allow_hosts):
        allowed = ceiling.private_hosts
        if allowed is not None and not any(covers_host(each, entry) for each in allowed):
            raise Beyond(f"$.context.allow_hosts[{number}]", "private_hosts", f"this host does not open {entry!r}")
    return replace(
        context,
        budget_cents=least(context.budget_cents, ceiling.budget_cents),
        budget=narrow_budget(context.budget, ceiling),
        prices=context.prices or ceiling.prices,
        supervisor=narrow_supervisor(context.supervisor, ceiling.supervisors),
        profile=narrow_profile(context.profile, ceiling),
        shell=narrow_shell(context.shell, ceiling, real),
    )


def narrow_budget(budget: Budget | None, ceiling: Ceiling) -> Budget | None:
    if not ceiling.limits_money:
        return budget
    asked = budget or Budget()
    left = replace(
        asked,
        mode="hard",
        per_step_cents=least(asked.per_step_cents, ceiling.per_step_cents),
        per_day_cents=least(asked.per_day_cents, ceiling.per_day_cents),
    )
    return budget if left == asked else left  # one that says nothing of it is as strict as one that says `hard`


def narrow_supervisor(name: str, allowed: Names | None) -> str:
    """What a plan that lets its calls pass gets instead, where the host wants them looked at: a person, if it may."""
    if names(allowed, name):
        return name
    assert allowed is not None
    if name != "auto" or not allowed:
        may = ", ".join(allowed) or "none"
        why = f"this host does not load {name!r} for a plan, only {may}; --trust-plan does where no policy lists others"
        raise Beyond("$.context.supervisor", "supervisors", why)
    return "ask" if "ask" in allowed else allowed[0]


def narrow_profile(profile: AgentProfile | None, ceiling: Ceiling) -> AgentProfile | None:
    asked = profile or AgentProfile()
    left = AgentProfile(
        allowed_skills=both(asked.allowed_skills, ceiling.skills, both_skills),
        denied_skills=list(dict.fromkeys([*asked.denied_skills, *ceiling.denied_skills])),
        disallowed_side_effects=list(dict.fromkeys([*asked.disallowed_side_effects, *ceiling.disallowed_side_effects])),
        max_external_calls=least(asked.max_external_calls, ceiling.max_external_calls),
        hosts=both(asked.hosts, ceiling.hosts, both_hosts),
    )
    return profile if left == asked else left


def narrow_shell(shell: ShellRules | None, ceiling: Ceiling, real: Real) -> ShellRules | None:
    if shell is None or not shell.allow:
        return shell
    if not ceiling.shell:
        raise Beyond("$.context.shell.allow", "shell.allow", "this host lets no plan run commands")
    if CONFINEMENTS.index(shell.confine) > CONFINEMENTS.index(ceiling.confine):
        why = f"this host confines what a plan runs ({ceiling.confine}); a plan cannot switch that off"
        raise Beyond("$.context.shell.confine", "shell.confine", why)
    refuse_folder("$.context.shell.workspace", shell.workspace, ceiling, real)
    for number, path in enumerate(shell.readable):
        if not is_within(real(path), ceiling.readable):
            why = f"this host gives commands nothing else to read, and not {path!r}"
            raise Beyond(f"$.context.shell.readable[{number}]", "shell.readable", why)
    return replace(shell, commands=both(shell.commands, ceiling.commands, both_names))


def refuse_folder(place: str, named: str | None, ceiling: Ceiling, real: Real) -> None:
    if named and not is_within(real(named), ceiling.workspaces):
        within = ", ".join(ceiling.workspaces or ()) or "none"
        raise Beyond(place, "workspaces", f"{named!r} is in no folder that this host gives plans: {within}")


# -- one policy within another -----------------------------------------------------------------------------------------


def first_beyond(inner: Ceiling, outer: Ceiling) -> str | None:
    """The first key in which `inner` allows more than `outer`; None where it only narrows."""
    for field in fields(Ceiling):
        if more(field.name, getattr(inner, field.name), getattr(outer, field.name)):
            return {"environment": "secrets", "shell": "shell.allow", "confine": "shell.confine"}.get(
                field.name, field.name
            )
    return None


def more(key: str, inner: object, outer: object) -> bool:
    if inner == outer:
        return False
    if key in ("shell", "environment"):
        return bool(inner)
    if key == "confine":
        return CONFINEMENTS.index(str(inner)) > CONFINEMENTS.index(str(outer))
    if key == "prices":
        return True
    if key in ("denied_skills", "disallowed_side_effects"):
        return not set(as_names(outer)) <= set(as_names(inner))
    if outer is None:
        return False
    if inner is None:
        return True
    if isinstance(inner, int) and isinstance(outer, int):
        return inner > outer
    return not all(any(covered(key, wide, each) for wide in as_names(outer)) for each in as_names(inner))


def covered(key: str, wide: str, each: str) -> bool:
    if key in ("hosts", "private_hosts"):
        return covers_host(wide, each)
    if key in ("workspaces", "readable"):
        return is_beneath(each, wide)
    return covers_skill(wide, each) if key == "skills" else covers(wide, each)


def as_names(value: object) -> Names:
    return value if isinstance(value, tuple) else ()
