"""`reenact pin`: a plan with everything that its behaviour depends on written into it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reenact.cli.options import HostPolicyOption, JsonOption, SkillsOption, ToolRegistryOption, TrustOption


def pin(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="The plan, a JSON file.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where to write it. Default: stdout.")
    ] = None,
    skills: SkillsOption = None,
    tool_registry: ToolRegistryOption = None,
    host_policy: HostPolicyOption = None,
    trust_plan: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Pin a plan: skill versions and definitions, retry policies, prices, taxonomy and a salt.

    A pinned plan runs the same everywhere, or says what is missing. One that is pinned already stays as it is.

    Exit codes: 0 pinned, 2 the plan or the skills cannot be used, 3 the file cannot be written.
    """
    from reenact.cli.commands.plans.plan_file import read_plan
    from reenact.cli.commands.plans.plan_output import print_plan
    from reenact.cli.options import host_policy as policy_of
    from reenact.cli.options import load_registry
    from reenact.contracts.plan import plan_from_document
    from reenact.runtime.effects.secrets import Secrets
    from reenact.runtime.plans.pinning import pin_plan
    from reenact.runtime.plans.plan_secrets import refuse_secrets
    from reenact.runtime.plans.prepare import admitted
    from reenact.runtime.plans.tool_registries import load_registries, with_registries
    from reenact.values.clock import SystemClock

    file, registry, tools = read_plan(plan), load_registry(skills), load_registries(tool_registry or ())
    whole = file.located(lambda: with_registries(file.document, tools, source=str(plan)))
    policy, name = policy_of(host_policy, trust_plan=trust_plan), str(plan)
    read = file.located(lambda: plan_from_document(whole, source=name))
    within = file.located(lambda: admitted(policy, *read, registry, Secrets(), source=name))
    pinned = file.located(lambda: pin_plan(*within, registry, SystemClock(), source=name, policy=policy.digest))
    file.located(lambda: refuse_secrets(*pinned, registry, Secrets(), source=str(plan)))
    print_plan(pinned.document, output, as_json=as_json)
