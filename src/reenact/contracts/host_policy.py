"""A host's policy, as its file or its program says it: the ceiling of all plans and sessions. It is closed."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Annotated, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from reenact.contracts.plan_rules import PlanPart, PriceList
from reenact.errors import PolicyError
from reenact.values.threads import build

Names = list[str]
Amount = Annotated[int, Meta(ge=0, le=9_007_199_254_740_991)]
Confine = Literal["require", "best-effort", "off"]


class ShellPolicy(PlanPart, frozen=True, kw_only=True):
    """Whether plans may run commands, which, how confined at least, and what else these may read."""

    allow: bool | UnsetType = UNSET
    confine: Confine | UnsetType = UNSET
    commands: Names | UnsetType = UNSET
    readable: Names | UnsetType = UNSET


class MoneyPolicy(PlanPart, frozen=True, kw_only=True):
    """What a run, a step and an agent's day may cost at most."""

    budget_cents: Amount | UnsetType = UNSET
    per_step_cents: Amount | UnsetType = UNSET
    per_day_cents: Amount | UnsetType = UNSET


class Policy(PlanPart, frozen=True, kw_only=True):
    """What plans and sessions may name and have at most. In a list `*` is anything; what is unset stays as it is
    without a policy: careful for plans, and for sessions as their program says."""

    agents: Names | UnsetType = UNSET
    skills: Names | UnsetType = UNSET
    denied_skills: Names | UnsetType = UNSET
    hosts: Names | UnsetType = UNSET
    private_hosts: Names | UnsetType = UNSET
    workspaces: Names | UnsetType = UNSET
    secrets: Names | UnsetType = UNSET
    supervisors: Names | UnsetType = UNSET
    disallowed_side_effects: Names | UnsetType = UNSET
    max_external_calls: Amount | UnsetType = UNSET
    shell: ShellPolicy = ShellPolicy()
    money: MoneyPolicy = MoneyPolicy()
    prices: PriceList | UnsetType = UNSET


TABLES: Final[dict[str, type[PlanPart]]] = {"shell": ShellPolicy, "money": MoneyPolicy}


def read_policy(document: Mapping[str, object], *, source: str) -> Policy:
    """PolicyError names the first mistake by its key, and the known key that is nearest."""
    refuse_unknown(document, Policy, source, "")
    for name, table in TABLES.items():
        inner = document.get(name)
        if isinstance(inner, Mapping):
            refuse_unknown(inner, table, source, f"{name}.")
    try:
        return msgspec.convert(dict(document), Policy)
    except msgspec.ValidationError as error:
        said, _, place = str(error).partition(" - at `$.")
        key = place.rstrip("`").partition("[")[0]
        raise PolicyError(f"{source}: {key or 'policy'}: {said[:1].lower()}{said[1:]}", key=key) from None


def refuse_unknown(document: Mapping[str, object], table: type[PlanPart], source: str, prefix: str) -> None:
    known = table.__struct_fields__
    for key in document:
        if key not in known:
            near = get_close_matches(str(key), known, n=1)
            instead = f"did you mean {prefix}{near[0]}?" if near else f"known are {', '.join(known)}"
            raise PolicyError(f"{source}: a policy has no key {prefix}{key}; {instead}", key=f"{prefix}{key}")


build(Policy)
