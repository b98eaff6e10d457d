"""The reference page's example runs as it stands there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from reenact.policy.replay_control import ToolDenied


def test_the_example_of_the_reference_page_denies_a_repetition_with_the_earlier_answer(root: Path) -> None:
    page = (root / "docs" / "reference" / "replay_control.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    calls: list[str] = []

    def search(q: str) -> str:
        calls.append(q)
        if len(calls) == 1:
            raise TimeoutError
        return "Paris"

    def ask(call_id: str, spec: str) -> Any:
        return names["call"](call_id, spec, {"q": "capital of France"}, names["search"], search)

    with pytest.raises(TimeoutError):
        ask("c1", "web_search")
    assert ask("c2", "web_search") == "Paris"
    denied = ask("c3", "web_search")
    assert isinstance(denied, ToolDenied)
    assert (denied.earlier_call_id, denied.output) == ("c2", "Paris")
    assert len(calls) == 2
