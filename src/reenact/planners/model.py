"""The model planner: told the skills, held to a schema, its mistakes given back a bounded number of times."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec

from reenact.builtin.llm.adapters import complete
from reenact.builtin.llm.messages import Message, ModelReply, ModelRequest
from reenact.errors import UnknownPrice, UsageError
from reenact.planners.checking import AllowedSecrets, problems
from reenact.planners.making import invalid, make_plan
from reenact.planners.manifest import Manifest
from reenact.planners.planner import DeterminismMode, Document, PlannerCode, PlannerError, check_inputs
from reenact.planners.prompting import correction, instructions
from reenact.policy.classify import classify, facts_of
from reenact.policy.cost import DEFAULT_PRICES, PICODOLLARS_PER_CENT, PriceTable, cost_exact
from reenact.skills.context import SkillContext
from reenact.skills.estimate import estimate_tokens
from reenact.values.canonical import parse_json
from reenact.values.clock import Clock, SystemClock

LONGEST_PLAN: Final = 200
"""More steps than this are a mistake of the model, not a plan."""
_FENCE: Final = "```"

CODES: Final[dict[str, PlannerCode]] = {
    "ERR_LLM_RATE_LIMIT": "PLANNER_RATE_LIMITED",
    "ERR_HTTP_429": "PLANNER_RATE_LIMITED",
    "ERR_RATE_LIMIT_INTERNAL": "PLANNER_RATE_LIMITED",
    "ERR_RATE_LIMIT_CONCURRENT": "PLANNER_RATE_LIMITED",
    "ERR_LLM_CONTEXT_LENGTH": "PLANNER_CONTEXT_TOO_LONG",
    "ERR_TIMEOUT": "PLANNER_TIMEOUT",
    "ERR_HTTP_TIMEOUT": "PLANNER_TIMEOUT",
}


class ProposedStep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a model may say about a step. Keys, budgets, hosts and supervisors are not its business."""

    step_id: str
    skill_id: str
    skill_version: str | None = None
    parameters: dict[str, Any] = {}
    on_error: str | None = None


class Proposal(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    steps: list[ProposedStep]


class Usage(msgspec.Struct, frozen=True):
    """What planning took: rounds, tokens as the provider counts them, and picodollars where the price is known."""

    rounds: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_exact: int | None = 0


class ModelPlanner:
    """Asks a model through the adapters of `llm_invoke`. It names skills, references and offered secrets; nothing else.

    `secrets` are the names that the model may put into a plan. `max_cents` bounds what planning may cost; it needs a
    price for the model. `usage` says what the last plan took.
    """

    planner_id = "model"
    version = "1.0.0"
    determinism: DeterminismMode = "NONE"

    def __init__(
        self,
        model: str,
        *,
        adapter: str | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        secrets: AllowedSecrets | None = None,
        repairs: int = 2,
        temperature: float | None = None,
        max_tokens: int = 4096,
        max_prompt_tokens: int = 100_000,
        max_cents: int | None = None,
        prices: Mapping[str, Any] | PriceTable | None = None,
        timeout_ms: int = 120_000,
        services: Mapping[str, Any] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._request = ModelRequest(
            model=model, messages=(), max_tokens=max_tokens, temperature=temperature, base_url=base_url, api_key=api_key
        )
        self._adapter = adapter
        self._secrets: AllowedSecrets = dict(secrets or {})
        self._repairs = repairs
        self._max_prompt_tokens = max_prompt_tokens
        self._max_cents = max_cents
        self._prices = DEFAULT_PRICES.extended(prices)
        self._timeout_ms = timeout_ms
        self._services = dict(services or {})
        self._clock = clock or SystemClock()
        self.usage = Usage()

    def plan(self, goal: str, context: Mapping[str, Any], manifest: Manifest) -> Document | PlannerError:
        """Also inside a running loop, which then waits: `plan_async` does not keep it waiting."""
        found: list[Document | PlannerError] = []
        thread = threading.Thread(
            target=lambda: found.append(asyncio.run(self.plan_async(goal, context, manifest))),
            name="reenact-planner",
            daemon=True,
        )
        thread.start()
        thread.join()
        return found[0]

    async def plan_async(self, goal: str, context: Mapping[str, Any], manifest: Manifest) -> Document | PlannerError:
        self.usage = Usage()
        refused = check_inputs(goal, context, manifest)
        if refused is not None:
            return refused
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                return await self._rounds(goal, context, manifest)
        except TimeoutError:
            return PlannerError(code="PLANNER_TIMEOUT", message=f"no plan within {self._timeout_ms} ms")
        except Exception as error:  # noqa: BLE001  # whatever a provider does, the caller gets a value
            return self._failed(error)

    async def _rounds(self, goal: str, context: Mapping[str, Any], manifest: Manifest) -> Document | PlannerError:
        system = instructions(manifest, self._secrets)
        messages: list[Message] = [Message(role="user", content=goal)]
        found: list[str] = []
        for _ in range(self._repairs + 1):
            refused = self._too_much(system, messages)
            if refused is not None:
                return refused
            reply = await self._ask(context, system, messages)
            plan, found = self._read(reply.text, goal, context, manifest)
            if plan is not None:
                return plan
            messages += [
                Message(role="assistant", content=reply.text or "(nothing)"),
                Message(role="user", content=correction(found)),
            ]
        refusal = invalid(found)
        return msgspec.structs.replace(
            refusal,
            message=f"after {self.usage.rounds} rounds: {refusal.message}",
            details={**refusal.details, "rounds": self.usage.rounds},
        )

    async def _ask(self, context: Mapping[str, Any], system: str, messages: list[Message]) -> ModelReply:
        ctx = SkillContext(
            run_id=self._clock.uuid7(),
            step_id="plan",
            trace_id=self._clock.uuid7(),
            idempotency_key=self._clock.uuid7(),
            attempt=self.usage.rounds,
            timeout_ms=self._timeout_ms,
            clock=self._clock,
            context=context,
            services=self._services,
        )
        request = replace(self._request, messages=tuple(messages), system_prompt=system)
        try:
            return await complete(ctx, request, self._adapter)
        finally:
            self._count(ctx.close().usage)

    def _count(self, used: Mapping[str, int] | None) -> None:
        tokens = used or {"input_tokens": 0, "output_tokens": 0}
        before = self.usage
        try:
            cost = cost_exact(self._request.model, tokens["input_tokens"], tokens["output_tokens"], self._prices)
            total = None if before.cost_exact is None else before.cost_exact + cost
        except UnknownPrice:
            total = None
        self.usage = Usage(
            before.rounds + 1,
            before.input_tokens + tokens["input_tokens"],
            before.output_tokens + tokens["output_tokens"],
            total,
        )

    def _too_much(self, system: str, messages: list[Message]) -> PlannerError | None:
        """Told before anything is sent: a prompt that is too long, or a round that the money does not reach for."""
        tokens = estimate_tokens([system, *messages])
        if tokens > self._max_prompt_tokens:
            return PlannerError(
                code="PLANNER_CONTEXT_TOO_LONG",
                message=f"about {tokens} tokens, at most {self._max_prompt_tokens}; allow fewer skills, or say less",
                details={"tokens": tokens},
            )
        if self._max_cents is None:
            return None
        needed = cost_exact(self._request.model, tokens, self._request.max_tokens, self._prices)
        if (self.usage.cost_exact or 0) + needed > self._max_cents * PICODOLLARS_PER_CENT:
            return PlannerError(
                code="PLANNER_GENERATION_FAILED",
                message=f"another round may cost more than the {self._max_cents} cents that planning may take",
                details={"code": "ERR_BUDGET_EXCEEDED", "rounds": self.usage.rounds},
            )
        return None

    def _read(
        self, text: str, goal: str, context: Mapping[str, Any], manifest: Manifest
    ) -> tuple[Document | None, list[str]]:
        """(the plan, or None; what is wrong with it)."""
        try:
            proposal = msgspec.convert(parse_json(unfenced(text), what="the answer"), Proposal)
        except msgspec.ValidationError as error:
            return None, [str(error)]
        except UsageError as error:
            return None, [f"the answer is not one JSON object: {error}"]
        if len(proposal.steps) > LONGEST_PLAN:
            return None, [f"$.steps: {len(proposal.steps)} steps; a plan has at most {LONGEST_PLAN}"]
        steps = [{key: value for key, value in msgspec.to_builtins(step).items() if value} for step in proposal.steps]
        document = make_plan(f"{self.planner_id}@{self.version}", goal, context, steps)
        found = problems(document, manifest, secrets=self._secrets, own_words=True)
        return (None, found) if found else (document, [])

    def _failed(self, error: Exception) -> PlannerError:
        code = classify(facts_of(error))
        return PlannerError(
            code=CODES.get(code, "PLANNER_GENERATION_FAILED"),
            message=f"the model gave no plan: {code}",
            details={"code": code, "error": type(error).__name__, "rounds": self.usage.rounds},
        )


def unfenced(text: str) -> str:
    """What a model put between ``` and ```, which it was not asked for."""
    first, _, rest = text.strip().partition("\n")
    return rest.removesuffix(_FENCE) if first.rstrip() in (_FENCE, f"{_FENCE}json") and rest.endswith(_FENCE) else text
