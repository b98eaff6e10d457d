"""One decorator on a typed function."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Optional, TypedDict

import msgspec
import pydantic
import pytest

from reenact.errors import SkillDeclarationError, SkillError
from reenact.skills.declare import skill
from reenact.skills.skill import Skill
from tests.skills.contexts import make_context


class Card(msgspec.Struct):
    number: str
    cvc: str | None = None


@dataclass
class Address:
    street: str
    city: str = "Bern"


class Options(TypedDict, total=False):
    express: bool


class Customer(pydantic.BaseModel):
    name: str
    friends: list[Customer] = []


@skill("charge_card", version="1.0.0", idempotent=False)
def charge_card(
    ctx: Any,
    amount_cents: Annotated[int, msgspec.Meta(gt=0)],
    card: Card,
    address: Address,
    customer: Customer,
    currency: Literal["CHF", "EUR"] = "CHF",
    options: Options = {},  # noqa: B006 - a mutable default must survive the declaration
    note: Optional[str] = None,  # noqa: UP045 - Optional is one of the forms that users write
) -> dict[str, Any]:
    """Charges a card.

    More text that is not part of the description.
    """
    return {
        "types": [type(value).__name__ for value in (card, address, customer)],
        "city": address.city,
        "friend": customer.friends[0].name if customer.friends else None,
        "key": ctx.idempotency_key,
        "amount": amount_cents,
        "currency": currency,
        "options": options,
        "note": note,
    }


GOOD: dict[str, Any] = {
    "amount_cents": 5,
    "card": {"number": "4242"},
    "address": {"street": "Kramgasse"},
    "customer": {"name": "Ann", "friends": [{"name": "Bob"}]},
}


def test_the_input_schema_comes_from_the_type_hints() -> None:
    schema = charge_card.metadata.input_schema
    assert schema["required"] == ["amount_cents", "card", "address", "customer"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["currency"] == {"enum": ["CHF", "EUR"], "default": "CHF"}
    assert schema["properties"]["note"] == {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}
    assert schema["properties"]["options"]["default"] == {}
    assert set(schema["$defs"]) == {"Address", "Card", "Customer", "Options"}
    assert "ctx" not in schema["properties"]


def test_metadata_is_filled_with_what_the_author_left_out() -> None:
    metadata = charge_card.metadata
    assert metadata.description == "Charges a card."
    assert metadata.name == "charge_card"
    assert (metadata.timeout_ms, metadata.in_doubt, metadata.isolation) == (30_000, "redispatch", "thread")
    assert charge_card.skill_id == "charge_card"
    assert charge_card.version == "1.0.0"
    assert charge_card.takes_context
    assert not charge_card.is_async


def test_parameters_arrive_as_the_hinted_types_and_the_result_is_plain() -> None:
    assert charge_card.validate(GOOD) == []
    assert charge_card.call_sync(make_context(), GOOD) == {
        "types": ["Card", "Address", "Customer"],
        "city": "Bern",
        "friend": "Bob",
        "key": "key-1",
        "amount": 5,
        "currency": "CHF",
        "options": {},
        "note": None,
    }


def test_a_skill_is_still_the_plain_function() -> None:
    @skill("double", version="1.0.0")
    def double(value: int) -> int:
        return value * 2

    assert double(21) == 42
    assert double.__name__ == "double"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"amount_cents": 0}, "/amount_cents: "),
        ({"amount_cents": "5"}, "/amount_cents: "),
        ({"card": {}}, "/card/number: is required"),
        ({"currency": "USD"}, "/currency: "),
        ({"customer": {"name": "A", "friends": [{"name": 3}]}}, "/customer/friends/0/name: "),
        ({"surprise": 1}, "/surprise: is not known"),
        ({"a/b~c": 1}, "/a~1b~0c: is not known"),
    ],
)
def test_problems_point_at_the_place(change: dict[str, Any], problem: str) -> None:
    problems = charge_card.validate({**GOOD, **change})
    assert len(problems) == 1
    assert problems[0].startswith(problem)


def test_a_missing_parameter_is_named() -> None:
    assert charge_card.validate({key: value for key, value in GOOD.items() if key != "card"}) == ["/card: is required"]


def test_problems_never_quote_a_value() -> None:
    hidden = "sk-live-very-secret"
    for change in ({"amount_cents": hidden}, {"currency": hidden}, {"card": hidden}, {"note": [hidden]}):
        assert hidden not in " ".join(charge_card.validate({**GOOD, **change}))
    with pytest.raises(SkillError) as caught:
        charge_card.bind({**GOOD, "customer": {"name": {"x": hidden}}})
    assert caught.value.code == "ERR_VALIDATION_FAILED"
    assert hidden not in str(caught.value)


def test_a_secret_reference_may_stand_for_any_value_before_it_is_resolved() -> None:
    reference = {"$secret": "CARD"}
    assert charge_card.validate({**GOOD, "card": {"number": reference}}) == []
    assert charge_card.validate({**GOOD, "amount_cents": reference}) == []
    assert charge_card.validate({**GOOD, "card": {"number": {"$secret": "CARD", "more": 1}}}) != []
    assert charge_card.validate({**GOOD, "amount_cents": {"$$secret": "CARD"}}) != []  # what was said from outside


def test_no_result_fits_by_looking_like_a_secret() -> None:
    @skill("weigh", version="1.0.0")
    def weigh() -> int:
        return {"$secret": "CARD"}  # type: ignore[return-value]

    with pytest.raises(SkillError) as caught:
        weigh.call_sync(make_context(), {})
    assert caught.value.code == "ERR_SCHEMA_MISMATCH"


def test_async_skills_run_in_the_callers_loop_and_sync_ones_in_a_thread() -> None:
    loops: list[object] = []

    @skill("waits", version="1.0.0")
    async def waits(ctx, value: int) -> int:  # type: ignore[no-untyped-def]  # ctx needs no hint
        loops.append(asyncio.get_running_loop())
        return value + ctx.attempt

    async def main() -> None:
        assert await waits.invoke(make_context(attempt=2), {"value": 1}) == 3
        assert loops == [asyncio.get_running_loop()]
        assert (await charge_card.invoke(make_context(), GOOD))["amount"] == 5

    asyncio.run(main())
    assert waits.is_async
    assert waits.call_sync(make_context(), {"value": 1}) == 1


def test_types_defined_beside_the_skill_in_a_function_are_found() -> None:
    class Local(msgspec.Struct):
        x: int

    @skill("local_type", version="1.0.0")
    def local_type(item: Local) -> Local:
        return Local(item.x + 1)

    assert local_type.call_sync(make_context(), {"item": {"x": 1}}) == {"x": 2}


def test_the_contexts_hint_may_be_one_that_only_type_checkers_see() -> None:
    @skill("typed", version="1.0.0")
    def typed(ctx: OnlyForTypeCheckers, n: int) -> int:  # type: ignore[name-defined]  # noqa: F821 - as meant
        return n + ctx.attempt  # type: ignore[no-any-return]

    assert typed.call_sync(make_context(attempt=1), {"n": 1}) == 2


def test_a_result_that_is_not_what_was_declared_is_a_schema_mismatch() -> None:
    @skill("liar", version="1.0.0")
    def liar() -> dict[str, int]:
        return {"n": "no number"}  # type: ignore[dict-item]

    with pytest.raises(SkillError) as caught:
        liar.call_sync(make_context(), {})
    assert caught.value.code == "ERR_SCHEMA_MISMATCH"
    assert "/n" in str(caught.value)


def test_a_function_without_a_return_hint_may_return_any_json() -> None:
    @skill("free", version="1.0.0")
    def free(value: Any):  # type: ignore[no-untyped-def]
        return value

    assert free.call_sync(make_context(), {"value": [1, {"a": None}]}) == [1, {"a": None}]


def test_resources_are_filled_in_with_public_scalars_only() -> None:
    @skill(
        "ship", version="1.0.0", tool_class="write", public=["order_id"],
        reads=["stock"], writes=["order:{order_id}", "person:{person}"],
    )  # fmt: skip
    def ship(order_id: int, person: str) -> None:
        """Ships."""

    filled = ship.resources_of({"order_id": 7, "person": "Ann"})
    assert filled.reads == ("stock",)
    assert filled.writes == ("order:7", "person:{person}")


def test_the_class_of_a_call_follows_read_when() -> None:
    @skill("box", version="1.0.0", tool_class="write", read_when={"operation": ["get"]})
    def box(operation: Literal["get", "set"] = "get") -> None:
        """A box."""

    assert box.tool_class_of({}) == "read"
    assert box.tool_class_of({"operation": "set"}) == "write"
    assert box.risk_level_of({"operation": "get"}) == "READ"
    assert box.risk_level_of({"operation": "set"}) == "WRITE"
    assert box.tool_class_of({"operation": {"$secret": "X"}}) == "write"


def test_a_skill_without_a_class_is_a_write_of_high_risk() -> None:
    assert charge_card.tool_class_of(GOOD) == "write"
    assert charge_card.risk_level_of(GOOD) == "HIGH_RISK"


def plain(value: int) -> int:
    return value


def unhinted(value):  # type: ignore[no-untyped-def]
    return value


def many(*values: int) -> None:
    """Takes any number."""


def open_ended(**values: int) -> None:
    """Takes any name."""


def late_context(value: int, ctx: Any) -> None:
    """Has its context last."""


def unresolved(value: Missing) -> None:  # type: ignore[name-defined]  # noqa: F821 - the mistake under test
    """Has a hint that nobody defined."""


class Opaque:
    """No type that JSON Schema knows."""


def opaque(value: Opaque) -> None:
    """Takes an object."""


def anything() -> object:
    """Returns whatever it likes."""


def anything_inside(value: dict[str, object]) -> None:
    """Takes whatever it is given."""


@pytest.mark.parametrize(
    ("arguments", "function", "message"),
    [
        ({"skill_id": "Bad Id"}, plain, "is not a skill id"),
        ({"skill_id": "a."}, plain, "is not a skill id"),
        ({"skill_id": "x" * 129}, plain, "is not a skill id"),
        ({"skill_id": "ok\n"}, plain, "is not a skill id"),
        ({"version": "1.0"}, plain, "is not a version"),
        ({"version": "01.0.0"}, plain, "is not a version"),
        ({"version": "1.0.0\n"}, plain, "is not a version"),
        ({"in_doubt": "reconcile"}, plain, "needs reconcile="),
        ({"in_doubt": "shrug"}, plain, "in_doubt cannot be 'shrug'"),
        ({"in_doubt": "hold", "reconcile": plain}, plain, 'only asked with in_doubt="reconcile"'),
        ({"in_doubt": "reconcile", "reconcile": 3}, plain, "must be a function"),
        ({"public": ["colour"]}, plain, "public names 'colour', which is no parameter (there are: value)"),
        ({"public": "value"}, plain, "write public=['value']"),
        ({"writes": ["order:{order_id}"]}, plain, "'order_id', which is no parameter"),
        ({"writes": ["order:{"]}, plain, "resource 'order:{'"),
        ({"tool_class": "read", "writes": ["x"]}, plain, "cannot declare writes"),
        ({"tool_class": "maybe"}, plain, "tool_class cannot be 'maybe'"),
        ({"read_when": {"value": ["1"]}}, plain, "declare that class"),
        ({"tool_class": "write", "read_when": {"colour": ["x"]}}, plain, "read_when names 'colour'"),
        ({"isolation": "hope"}, plain, "isolation cannot be 'hope'"),
        ({"cost_model": "vibes"}, plain, "cost_model cannot be 'vibes'"),
        ({"timeout_ms": 0}, plain, "timeout_ms must be a whole number"),
        ({"timeout_ms": True}, plain, "timeout_ms must be a whole number"),
        ({"cost_estimate_cents": -1}, plain, "cost_estimate_cents must be a whole number"),
        ({"cost_estimate_cents": 1.5}, plain, "cost_estimate_cents must be a whole number"),
        ({"cost_estimate_cents": 10**11 + 1}, plain, "cost_estimate_cents must be a whole number"),
        ({"retry": {"max_retires": 3}}, plain, "retry: no field 'max_retires'"),
        ({"retry": {"max_retries": "3"}}, plain, "retry: max_retries is a whole number"),
        ({"retry": {"max_retries": -1}}, plain, "retry: max_retries is a whole number"),
        ({"retry": {"retryable_codes": ["nope"]}}, plain, "retry: retryable_codes holds codes"),
        ({"side_effects": ["Mail sent!"]}, plain, "is not a name like http_request"),
        ({"failure_modes": ["boom"]}, plain, "is not a code"),
        ({}, unhinted, "parameter value has no type hint; write value: str"),
        ({}, many, "cannot be passed by name"),
        ({}, open_ended, "cannot be passed by name"),
        ({}, late_context, "must be the first parameter"),
        ({}, unresolved, "the type hint 'Missing' cannot be resolved"),
        ({}, opaque, "no JSON Schema can be made for parameters"),
        ({}, opaque, "write a type that JSON can express"),
        ({}, anything, "no JSON Schema can be made for the result: type <class 'object'> is not supported; write Any"),
        ({}, anything_inside, "for parameters: type <class 'object'> is not supported; write Any"),
    ],
)  # fmt: skip
def test_a_declaration_that_contradicts_itself_is_refused_at_once(
    arguments: dict[str, Any], function: Callable[..., Any], message: str
) -> None:
    with pytest.raises(SkillDeclarationError) as caught:
        skill(**{"skill_id": "thing", "version": "1.0.0", **arguments})(function)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


def test_a_reconcile_hook_is_kept() -> None:
    declared = skill("paid", version="1.0.0", in_doubt="reconcile", reconcile=unhinted)(plain)
    assert isinstance(declared, Skill)
    assert declared.reconcile is unhinted
