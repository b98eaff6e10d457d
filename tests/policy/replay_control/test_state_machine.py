"""Any sequence of questions and records, against the shortest model of the rules that can be written."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from reenact.policy.replay_control import ReplayControl, ToolSpec

TOOLS = st.sampled_from(["web_search", "send_email", "unknown"])
ARGUMENTS = st.sampled_from([{}, {"q": 1}, {"q": 1.0}, {"q": "1"}, {"a": 1, "b": 2}, {"b": 2, "a": 1}])
SPECS: dict[str, ToolSpec | None] = {
    "web_search": ToolSpec("web_search"),
    "send_email": ToolSpec("send_email", idempotent=False),
    "unknown": None,
}


class AgainstTheModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.control = ReplayControl()
        self.records: list[tuple[str, str, str]] = []

    def seen(self, tool: str, arguments: dict[str, Any], outcome: str) -> bool:
        return (tool, json.dumps(arguments, sort_keys=True), outcome) in self.records

    @rule(tool=TOOLS, arguments=ARGUMENTS)
    def ask(self, tool: str, arguments: dict[str, Any]) -> None:
        skip, reason = self.control.should_skip(tool, arguments, SPECS[tool])
        assert skip == (tool != "send_email" and self.seen(tool, arguments, "success"))
        assert bool(reason) == skip

    @rule(tool=TOOLS, arguments=ARGUMENTS, outcome=st.sampled_from(["success", "failure", "timeout", "denied"]))
    def record(self, tool: str, arguments: dict[str, Any], outcome: str) -> None:
        getattr(self.control, f"record_{outcome}")(tool, arguments, SPECS[tool])
        self.records.append((tool, json.dumps(arguments, sort_keys=True), outcome))

    @invariant()
    def the_history_counts_distinct_pairs(self) -> None:
        assert self.control.history_size() == len({pair[:2] for pair in self.records})


TestAgainstTheModel = AgainstTheModel.TestCase
TestAgainstTheModel.settings = settings(max_examples=60, stateful_step_count=30)
