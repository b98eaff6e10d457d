"""What listeners hear, and that nothing they do reaches a skill."""

from __future__ import annotations

from pathlib import Path

import pytest

from reenact import SkillContext, skill
from reenact.runtime.listeners import Notice
from tests.runtime.running import Bench, step


@skill("talks", version="1.0.0", tool_class="read")
def talks(ctx: SkillContext) -> str:
    ctx.progress("half way")
    return "done"


@pytest.mark.parametrize("failure", [RuntimeError("no screen"), BrokenPipeError()])
def test_a_listener_that_fails_on_progress_is_not_the_skill_s_trouble(tmp_path: Path, failure: Exception) -> None:
    heard: list[Notice] = []

    def listen(notice: Notice) -> None:
        if notice.kind == "progress":
            heard.append(notice)
            raise failure

    bench = Bench(tmp_path, talks, listeners=[listen])
    result = bench.run(step(talks))
    assert result.status == "completed"
    assert [(notice.run_id, notice.step_id, notice.message) for notice in heard] == [(result.run_id, "s0", "half way")]
