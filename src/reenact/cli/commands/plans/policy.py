"""`reenact policy`: the ceiling of plans and sessions that is in force here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from reenact.cli.options import HostPolicyOption, JsonOption
from reenact.cli.screens.printing import say

if TYPE_CHECKING:
    from reenact.policy.ceiling import Ceiling


def policy(
    what: Annotated[str, typer.Argument(metavar="[show]", help="What to do: only show, so far.")] = "show",
    host_policy: HostPolicyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the host's policy in force for plans, and where it comes from.

    Exit codes: 0 shown, 2 the policy cannot be read, or allows more than it may where it lies.
    """
    from reenact.cli.options import host_policy as policy_of
    from reenact.cli.screens.printing import one_line, print_json
    from reenact.errors import UsageError

    if what != "show":
        raise UsageError(f"reenact policy {what}: there is only `reenact policy show`")
    found = policy_of(host_policy)
    rows = settings(found.for_plans)
    if as_json:
        print_json({"from": found.origin, "digest": found.digest, "plans": rows})
        return
    say(one_line(f"from {found.origin}"))
    for name, value in rows.items():
        say(one_line(f"{name:24} {shown(name, value)}"))


def settings(ceiling: Ceiling) -> dict[str, object]:
    """The ceiling by the keys of a policy."""
    return {
        "agents": ceiling.agents,
        "skills": ceiling.skills,
        "denied_skills": ceiling.denied_skills,
        "hosts": ceiling.hosts,
        "private_hosts": ceiling.private_hosts,
        "workspaces": ceiling.workspaces,
        "secrets": ceiling.secrets if ceiling.environment else ["REENACT_SECRET_*"],
        "supervisors": ceiling.supervisors,
        "disallowed_side_effects": ceiling.disallowed_side_effects,
        "max_external_calls": ceiling.max_external_calls,
        "shell.allow": ceiling.shell,
        "shell.confine": ceiling.confine,
        "shell.commands": ceiling.commands,
        "shell.readable": ceiling.readable,
        "money.budget_cents": ceiling.budget_cents,
        "money.per_step_cents": ceiling.per_step_cents,
        "money.per_day_cents": ceiling.per_day_cents,
    }


def shown(name: str, value: object) -> str:
    if value is None:
        return "no limit" if name.startswith(("money", "max")) else "any"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple | list):
        return ", ".join(map(str, value)) or "none"
    return str(value)
