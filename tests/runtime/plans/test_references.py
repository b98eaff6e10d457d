"""References between steps: what they reach, what they give, and where they lead nowhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact import skill
from reenact.contracts.references import escape, unescape
from tests.crash.harness import KILLED, Stage, in_child
from tests.runtime.running import Bench, plan, step

OUTPUT: dict[str, Any] = {
    "id": 7,
    "items": [{"name": "first"}, {"name": "second"}],
    "text": "hello",
    "empty": None,
    "float": 1e17,
    "$odd": {"$secret": "A"},
    "deep": {"a.b": 1},
}


@skill("make", version="1.0.0", tool_class="read")
def make() -> dict[str, Any]:
    """A value of many kinds."""
    return OUTPUT


@skill("take", version="1.0.0", tool_class="read")
def take(value: Any = None) -> Any:
    """Gives back what it got."""
    return value


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("{{s0}}", OUTPUT),
        ("{{ s0.id }}", 7),
        ("{{s0.items.1.name}}", "second"),
        ("{{s0.empty}}", None),
        ("{{s0.float}}", 1e17),
        ("{{s0.$odd}}", {"$secret": "A"}),
        ("say {{s0.text}} to {{s0.id}}", "say hello to 7"),
        ("{{s0.items}}!", '[{"name":"first"},{"name":"second"}]!'),
        ({"a": ["{{s0.id}}", {"b": "{{s0.text}}"}]}, {"a": [7, {"b": "hello"}]}),
        ("{ {s0.id} }", "{ {s0.id} }"),
        ("{{}}", "{{}}"),
    ],
)
def test_a_reference_gives_the_value_that_it_names(written: object, expected: object, tmp_path: Path) -> None:
    bench = Bench(tmp_path, make, take)
    result = bench.run(step(make), step(take, {"value": written}))
    assert result.status == "completed"
    assert result.outcomes[1].output == expected
    bench.check(result)


@pytest.mark.parametrize(
    "written", ["{{s0.nothing}}", "{{s0.items.2}}", "{{s0.items.x}}", "{{s0.text.0}}", "{{s9.id}}"]
)
def test_a_reference_that_leads_nowhere_is_refused(written: str, tmp_path: Path) -> None:
    bench = Bench(tmp_path, make, take)
    result = bench.run(step(make), step(take, {"value": written}))
    assert (result.status, result.final_code) == ("failed", "ERR_REFERENCE_UNRESOLVED")
    bench.check(result)


def test_a_step_that_failed_has_no_output_to_refer_to(tmp_path: Path) -> None:
    bench = Bench(tmp_path, make, take)
    result = bench.run(step("nobody", skill_version="1.0.0", on_error="continue"), step(take, {"value": "{{s0}}"}))
    assert result.final_code == "ERR_REFERENCE_UNRESOLVED"
    bench.check(result)


def test_a_step_id_with_dots_is_found_by_its_longest_name(tmp_path: Path) -> None:
    bench = Bench(tmp_path, make, take)
    steps = [step(take, {"value": {"b": 1}}, step_id="a"), step(take, {"value": 2}, step_id="a.b")]
    result = bench.run(*steps, step(take, {"value": "{{a.b}}"}))
    assert result.outcomes[2].output == 2


def test_a_reference_over_many_steps_and_across_a_crash_reads_what_was_recorded(stage: Stage) -> None:
    """Further back than what is kept in memory, in another process than the one that made it."""
    middle = [step(take, {"value": n}) for n in range(60)]
    document = plan(step(make), *middle, step(take, {"value": "{{s0.items.0.name}} {{s0.id}}"}))
    skills = (make, take)
    crash = in_child(lambda: Bench(stage.folder, *skills).runtime.run(document), crash_at="before_dispatch:50")
    assert crash == KILLED
    bench = Bench(stage.folder, *skills)
    (result,) = bench.runtime.recover()
    assert result.outcomes[-1].output == "first 7"
    bench.check(result)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["$secret", "$$secret", "$"]), inner),
    max_leaves=8,
)


@given(JSON)
def test_escaping_and_unescaping_a_value_from_outside_gives_it_back_and_asks_for_no_secret(value: Any) -> None:
    def never(name: str) -> object:
        raise AssertionError(f"the secret {name} was asked for")

    assert unescape(escape(value), never) == value
