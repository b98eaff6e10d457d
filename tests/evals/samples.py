"""A spec with its files, and a model that keeps count of what it is asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROWS = [{"country": "France", "capital": "Paris"}, {"country": "Peru", "capital": "Lima"}]

SKILLS = '''
from pathlib import Path
from reenact import SkillContext, skill


@skill("counted", version="1.0.0", tool_class="read", side_effects=["llm_request"], cost_estimate_cents=COST)
def counted(ctx: SkillContext, prompt: str, model: str, seed: int) -> dict[str, str]:
    """Answers, and writes down that it was asked."""
    with Path(ASKED).open("a") as log:
        log.write(f"{model} {seed} {prompt}\\n")
    ctx.side_effect("llm_request", f"house/{model}")
    ctx.request_id(f"req-{model}-{seed}-{len(prompt)}")
    return {"text": f"It is {prompt.rpartition(' ')[2]}"}


@skill("judge", version="1.0.0", tool_class="read")
def judge(answer: str, sample: dict[str, str]) -> dict[str, float]:
    """Half a point for an answer at all, and the other half for the right one."""
    return {"score": 0.5 + 0.5 * (sample["capital"] in answer)}
'''


def write_spec(folder: Path, **changes: Any) -> Path:
    (folder / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in ROWS), encoding="utf-8")
    document = {
        "name": "capitals",
        "models": ["m1", "m2"],
        "skill": "counted",
        "conditions": {"plain": {"prompt": "The capital of {country}"}, "told": {"prompt": "{country} has {capital}"}},
        "data": "rows.jsonl",
        "n": 3,
        "seed": 40,
        "score": {"contains": "{capital}"},
        **changes,
    }
    path = folder / "spec.json"
    path.write_text(json.dumps({key: value for key, value in document.items() if value is not None}), encoding="utf-8")
    return path


def write_skills(folder: Path, cost: int = 0) -> Path:
    path = folder / "eval_skills.py"
    text = SKILLS.replace("COST", str(cost)).replace("ASKED", repr(str(folder / "asked.txt")))
    path.write_text(text, encoding="utf-8")
    return path


def asked(folder: Path) -> list[str]:
    return (folder / "asked.txt").read_text(encoding="utf-8").splitlines()
