"""A nightly report: a plan of built-in skills reads figures, sorts and counts them, and writes a report that names its
inputs, so that a stranger can check them.

Runs offline, in the folder that `--workspace` names (the current one by default).
"""

from __future__ import annotations

import argparse
from pathlib import Path

from reenact import Runtime, skill
from reenact.provenance import record_report

PLAN = {
    "plan_id": "nightly",
    "agent_id": "reporter",
    "goal": "what was sold today",
    "steps": [
        {"step_id": "read", "skill_id": "file_read", "parameters": {"path": "sales.json"}},
        {
            "step_id": "sorted",
            "skill_id": "json_transform",
            "parameters": {
                "data": "{{read.content}}", "parse": True, "operation": "sort", "by": "cents", "descending": True,
            },
        },
        {"step_id": "page", "skill_id": "render_page", "parameters": {"rows": "{{sorted.result}}"}},
        {
            "step_id": "write",
            "skill_id": "file_write",
            "parameters": {"path": "report.md", "content": "{{page.markdown}}"},
        },
        {"step_id": "count", "skill_id": "kv_store", "parameters": {"operation": "incr", "key": "reports"}},
    ],
}  # fmt: skip


@skill("render_page", version="1.0.0", tool_class="read", stable_fields=["markdown"])
def render_page(rows: list[dict[str, str | int]]) -> dict[str, str]:
    """A page of markdown from rows of sales."""
    lines = [f"| {row['item']} | {row['cents']} |" for row in rows]
    return {"markdown": "\n".join(["# Sold today", "", "| item | cents |", "|---|---|", *lines, ""])}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--workspace", type=Path, default=Path.cwd())
    folder = options.parse_args().workspace.resolve()
    runtime = Runtime(f"sqlite:///{folder / 'nightly.db'}", skills=[render_page])
    with record_report(
        folder / "report.md", "nightly", inputs={"sales": folder / "sales.json"}, root=folder, program="nightly-report"
    ) as recording:
        result = runtime.run({**PLAN, "context": {"workspace": str(folder)}})
        recording.tie_to(result)
    for step in result:
        print(f"{step.step_id:8} {step.final_code}")
    print(f"run {result.run_id} {result.status}")


if __name__ == "__main__":
    main()
