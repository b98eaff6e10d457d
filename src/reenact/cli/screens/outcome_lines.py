"""A run's result as lines: what each step came to, and what to do about a run that has not ended well."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reenact.cli.screens.printing import Segment, brief, one_line, plural, print_json, print_lines
from reenact.record.outcomes import said
from reenact.record.result import result_document

if TYPE_CHECKING:
    from reenact.cli.advice import Advice
    from reenact.record.result import RunResult, StepResult

LISTED = 40
"""So many steps are listed one by one."""
STATUS_STYLE = {"completed": "green", "success": "green", "failed": "red", "failure": "red", "cancelled": "red"}


def print_result(result: RunResult, advice: Advice, *, as_json: bool) -> None:
    if as_json:
        print_json(result_document(result))
    else:
        print_lines(result_lines(result, advice))


def result_lines(result: RunResult, advice: Advice) -> list[list[Segment]]:
    steps = list(result)
    width = max((len(step.step_id) for step in steps), default=0)
    lines = [step_line(step, width) for step in steps if len(steps) <= LISTED or worth_a_line(step)]
    if len(lines) < len(steps):
        lines.append([(f"  and {plural(len(steps) - len(lines), 'step')} that went well at once", "")])
    summary = f"  {plural(len(steps), 'step')}, {plural(sum(step.cost_cents for step in steps), 'cent')}"
    lines.append(
        [(f"run {result.run_id} ", ""), (result.status, STATUS_STYLE.get(result.status, "yellow")), (summary, "")]
    )
    if result.reason:
        lines.append([(f"why  {one_line(result.reason)}", "")])
    lines += [[(line, "")] for line in next_steps(result, advice)]
    return lines


def worth_a_line(step: StepResult) -> bool:
    """In a long run: what failed, was refused, or needed more than one attempt."""
    return step.outcome.status != "success" or step.attempts > 1


def step_line(step: StepResult, width: int) -> list[Segment]:
    style = STATUS_STYLE.get(step.outcome.status, "yellow")
    line = [(f"  {step.step_id:<{width}}  ", ""), (step.final_code, style)]
    if step.attempts > 1:
        line.append((f"  {plural(step.attempts, 'attempt')}", ""))
    if step.outcome.status != "success":
        line.append((f"  {brief(said(step.outcome))}", ""))
    return line


def next_steps(result: RunResult, advice: Advice) -> list[str]:
    """What to do about a run that has not ended well."""
    run_id, status = result.run_id, result.status
    see, go_on = f"see  {advice.read('show', run_id)}", f"then {advice.go_on(run_id)}"
    kind = result.store.find_run(run_id).kind
    if (status == "pending" and kind == "session") or kind == "trace":
        return [see]  # only its host goes on with it, and the reason says so
    if status == "failed":
        return [see]
    if status == "waiting":
        return [see, f"say  {advice.say('approve', run_id)}", f"or   {advice.say('deny', run_id)}", go_on]
    if status in ("held", "running", "pending"):
        return [see, go_on]
    return []
