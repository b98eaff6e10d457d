"""The written list of mutations: one function each, with the step and the aspect that must be blamed for it.

Three kinds. `recording`: the record says something else, and every digest in it was recomputed. `policy`: the plan's
policies or the functions that decide by them. `code`: the runtime or a skill's declaration.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import structs

from reenact.contracts import references
from reenact.contracts.facts import Facts
from reenact.policy import budget as budget_policy
from reenact.policy import classify as classifying
from reenact.policy import cost, retry, settle
from reenact.policy.budget import LedgerDecision
from reenact.policy.retry import RetryPolicy
from reenact.policy.taxonomy import is_retryable
from reenact.record import outcomes
from reenact.runtime.call.call import Call
from reenact.runtime.gates import budget, permission, validate
from reenact.runtime.plans.steps import PlannedStep, RunPlan
from reenact.skills.skill import Skill
from tests.replay.compare.forge import Forge
from tests.replay.compare.mutating import (
    crashed_recording,
    in_code,
    in_plan,
    in_recording,
    in_skill,
    redeclared,
    with_patches,
)

# -- the recording says something else --------------------------------------------------------------------------------


@in_recording("fetch", "error_codes")
def a_status_in_the_facts_is_another(forge: Forge) -> None:
    forge.attempts("fetch")[0]["facts"]["http_status"] = 500


@in_recording("fetch", "error_codes")
def an_exception_in_the_facts_is_of_another_type(forge: Forge) -> None:
    forge.attempts("fetch")[1]["facts"]["exceptions"][0]["type"] = "socket.gaierror"


@in_recording("fetch", "error_codes")
def the_facts_of_a_success_are_those_of_a_failure(forge: Forge) -> None:
    forge.attempts("fetch")[2]["facts"]["finish_reason"] = "content_filter"


@in_recording("pay", "error_codes")
def an_errno_in_the_facts_is_gone_with_its_type(forge: Forge) -> None:
    forge.attempts("pay")[0]["facts"]["exceptions"] = [{"type": "builtins.ValueError", "errno": None}]


@in_recording("pay", "cost_cents")
def a_connection_was_reset_and_not_refused(forge: Forge) -> None:
    """The code stays the same; but what was sent is billed, and what was sent is not sent again."""
    forge.attempts("pay")[0]["facts"]["exceptions"] = [{"type": "builtins.ConnectionResetError", "errno": 104}]


@in_recording("ask", "cost_cents")
def more_tokens_were_used(forge: Forge) -> None:
    forge.attempts("ask")[0]["facts"]["usage"]["output_tokens"] += 1


@in_recording("ask", "cost_cents")
def the_usage_is_gone(forge: Forge) -> None:
    forge.attempts("ask")[0]["facts"]["usage"] = None


@in_recording("fetch", "error_codes")
def the_code_of_an_attempt_is_another(forge: Forge) -> None:
    forge.attempts("fetch")[1]["code"] = "ERR_HTTP_TIMEOUT"


@in_recording("mail", "cost_cents")
def the_cost_of_an_attempt_is_another(forge: Forge) -> None:
    forge.attempts("mail")[0]["cost_exact"] = "1"
    forge.sum_up("mail")


@in_recording("fetch", "backoff_ms")
def a_back_off_is_longer(forge: Forge) -> None:
    forge.attempts("fetch")[1]["backoff_ms"] += 1


@in_recording("mail", "backoff_ms")
def a_back_off_has_other_jitter(forge: Forge) -> None:
    forge.attempts("mail")[0]["backoff_ms"] += 7


@in_recording("next", "backoff_ms")
def the_other_side_asked_for_another_wait(forge: Forge) -> None:
    forge.attempts("next")[0]["retry_after_ms"] = 2900


@in_recording("fetch", "retry_count")
def a_step_gave_up_too_early(forge: Forge) -> None:
    forge.remove_attempt("fetch", 2)
    forge.attempts("fetch")[1]["backoff_ms"] = None
    fail(forge, "fetch", "ERR_TIMEOUT")


@in_recording("odd", "retry_count")
def a_step_was_tried_again_that_may_not_be(forge: Forge) -> None:
    forge.insert_attempt("odd", 0)
    forge.attempts("odd")[0]["backoff_ms"] = 50
    forge.sum_up("odd")


@in_recording("odd", "error_codes")
def a_step_failed_with_another_code(forge: Forge) -> None:
    effect = forge.artifact("odd", "tool_effect")
    effect["meta"]["code"] = effect["outcome"]["error"]["code"] = "ERR_HTTP_403"
    effect["outcome"]["error"]["message"] = "Step odd ended with ERR_HTTP_403"
    forge.sum_up("odd")


@in_recording("fetch", "status")
def a_success_was_partial(forge: Forge) -> None:
    forge.artifact("fetch", "tool_effect")["meta"]["status"] = "partial"
    forge.sum_up("fetch")


@in_recording("poor", "budget_stop")
def the_budget_had_more_spent(forge: Forge) -> None:
    forge.artifact("poor", "supervisor_decision")["meta"]["spent_exact"] = "1"


@in_recording("never", "error_codes")
def a_refusal_has_another_code(forge: Forge) -> None:
    decision = forge.artifact("never", "supervisor_decision")
    decision["meta"]["code"] = "ERR_SKILL_DISABLED"
    decision["rationale"] = "Refused by gate validate: ERR_SKILL_DISABLED"


@in_recording("fetch", "cost_cents", base=crashed_recording)
def a_dispatch_in_doubt_was_charged_otherwise(forge: Forge) -> None:
    redispatch = next(attempt for attempt in forge.attempts("fetch") if attempt["kind"] == "redispatch")
    redispatch["cost_exact"] = "5"
    forge.sum_up("fetch")


def fail(forge: Forge, step_id: str, code: str) -> None:
    """The step's end as a failure with this code."""
    effect = forge.artifact(step_id, "tool_effect")
    effect["meta"] |= {"code": code, "status": "failure", "retryable": is_retryable(code)}
    effect["outcome"] = {
        "status": "ERROR",
        "error": {"code": code, "message": f"Step {step_id} ended with {code}", "retryable": is_retryable(code)},
    }
    output = effect["document_hashes"][0]
    output["hash"] = forge.put(None)
    output["size_bytes"] = 36
    for line in forge.lines():
        if line["kind"] == "entry" and line["artifact"] is effect:
            line["entry"]["to_state"] = "FAILED"
    forge.sum_up(step_id)


# -- the plan has other policies ---------------------------------------------------------------------------------------


@in_plan("fetch", "retry_count")
def fewer_retries_are_allowed(document: dict[str, Any]) -> None:
    document["context"]["retry"]["max_retries"] = 1


@in_plan("fetch", "backoff_ms")
def back_offs_grow_faster(document: dict[str, Any]) -> None:
    document["context"]["retry"]["backoff_multiplier"] = 3.0


@in_plan("fetch", "retry_count")
def a_code_is_no_longer_retryable(document: dict[str, Any]) -> None:
    document["context"]["retry"]["retryable_codes"] = ["ERR_TIMEOUT", "ERR_HTTP_429"]


@in_plan("spent", "budget_stop")
def the_budget_is_larger(document: dict[str, Any]) -> None:
    document["context"]["budget_cents"] = 19


@in_plan("ask", "budget_stop")
def the_budget_is_smaller(document: dict[str, Any]) -> None:
    document["context"]["budget_cents"] = 8


@in_plan("pay", "budget_stop")
def a_step_may_cost_less(document: dict[str, Any]) -> None:
    document["context"]["budget"] = {"per_step_cents": 2}


@in_plan("ask", "cost_cents")
def a_model_has_another_price(document: dict[str, Any]) -> None:
    document["context"]["pins"]["prices"]["models"]["gpt-4o"]["output"] = "10000001"


@in_plan("mail", "cost_cents")
def a_skill_has_another_price(document: dict[str, Any]) -> None:
    document["context"]["pins"]["prices"]["skills"]["keyed@1.0.0"]["cost_estimate_cents"] = 1


@in_plan("next", "error_codes")
def a_skill_is_no_longer_allowed(document: dict[str, Any]) -> None:
    document["context"]["allowed_skills"] = ["reader@1.0.0", "writer", "keyed", "model", "plain"]


@in_plan("same", "error_codes")
def repetitions_are_allowed(document: dict[str, Any]) -> None:
    document["context"]["dedupe"] = False


@in_plan("after", "step_ids")
def a_failure_no_longer_aborts(document: dict[str, Any]) -> None:
    document["steps"][12]["on_error"] = "continue"


@in_plan("mail", "step_ids")
def a_failure_aborts(document: dict[str, Any]) -> None:
    document["steps"][2]["on_error"] = "abort"


@in_plan("odd", "parameters")
def a_parameter_is_another(document: dict[str, Any]) -> None:
    document["steps"][7]["parameters"]["value"] = 0


# -- functions that decide --------------------------------------------------------------------------------------------


@in_code("fetch", "retry_count", "reenact.runtime.call.retry.should_retry", kind="policy")
def nothing_is_retried(*_: object) -> bool:
    return False


@in_code("fetch", "backoff_ms", "reenact.runtime.call.retry.calculate_backoff_ms", kind="policy")
def back_offs_are_rounded_up(*args: Any, **options: Any) -> int:
    return retry.calculate_backoff_ms(*args, **options) + 1


@in_code("mail", "backoff_ms", "reenact.runtime.call.retry.calculate_backoff_ms", kind="policy")
def jitter_is_seeded_by_the_new_run(attempt: int, policy: Any, run_id: str, *, step_id: str = "") -> int:
    return retry.calculate_backoff_ms(attempt, policy, run_id + "x", step_id=step_id)


with_patches(
    "waits_that_others_ask_for_are_capped", "next", "backoff_ms", kind="policy",
    patches={"reenact.runtime.call.retry.LONGEST_RETRY_AFTER_MS": 1000},
)  # fmt: skip


@in_code("fetch", "error_codes", "reenact.runtime.call.dispatch.classify", kind="policy")
def a_503_is_taken_for_a_500(facts: Facts) -> str:
    code = classifying.classify(facts)
    return "ERR_HTTP_500" if code == "ERR_HTTP_503" else code


@in_code("fetch", "error_codes", "reenact.runtime.call.dispatch.classify", kind="policy")
def errors_are_told_by_their_status_alone(facts: Facts) -> str:
    return classifying.classify(structs.replace(facts, exceptions=()))


@in_code("fetch", "cost_cents", "reenact.runtime.call.dispatch.settle", kind="policy")
def every_attempt_costs_a_little(*args: Any) -> settle.Settlement:
    return settle.Settlement(settle.settle(*args).exact + 1, estimated=False)


@in_code("mail", "cost_cents", "reenact.runtime.call.dispatch.settle", kind="policy")
def only_successes_are_charged(rate: Any, prices: Any, reserved: int, code: str, facts: Facts) -> settle.Settlement:
    found = settle.settle(rate, prices, reserved, code, facts)
    return found if code != "ERR_HTTP_500" else settle.Settlement(0, estimated=False)


@in_code("ask", "cost_cents", "reenact.record.outcomes.cents", kind="policy")
def cents_are_rounded_down(exact: int) -> int:
    return exact // cost.PICODOLLARS_PER_CENT


@in_code("spent", "budget_stop", "reenact.runtime.gates.budget.check_ledger", kind="policy")
def a_budget_refuses_nothing(policy: Any, required: int, **spent: Any) -> Any:
    found = budget_policy.check_ledger(policy, required, **spent)
    return structs.replace(found, allowed=True)


@in_code("poor", "budget_stop", "reenact.runtime.gates.budget.of_call", kind="policy")
def the_gate_lets_everything_pass(call: Call, required: int) -> tuple[LedgerDecision, None]:
    return of_call(call, required)[0], None


of_call = budget.of_call


@in_code("spent", "budget_stop", "reenact.runtime.call.dispatch.out_of_money", kind="policy")
async def a_retry_asks_nobody_for_money(_: Call) -> None:
    return None


@in_code("pay", "retry_count", "reenact.runtime.call.retry.may_repeat", kind="policy")
def a_write_is_sent_again_whatever_happened(**_: object) -> bool:
    return True


@in_code("pay", "retry_count", "reenact.runtime.call.retry.may_repeat", kind="policy")
def a_write_is_never_sent_again(*, tool_class: str, **facts: Any) -> bool:
    return tool_class == "read" or facts["honours_key"]


@in_code("next", "cost_cents", "reenact.policy.settle.never_sent", kind="policy")
def what_was_never_sent_is_billed(*_: object) -> bool:
    return False


@in_code("odd", "retryable", "reenact.record.outcomes.is_retryable", kind="policy")
def everything_is_called_retryable(_: str) -> bool:
    return True


# -- the code that carries it out -------------------------------------------------------------------------------------


touched, build_outcome, validate_check = outcomes.outcome_side_effects, outcomes.build_outcome, validate.check


@in_code("fetch", "retry_count", "reenact.runtime.call.ending.build_outcome")
def retries_are_counted_as_attempts(trace: Any, *rest: Any, **more: Any) -> Any:
    outcome = build_outcome(trace, *rest, **more)
    counted = structs.replace(outcome.observability, backend_retries=len(trace.attempts))
    return structs.replace(outcome, observability=counted)


@in_code("fetch", "side_effects", "reenact.record.outcomes.outcome_side_effects")
def only_the_last_attempt_tells_what_it_touched(trace: Any) -> list[Any]:
    return [effect for effect in touched(trace) if effect.attempt == len(trace.attempts) - 1]


@in_code("fetch", "side_effects", "reenact.record.outcomes.outcome_side_effects")
def what_was_touched_is_told_twice(trace: Any) -> list[Any]:
    return 2 * touched(trace)


def no_version_1_1(call: Call) -> Any:
    return permission.refuse("no such skill") if call.step.skill_version == "1.1.0" else None


with_patches(
    "the_permission_gate_knows_no_versions", "next", "error_codes",
    {"reenact.runtime.gates.permission.limits": lambda _: True,
     "reenact.runtime.gates.permission.check": no_version_1_1},
)  # fmt: skip


@in_code("bad", "error_codes", "reenact.runtime.gates.validate.check")
def the_validate_gate_looks_at_no_parameters(call: Call) -> Any:
    return None if call.step.step_id == "bad" else validate_check(call)


@in_code("same", "error_codes", "reenact.runtime.gates.duplicate.check")
async def the_duplicate_gate_is_not_asked(*_: object) -> None:
    return None


@in_code("next", "parameters", "reenact.runtime.call.begin.resolve")
def references_become_text(*args: Any) -> Any:
    found = references.resolve(*args)
    return {**found, "value": str(found["value"])} if isinstance(found, dict) else found


@in_code("after", "step_ids", "reenact.runtime.plans.plan_run.aborts")
def no_failure_aborts(*_: object) -> bool:
    return False


@in_code("mail", "step_ids", "reenact.runtime.plans.plan_run.aborts")
def every_failure_aborts(step: PlannedStep, outcome: Any) -> bool:
    del step
    return bool(outcome.status == "failure")


def changed_step(step_id: str, **fields: Any) -> Callable[[RunPlan, int], PlannedStep]:
    """`RunPlan.step` that gives this step other fields."""
    real = RunPlan.step

    def step(plan: RunPlan, number: int) -> PlannedStep:
        found = real(plan, number)
        return structs.replace(found, **fields) if found.step_id == step_id else found

    return step


def swapped(first: int, second: int) -> Callable[[RunPlan, int], PlannedStep]:
    """`RunPlan.step` that has two steps change places."""
    real, order = RunPlan.step, {first: second, second: first}
    return lambda plan, number: real(plan, order.get(number, number))


def partial(real: Callable[..., Any]) -> Callable[..., Any]:
    return lambda trace, status, *rest, **more: real(trace, "partial" if status == "success" else status, *rest, **more)


STEP = "reenact.runtime.plans.steps.RunPlan.step"
with_patches("a_step_runs_another_version", "odd", "skill_version", {STEP: changed_step("odd", skill_version="0.1.1")})
with_patches("a_step_runs_another_skill", "odd", "skill_id", {STEP: changed_step("odd", skill_id="plainer")})
with_patches("a_step_forgets_its_retry_policy", "mail", "backoff_ms", {STEP: changed_step("mail", retry=RetryPolicy())})
with_patches("two_steps_change_places", "next", "step_ids", {STEP: swapped(1, 2)})
with_patches(
    "a_success_is_told_as_partial", "fetch", "status",
    {"reenact.runtime.call.ending.build_outcome": partial(build_outcome)},
)  # fmt: skip
with_patches("success_has_another_code", "fetch", "error_codes", {STEP: changed_step("fetch", success_code="OK_DONE")})


@in_skill("same", "error_codes")
def a_skill_is_no_longer_idempotent(skill: Skill) -> Skill:
    return redeclared(skill, idempotent=False)


@in_skill("mail", "retry_count")
def a_skill_no_longer_honours_its_key(skill: Skill) -> Skill:
    return redeclared(skill, honours_key=False)


@in_skill("odd", "error_codes")
def a_skill_wants_another_parameter(skill: Skill) -> Skill:
    schema = {**skill.metadata.input_schema, "required": ["script", "value"]}
    return redeclared(skill, input_schema=schema)


@in_skill("pay", "budget_stop")
def a_skill_estimates_more(skill: Skill) -> Skill:
    return redeclared(skill, cost_estimate_cents=40)
