"""The plan on the page is a plan: it is read, it runs, and page, schema and reader mean the same by every field."""

from __future__ import annotations

import json
import random
import re
from copy import deepcopy
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from tools.vectors.scenarios import SKILLS

from reenact import Runtime
from reenact.contracts.plan import AgentProfile, Budget, Context, Plan, Step, plan_from_document
from reenact.contracts.plan_rules import Pins, RetryRules, ShellRules
from reenact.contracts.skill import SkillMetadata
from reenact.errors import PlanError
from reenact.policy.retry import RetryPolicy, policy_to_dict
from reenact.skills.schema.signature import read_signature
from reenact.skills.skill import Skill
from reenact.store.checks.verification import verify_run
from tests.spec.mutations_of_plans import WHOLE_PLAN, mutated

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/spec/plan.md").read_text(encoding="utf-8")
MUTANTS = 4000


def page_plan() -> dict[str, Any]:
    found = re.search(r"```json\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    plan: dict[str, Any] = json.loads(found[1])
    return plan


def http_call(method: str, url: str) -> dict[str, Any]:
    return {"body": f"{method} {url}"}


def llm_invoke(model: str, prompt: str) -> dict[str, Any]:
    return {"text": f"{model}: {prompt}"}


def send(to: str, body: str, password: str) -> dict[str, Any]:
    assert password == "a-password-for-tests"
    return {"queued": f"{to}: {body}"}


def page_skills() -> list[Skill]:
    """The skills that the plan pins, with something behind them."""
    functions = (http_call, llm_invoke, send)
    return [
        Skill(function, msgspec.convert(declared, SkillMetadata), read_signature(function, "", {}))
        for function, declared in zip(functions, SKILLS, strict=True)
    ]


def test_the_plan_on_the_page_runs_to_its_end_with_the_skills_that_it_pins(tmp_path: Path) -> None:
    store = str(tmp_path / "store.db")
    runtime = Runtime(store, skills=page_skills(), secrets={"SMTP_PASSWORD": "a-password-for-tests"})
    result = runtime.run(page_plan())
    assert result.status == "completed", result.outcomes
    details = result.outcomes[-1].details
    assert details is not None
    assert details["output"] == {"queued": "team@example.com: example-model: Sum up GET http://127.0.0.1:8080/changes"}
    assert result.outcomes[1].cost_cents == 1  # nobody said what it used: charged as reserved, a fraction of a cent
    runtime.close()
    assert verify_run(store, result.run_id).exit_code == 0


@pytest.mark.parametrize("bundle", ["three_steps", "refusals", "session"])
def test_the_plans_of_the_vectors_are_read_and_refused_step_by_step_where_their_skills_are_absent(
    tmp_path: Path, bundle: str
) -> None:
    runtime = Runtime(str(tmp_path / "store.db"))
    result = runtime.run(ROOT / "test_vectors/bundles" / bundle / "plan.json")
    assert (result.status, result.outcomes[0].code) == ("failed", "ERR_SKILL_NOT_FOUND")


def test_the_retry_policy_on_the_page_is_the_default_that_plans_are_pinned_with() -> None:
    assert page_plan()["context"]["pins"]["retry"] == {"default": policy_to_dict(RetryPolicy())}


@pytest.mark.parametrize("kind", [Plan, Step, Context, Budget, AgentProfile, RetryRules, ShellRules, Pins])
def test_the_page_names_every_field(kind: type[msgspec.Struct]) -> None:
    assert [name for name in kind.__struct_fields__ if f"`{name}`" not in PAGE] == []


def test_the_reader_takes_exactly_what_the_schema_takes() -> None:
    """Beyond the schema the reader knows a calendar, ids that stand once, and pins that fit together."""
    schema = json.loads((ROOT / "schemas/plan.schema.json").read_text(encoding="utf-8"))
    valid = jsonschema_rs.validator_for(schema, validate_formats=False)
    source, taken = random.Random(7), 0
    plan_from_document(deepcopy(WHOLE_PLAN))
    valid.validate(WHOLE_PLAN)
    for _ in range(MUTANTS):
        document, change = mutated(WHOLE_PLAN, source)
        told = complaint(document)
        beyond = told and re.search(r"stands already at|is not a time|there is no price for|`key` in", told)
        assert beyond or valid.is_valid(document) is (told is None), (change, told)
        assert told is None or "$" in told, (change, told)
        taken += told is None
    assert MUTANTS // 10 < taken < MUTANTS * 9 // 10


def complaint(document: dict[str, Any]) -> str | None:
    try:
        plan_from_document(document)
    except PlanError as error:
        return str(error)
    return None
