"""Decision code gets a view in which a forbidden field cannot be read."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.contracts.outcome import Observability, OutcomeMetadata, OutcomeSideEffect, StructuredOutcome
from reenact.contracts.stability import FORBIDDEN_FIELDS, OUTCOME_FIELDS, DecisionView
from reenact.errors import DeterminismViolation

SECRET = "only-in-this-run"

AS_MAPPING: dict[str, Any] = {
    "run_id": SECRET,
    "step_id": "fetch",
    "status": "failure",
    "code": "ERR_HTTP_503",
    "message": SECRET,
    "details": {
        "upstream_status": 503,
        "response_body": SECRET,
        "llm_output": SECRET,
        "output": SECRET,
        "hints": [{"message": SECRET, "kind": "retry"}],
    },
    "cost_cents": 5,
    "latency_ms": 987654321,
    "retryable": True,
    "side_effects": [
        {
            "type": "http_request",
            "target": "api.example.com",
            "attempt": 0,
            "timestamp": SECRET,
            "bytes": SECRET,
        },
        {
            "type": "http_request",
            "target": "api.example.com",
            "attempt": 1,
            "timestamp": SECRET,
            "bytes": SECRET,
        },
    ],
    "metadata": {"skill_id": "http_call", "skill_version": "1.2.0", "node": SECRET},
    "observability": {"trace_id": SECRET, "span_id": SECRET, "backend_retries": 2},
    "timestamp": SECRET,
}

AS_STRUCT = StructuredOutcome(
    run_id=SECRET,
    step_id="fetch",
    status="failure",
    code="ERR_HTTP_503",
    message=SECRET,
    details=AS_MAPPING["details"],
    cost_cents=5,
    latency_ms=987654321,
    retryable=True,
    side_effects=[
        OutcomeSideEffect(type="http_request", target="api.example.com", attempt=n, timestamp=SECRET) for n in (0, 1)
    ],
    metadata=OutcomeMetadata(skill_id="http_call", skill_version="1.2.0"),
    observability=Observability(trace_id=SECRET, span_id=SECRET, backend_retries=2),
    timestamp=SECRET,
)

# Every forbidden field of an outcome, by the object that holds it.
FORBIDDEN: list[tuple[str, str]] = [
    ("", "run_id"),
    ("", "message"),
    ("", "latency_ms"),
    ("", "timestamp"),
    ("", "output"),
    ("details", "response_body"),
    ("details", "llm_output"),
    ("details", "output"),
    ("details", "message"),
    ("observability", "trace_id"),
    ("observability", "span_id"),
    ("side_effects", "timestamp"),
]

READS: dict[str, Callable[[Any, str], object]] = {
    "attribute": getattr,
    "attribute with a default": lambda view, name: getattr(view, name, None),
    "hasattr": hasattr,
    "subscript": lambda view, name: view[name],
    "get": lambda view, name: view.get(name),
    "get with a default": lambda view, name: view.get(name, "fallback"),
    "in": lambda view, name: name in view,
}


def holder(view: DecisionView, path: str) -> Any:
    if path == "side_effects":
        return view.side_effects[1]  # type: ignore[index]
    return view[path] if path else view


@pytest.fixture(params=[AS_MAPPING, AS_STRUCT], ids=["mapping", "struct"])
def view(request: pytest.FixtureRequest) -> DecisionView:
    return DecisionView(request.param)


def test_the_cases_cover_every_field_that_the_tables_forbid() -> None:
    listed = {row.field for row in FORBIDDEN_FIELDS} | {
        row.field for row in OUTCOME_FIELDS if row.deterministic == "NO"
    }
    covered = {f"{path}.{name}" if path else name for path, name in FORBIDDEN}
    assert listed - covered <= {"trace_id", "span_id"}  # bare names: covered where an outcome has them


@pytest.mark.parametrize("read", READS.values(), ids=READS.keys())
@pytest.mark.parametrize(("path", "name"), FORBIDDEN)
def test_reading_a_forbidden_field_raises_and_names_the_field(
    view: DecisionView, path: str, name: str, read: Callable[[Any, str], object]
) -> None:
    with pytest.raises(DeterminismViolation, match=rf"{name}'.*must not affect behaviour: \w+"):
        read(holder(view, path), name)


@pytest.mark.parametrize("name", ["latency_ms", "message", "timestamp"])
def test_a_forbidden_field_raises_even_when_the_outcome_lacks_it(name: str) -> None:
    with pytest.raises(DeterminismViolation):
        DecisionView({"code": "OK"}).get(name)


def test_deterministic_fields_read_alike_by_attribute_subscript_and_get(view: DecisionView) -> None:
    for name, value in [
        ("step_id", "fetch"),
        ("status", "failure"),
        ("code", "ERR_HTTP_503"),
        ("cost_cents", 5),
        ("retryable", True),
    ]:
        assert getattr(view, name) == view[name] == view.get(name) == value
        assert name in view
    assert view.metadata == {"skill_id": "http_call", "skill_version": "1.2.0"}
    assert view.observability == {"backend_retries": 2}
    assert view.ok is False


def test_side_effects_keep_their_order_and_lose_their_time(view: DecisionView) -> None:
    effects = view.side_effects
    assert effects == (
        {"type": "http_request", "target": "api.example.com", "attempt": 0},
        {"type": "http_request", "target": "api.example.com", "attempt": 1},
    )


def test_details_show_their_structure_without_external_content(view: DecisionView) -> None:
    assert view.details == {"upstream_status": 503, "hints": ({"kind": "retry"},)}


def walk(value: object) -> list[object]:
    if isinstance(value, Mapping):
        return [item for pair in value.items() for member in pair for item in walk(member)]
    if isinstance(value, tuple):
        return [item for member in value for item in walk(member)]
    return [value]


def test_iterating_yields_no_forbidden_name_and_no_forbidden_value(view: DecisionView) -> None:
    names = [item for item in walk(view) if isinstance(item, str)]
    assert SECRET not in names
    assert not {name for _, name in FORBIDDEN} & set(names)
    assert "latency_ms" not in dict(view)
    assert "latency_ms" not in {**view}


def test_nothing_that_the_view_holds_leads_to_a_forbidden_value(view: DecisionView) -> None:
    for text in (
        repr(view),
        str(view),
        f"{view}",
        repr(dir(view)),
        repr(pickle.dumps(view)),
        repr(copy.copy(view)),
    ):
        assert SECRET not in text
        assert "987654321" not in text
    with pytest.raises(TypeError):
        vars(view)


def test_a_pattern_that_names_a_forbidden_field_raises(view: DecisionView) -> None:
    with pytest.raises(DeterminismViolation):
        match view:
            case {"latency_ms": _}:
                pytest.fail("the forbidden field was matched")


def test_a_pattern_over_deterministic_fields_matches(view: DecisionView) -> None:
    match view:
        case {"code": "ERR_HTTP_503", "observability": {"backend_retries": retries}}:
            assert retries == 2
        case _:
            pytest.fail("no match")


def test_an_unlisted_field_is_withheld_where_it_is_there_and_absent_where_it_is_not() -> None:
    with pytest.raises(DeterminismViolation, match=r"metadata\.node.*no stability table"):
        DecisionView(AS_MAPPING).metadata["node"]  # type: ignore[index]
    view = DecisionView(AS_STRUCT)
    assert "weather" not in view
    assert view.get("weather", 1) == 1
    with pytest.raises(AttributeError, match="weather"):
        _ = view.weather
    with pytest.raises(KeyError):
        view["weather"]


def test_equal_behaviour_gives_equal_views_whatever_the_forbidden_fields_say() -> None:
    other = {**AS_MAPPING, "timestamp": "later", "latency_ms": 1, "message": "other", "run_id": "other"}
    assert DecisionView(AS_MAPPING) == DecisionView(other)
    assert DecisionView(AS_MAPPING) != DecisionView({**AS_MAPPING, "code": "OK"})


def test_a_view_cannot_be_changed(view: DecisionView) -> None:
    with pytest.raises(AttributeError, match="cannot be changed"):
        view.code = "OK"
    with pytest.raises(AttributeError, match="cannot be changed"):
        del view.code
    with pytest.raises(TypeError):
        hash(view)


def test_changing_the_original_afterwards_does_not_reach_the_view() -> None:
    original = copy.deepcopy(AS_MAPPING)
    view = DecisionView(original)
    original["code"] = "OK"
    original["details"]["upstream_status"] = 200
    assert view.code == "ERR_HTTP_503"
    assert view.details["upstream_status"] == 503  # type: ignore[index]


def test_a_view_survives_pickle_and_copy(view: DecisionView) -> None:
    for twin in (pickle.loads(pickle.dumps(view)), copy.copy(view), copy.deepcopy(view), DecisionView(view)):
        assert twin == view
        with pytest.raises(DeterminismViolation):
            _ = twin.latency_ms


def test_unset_fields_of_a_struct_are_absent() -> None:
    class Loose(msgspec.Struct):
        code: str | msgspec.UnsetType = msgspec.UNSET

    assert "code" not in DecisionView(Loose())


@pytest.mark.parametrize("value", [None, 3, "text", ["list"]])
def test_only_a_mapping_or_a_struct_can_be_viewed(value: object) -> None:
    with pytest.raises(TypeError, match="mapping or a struct"):
        DecisionView(value)


@given(
    st.recursive(
        st.integers(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["message", "trace_id", "a", "b"]), inner, max_size=4)
        ),
    )
)
def test_no_depth_of_details_lets_a_bare_forbidden_name_through(details: object) -> None:
    view = DecisionView({"code": "OK", "details": {"x": details}})
    assert not {"message", "trace_id"} & {item for item in walk(view) if isinstance(item, str)}
