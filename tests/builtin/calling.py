"""Calling a skill as dispatch does: validate, call, and read report and code."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from reenact.contracts.facts import Facts
from reenact.policy.classify import classify, facts_of
from reenact.skills.context import Remarks, SkillContext
from reenact.skills.skill import Skill
from tests.skills.contexts import make_context


@dataclass
class Called:
    """`code` is OK, or what the taxonomy makes of the exception and the report."""

    output: Any
    error: Exception | None
    report: Remarks
    code: str


def call(skill: Skill, parameters: Mapping[str, Any], ctx: SkillContext | None = None, **context: Any) -> Called:
    """One attempt. `context` goes into the context's constructor."""
    ctx = ctx or make_context(**context)
    assert skill.validate(parameters) == []
    output, error, facts = None, None, Facts()
    try:
        output = asyncio.run(skill.call_async(ctx, parameters))
    except Exception as raised:
        error, facts = raised, facts_of(raised)
    report = ctx.close()
    status = facts.http_status if facts.http_status is not None else report.http_status
    facts = msgspec.structs.replace(facts, http_status=status, finish_reason=report.finish_reason)
    return Called(output, error, report, classify(facts))
