"""A nightly report: built-in skills read figures, sort and count them, and write a report that names its inputs, so
that a stranger can check them.

Runs offline, in the folder that `--workspace` names (the current one by default). Each night is a session of its own:
killed and started again, it goes on with that night's.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from reenact import Runtime, StructuredOutcome, skill
from reenact.provenance import record_report


@skill("render_page", version="1.0.0", tool_class="read", stable_fields=["markdown"])
def render_page(rows: list[dict[str, str | int]]) -> dict[str, str]:
    """A page of markdown from rows of sales."""
    lines = [f"| {row['item']} | {row['cents']} |" for row in rows]
    return {"markdown": "\n".join(["# Sold today", "", "| item | cents |", "|---|---|", *lines, ""])}


def report(session: Any) -> None:
    def call(name: str, skill_id: str, **parameters: object) -> Any:
        outcome: StructuredOutcome = session.call(skill_id, parameters, step_id=name)
        print(f"{name:8} {outcome.code}", flush=True)
        return outcome.output

    sales = call("read", "file_read", path="sales.json")
    ordered = call(
        "sorted", "json_transform", data=sales["content"], parse=True, operation="sort", by="cents", descending=True
    )
    page = call("page", "render_page", rows=ordered["result"])
    call("write", "file_write", path="report.md", content=page["markdown"])
    call("count", "kv_store", operation="incr", key="reports")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--night", default="2026-11-15")
    options.add_argument("--workspace", type=Path, default=Path.cwd())
    given = options.parse_args()
    folder = given.workspace.resolve()
    runtime = Runtime(f"sqlite:///{folder / 'nightly.db'}", skills=[render_page])
    with record_report(
        folder / "report.md", "nightly", inputs={"sales": folder / "sales.json"}, root=folder, program="nightly-report"
    ) as recording:
        with runtime.session(
            id=f"nightly-{given.night}",
            goal="what was sold today",
            agent_id="reporter",
            context={"workspace": str(folder)},
        ) as session:
            report(session)
        result = runtime.resume(session.run_id)  # it has ended
        recording.tie_to(result)
    print(f"run {result.run_id} {result.status}")


if __name__ == "__main__":
    main()
