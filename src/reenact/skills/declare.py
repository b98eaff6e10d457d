"""`@skill`: from a typed function to a declared skill."""

from __future__ import annotations

import inspect
import re
import string
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, get_args

from reenact.contracts.plan_rules import MOST_CENTS_PER_ATTEMPT
from reenact.contracts.skill import (
    InDoubt,
    Isolation,
    Resources,
    SkillMetadata,
    ToolClass,
    check_skill_id,
    version_key,
)
from reenact.errors import PolicyInputError, SkillDeclarationError
from reenact.policy.retry import RetryPolicy, merge_retry, policy_to_dict
from reenact.skills.schema.signature import Signature, read_signature
from reenact.skills.skill import Reconcile, Skill

CostModel = Literal["tokens"]
MAX_TIMEOUT_MS = 86_400_000
MOST_REDISPATCHES = 1_000_000
_CODE = re.compile(r"[A-Z0-9_]{1,64}")
_EFFECT = re.compile(r"[a-z0-9_.-]{1,64}")


def skill(
    skill_id: str,
    *,
    version: str,
    idempotent: bool = False,
    tool_class: ToolClass | None = None,
    read_when: Mapping[str, Iterable[str]] | None = None,
    honours_key: bool = False,
    in_doubt: InDoubt = "redispatch",
    reconcile: Reconcile | None = None,
    max_redispatches: int | None = None,
    public: Iterable[str] = (),
    reads: Iterable[str] = (),
    writes: Iterable[str] = (),
    side_effects: Iterable[str] = (),
    retry: Mapping[str, Any] | RetryPolicy | None = None,
    timeout_ms: int = 30_000,
    cost_estimate_cents: int = 0,
    cost_model: CostModel | None = None,
    permissions: Iterable[str] = (),
    stable_fields: Iterable[str] = (),
    nondeterministic: Iterable[str] = (),
    redact: Iterable[str] = (),
    isolation: Isolation = "thread",
    high_risk: bool = False,
    name: str | None = None,
    description: str | None = None,
    failure_modes: Iterable[str] = (),
    tags: Iterable[str] = (),
    owner: str | None = None,
) -> Callable[[Callable[..., Any]], Skill]:
    """Declares the function below as the skill `skill_id@version`. See docs/howto/declare_a_skill.md.

    The input and output schemas come from the type hints. A first parameter named `ctx` receives the
    `SkillContext`. The result still works as the plain function. A declaration that contradicts itself is a
    `SkillDeclarationError` at import time, never a surprise in a run.
    """
    given = dict(locals())
    caller = getattr(inspect.currentframe(), "f_back", None)
    scope = dict(caller.f_locals) if caller else {}
    module = str(caller.f_globals.get("__name__")) if caller else None
    where = f"skill {skill_id}"
    declared = declared_fields(given, where)
    check_values(declared, reconcile, where)

    def declare(function: Callable[..., Any]) -> Skill:
        signature = read_signature(function, where, scope)
        metadata = SkillMetadata(
            **declared,
            name=name or skill_id,
            description=first_line(function) if description is None else description,
            input_schema=signature.input_schema,
            output_schema=signature.output_schema,
        )
        check_against_parameters(metadata, signature, where)
        made = Skill(function, metadata, signature, reconcile)
        made.declared_in = module or made.declared_in
        return made

    return declare


_LISTS = (
    "failure_modes", "nondeterministic", "permissions", "public", "redact", "side_effects", "stable_fields", "tags",
)  # fmt: skip
_AS_GIVEN = (
    "cost_estimate_cents", "cost_model", "high_risk", "honours_key", "idempotent", "in_doubt", "isolation",
    "max_redispatches", "owner", "timeout_ms", "tool_class", "version",
)  # fmt: skip


def declared_fields(given: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The fields of the metadata that do not come from the function."""
    lists = {name: _texts(given[name], where, name) for name in (*_LISTS, "reads", "writes")}
    read_when = given["read_when"] or {}
    return {
        **{name: given[name] for name in _AS_GIVEN},
        **{name: lists[name] for name in _LISTS},
        "read_when": {key: _texts(values, where, "read_when") for key, values in read_when.items()},
        "resources": Resources(reads=lists["reads"], writes=lists["writes"]),
        "retry": _retry(given["retry"], where),
        "skill_id": check_skill_id(given["skill_id"]),
    }


def _texts(values: Iterable[str], where: str, what: str) -> tuple[str, ...]:
    if isinstance(values, str):
        raise SkillDeclarationError(f"{where}: {what} is a list of names; write {what}=[{values!r}]")
    texts = tuple(values)
    if not all(isinstance(text, str) and text for text in texts):
        raise SkillDeclarationError(f"{where}: {what} holds something that is not a name")
    return texts


def _retry(retry: Mapping[str, Any] | RetryPolicy | None, where: str) -> dict[str, Any] | None:
    """The declared fields only: what a skill leaves open is decided by the step, the plan and the defaults."""
    if retry is None:
        return None
    if isinstance(retry, RetryPolicy):
        return policy_to_dict(retry)
    try:
        merge_retry(retry)
    except PolicyInputError as error:
        raise SkillDeclarationError(f"{where}: {error}") from None
    return {name: sorted(value) if name == "retryable_codes" else value for name, value in retry.items()}


def check_values(declared: Mapping[str, Any], reconcile: Reconcile | None, where: str) -> None:
    version_key(declared["version"])
    _one_of(declared["in_doubt"], get_args(InDoubt), where, "in_doubt")
    _one_of(declared["isolation"], get_args(Isolation), where, "isolation")
    _one_of(declared["tool_class"], (*get_args(ToolClass), None), where, "tool_class")
    _one_of(declared["cost_model"], (*get_args(CostModel), None), where, "cost_model")
    _whole(declared["timeout_ms"], 1, MAX_TIMEOUT_MS, where, "timeout_ms")
    if declared["max_redispatches"] is not None:
        _whole(declared["max_redispatches"], 1, MOST_REDISPATCHES, where, "max_redispatches")
    _whole(declared["cost_estimate_cents"], 0, MOST_CENTS_PER_ATTEMPT, where, "cost_estimate_cents")
    if declared["in_doubt"] == "reconcile" and reconcile is None:
        raise SkillDeclarationError(f'{where}: in_doubt="reconcile" needs reconcile=, a function that reads back')
    if reconcile is not None and declared["in_doubt"] != "reconcile":
        raise SkillDeclarationError(f'{where}: reconcile= is only asked with in_doubt="reconcile"; add it')
    if reconcile is not None and not callable(reconcile):
        raise SkillDeclarationError(f"{where}: reconcile must be a function")
    if declared["tool_class"] == "read" and declared["resources"].writes:
        raise SkillDeclarationError(f"{where}: a skill of class read cannot declare writes")
    if declared["read_when"] and declared["tool_class"] != "write":
        raise SkillDeclarationError(f'{where}: read_when makes exceptions from tool_class="write"; declare that class')
    check_lists(declared, where)


def check_lists(declared: Mapping[str, Any], where: str) -> None:
    both = next((field for field in declared["stable_fields"] if field in declared["nondeterministic"]), None)
    if both is not None:
        raise SkillDeclarationError(f"{where}: {both!r} stands in stable_fields and in nondeterministic; choose one")
    for effect in declared["side_effects"]:
        if not _EFFECT.fullmatch(effect):
            raise SkillDeclarationError(f"{where}: side effect {effect!r} is not a name like http_request")
    for code in declared["failure_modes"]:
        if not _CODE.fullmatch(code):
            raise SkillDeclarationError(f"{where}: failure mode {code!r} is not a code like ERR_HTTP_503")


def _one_of(value: object, allowed: tuple[Any, ...], where: str, what: str) -> None:
    if value not in allowed:
        choices = ", ".join(str(choice) for choice in allowed if choice is not None)
        raise SkillDeclarationError(f"{where}: {what} cannot be {value!r}; choose one of {choices}")


def _whole(value: object, least: int, most: int, where: str, what: str) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise SkillDeclarationError(f"{where}: {what} must be a whole number from {least} to {most}, not {value!r}")


def check_against_parameters(metadata: SkillMetadata, signature: Signature, where: str) -> None:
    known = ", ".join(signature.names) or "none"
    for public in metadata.public:
        if not public.isascii():
            raise SkillDeclarationError(f"{where}: public names {public!r}; names in the chain are ASCII")
        if public not in signature.names:
            raise SkillDeclarationError(f"{where}: public names {public!r}, which is no parameter (there are: {known})")
    for name in metadata.read_when:
        if name not in signature.names:
            raise SkillDeclarationError(
                f"{where}: read_when names {name!r}, which is no parameter (there are: {known})"
            )
    for template in (*metadata.resources.reads, *metadata.resources.writes):
        for placeholder in _placeholders(template, where):
            if placeholder not in signature.names:
                raise SkillDeclarationError(
                    f"{where}: resource {template!r} names {placeholder!r}, which is no parameter (there are: {known})"
                )


def _placeholders(template: str, where: str) -> list[str]:
    try:
        parts = list(string.Formatter().parse(template))
    except ValueError as error:
        raise SkillDeclarationError(f"{where}: resource {template!r}: {error}") from None
    return [field for _, field, _, _ in parts if field is not None]


def first_line(function: Callable[..., Any]) -> str:
    text = inspect.getdoc(function) or ""
    return text.strip().splitlines()[0] if text.strip() else ""
