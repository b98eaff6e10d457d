"""Random plans for hypothesis: retries, mixed errors, budgets, denials, supervisors, keys, references, crashes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from reenact.runtime.crash_points import CRASH_POINTS
from tests.replay.skills import SUPERVISOR

WORDS = (
    "503", "500", "404", "408", "429", "302", "timeout", "dns", "tls", "refused", "odd", "caused", "json", "filter",
    "cancelled", "ok",
)  # fmt: skip
SKILLS = (
    ("reader", "1.0.0"), ("reader", "1.1.0"), ("writer", "2.0.0"), ("keyed", "1.0.0"), ("plain", "0.1.0"),
    ("plain", None), ("model", "1.0.0"),
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    plan: dict[str, Any]
    crashes: tuple[tuple[str, int], ...]
    hosted: bool = False
    """The host has a supervisor of its own, whatever the plan names."""


endings = st.sampled_from(["ok", "ok", "ok", "404"]).map(lambda word: [word])
scripts = st.one_of(
    st.sampled_from([["ok"], ["503", "ok"], ["429", "timeout", "ok"], ["503"]]),
    st.tuples(st.lists(st.sampled_from(WORDS), min_size=1, max_size=3), endings).map(lambda parts: parts[0] + parts[1]),
)
retries = st.fixed_dictionaries(
    {},
    optional={
        "max_retries": st.integers(0, 3),
        "backoff_base_ms": st.integers(0, 300),
        "backoff_multiplier": st.sampled_from([1.0, 1.5, 2.0, 3.0]),
        "max_backoff_ms": st.integers(0, 2000),
        "jitter_enabled": st.booleans(),
        "jitter_max_ms": st.integers(0, 500),
    },
)


@st.composite
def steps(draw: st.DrawFn, index: int) -> dict[str, Any]:
    skill_id, version = draw(st.sampled_from(SKILLS))
    parameters: dict[str, Any] = {"script": draw(scripts)}
    if skill_id == "model":
        parameters["prompt"] = draw(st.sampled_from(["", "a b c", "tell me a story " * 20]))
        if chance(draw, 4):
            parameters["script"] = ["silent"]
        parameters["model"] = draw(st.sampled_from(["gpt-4o"] * 5 + ["claude-opus-4-20250514", "nobody sells it"]))
    else:
        parameters["value"] = draw(st.sampled_from([1, [1, {"$a": 2}]]))
        if index > 0 and chance(draw, 3):
            earlier = draw(st.integers(0, index - 1))
            path = draw(st.sampled_from(["", "", "", ".value", ".sent"]))
            parameters["value"] = f"{{{{s{earlier}{path}}}}}"
    match draw(st.integers(0, 31)):
        case 11:
            parameters["script"] = "not a list"
        case 12:
            version = "9.9.9"
        case 13:
            parameters["value" if skill_id != "model" else "prompt"] = {"$secret": "REENACT_TEST_NO_SUCH_SECRET"}
        case 14:
            skill_id, version = "nobody_knows", None
        case _:
            pass
    step: dict[str, Any] = {"step_id": f"s{index}", "skill_id": skill_id, "parameters": parameters}
    if version is not None:
        step["skill_version"] = version
    if chance(draw, 3):
        step["retry"] = draw(retries)
    if chance(draw, 5):
        step["on_error"] = draw(st.sampled_from(["abort", "continue"]))
    if chance(draw, 3):
        step["idempotency_key"] = draw(st.sampled_from(["k1", "k2"]))
    return step


def chance(draw: st.DrawFn, one_in: int) -> bool:
    """True once in so many; a number in the middle, since the ends of a range are tried more often."""
    return draw(st.integers(0, 2 * one_in - 1)) in (one_in - 1, one_in)


def some(draw: st.DrawFn, one_in: int, **parts: st.SearchStrategy[Any]) -> dict[str, Any]:
    return {name: draw(part) for name, part in parts.items() if chance(draw, one_in)}


@st.composite
def contexts(draw: st.DrawFn) -> dict[str, Any]:
    context: dict[str, Any] = {"on_error": draw(st.sampled_from(["continue", "continue", "continue", "abort"]))}
    context |= some(
        draw,
        3,
        budget_cents=st.sampled_from([0, 3, 5, 8, 13, 30]),
        budget=st.sampled_from(
            [{"per_step_cents": 3}, {"per_step_cents": 5}, {"mode": "soft", "per_step_cents": 1}, {"mode": "soft"}]
        ),
        retry=retries,
        supervisor=st.just(SUPERVISOR),
    )
    context |= some(draw, 2, dedupe=st.just(True))
    context |= some(
        draw, 6, allowed_skills=st.sampled_from([["reader", "writer", "model"], ["plain", "keyed", "reader@1.0.0"]])
    )
    profile = some(
        draw,
        6,
        denied_skills=st.just(["writer"]),
        disallowed_side_effects=st.sampled_from([["webhook_sent"], ["llm_request"]]),
        max_external_calls=st.integers(1, 4),
    )
    return {**context, "profile": profile} if profile else context


@st.composite
def cases(draw: st.DrawFn) -> Case:
    count = draw(st.integers(2, 6))
    made = [draw(steps(index)) for index in range(count)]
    for step in made[1:]:
        match draw(st.integers(0, 9)):
            case 4 | 5:  # the same call again: a repetition for the duplicate gate, or for its key
                first = made[0]
                step |= {key: first[key] for key in ("skill_id", "parameters", "idempotency_key") if key in first}
                step.pop("skill_version", None)
                step |= {key: first[key] for key in ("skill_version",) if key in first}
            case 6 | 7 | 8:
                step["step_id"] += draw(st.sampled_from(["8", "9"]))
            case _:
                pass
    plan = {
        "plan_id": "random", "agent_id": "agent", "goal": "any", "steps": made, "context": draw(contexts()),
    }  # fmt: skip
    crash = st.tuples(st.sampled_from(sorted(CRASH_POINTS)), st.integers(1, 4))
    crashes = draw(st.lists(crash, min_size=1, max_size=4)) if draw(st.booleans()) else []
    if "REENACT_TEST_NO_SUCH_SECRET" in str(plan):
        crashes = []  # a run that is taken up again is held for it, and has no end
    return Case(plan, tuple(crashes), hosted=chance(draw, 4))
