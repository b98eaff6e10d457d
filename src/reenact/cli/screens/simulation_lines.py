"""A simulation for people: the answer first, then what is missing, then each step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reenact.cli.screens.printing import Segment, one_line
from reenact.policy.cost import dollars

if TYPE_CHECKING:
    from reenact.replay.forecast.simulation import Simulation, StepForecast

SECOND = 1000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE


def simulation_lines(answer: Simulation) -> list[list[Segment]]:
    verdict: Segment = ("feasible", "bold green") if answer.feasible else ("not feasible", "bold red")
    lines: list[list[Segment]] = [[verdict, (f"  {answer.plan_hash}", "dim")]]
    lines += [[(f"  {label:<10}", "dim"), (text, "")] for label, text in summary(answer) if text]
    if answer.problems:
        lines += [[("", "")], [("problems", "bold")]]
        for problem in answer.problems:
            style = "red" if problem.certain else "yellow"
            place = problem.step_id or "plan"
            lines.append([(f"  {place}: {problem.code}: ", style), (one_line(problem.message), "")])
    if answer.risks:
        lines += [[("", "")], [("risks", "bold")]]
        lines += [[(f"  {risk.step_id}: ", "yellow"), (one_line(risk.message), "")] for risk in answer.risks]
    lines += [[("", "")], [("steps", "bold")]]
    lines += [step_line(step) for step in answer.steps]
    return lines


def summary(answer: Simulation) -> list[tuple[str, str]]:
    expected, worst = int(answer.expected_exact), int(answer.worst_exact)
    budget = "" if answer.budget_cents is None else f"{answer.budget_cents} cents"
    if answer.budget_stops_at is not None:
        budget += f"{', ' if budget else ''}refuses step {answer.budget_stops_at}"
    elif answer.budget_may_stop_at is not None:
        budget += f"{', ' if budget else ''}may stop step {answer.budget_may_stop_at} if every retry is needed"
    usual = "not known before it ran once" if answer.usual_ms is None else duration(answer.usual_ms)
    return [
        ("cost", f"{dollars(expected)} reserved, {dollars(worst)} with every retry"),
        ("time", f"{usual}, at most {duration(answer.worst_ms)}"),
        ("budget", budget),
        ("asks", f"a person, at {', '.join(answer.asks_persons_at)}" if answer.asks_persons_at else ""),
    ]


def step_line(step: StepForecast) -> list[Segment]:
    if not step.reached:
        return [(f"  {step.step_id}  {step.skill}  not reached", "dim")]
    effects = f"  {', '.join(step.side_effects)}" if step.side_effects else ""
    figures = (
        f"  {dollars(int(step.expected_exact))}  up to {step.attempts_at_most} attempts in {duration(step.worst_ms)}"
    )
    return [(f"  {step.step_id}", "cyan"), (f"  {step.skill}  {step.risk_level}{effects}", ""), (figures, "dim")]


def duration(ms: int) -> str:
    """`850 ms`, `2.5 s`, `4 min 10 s`, `2 h 5 min`."""
    if ms < SECOND:
        return f"{ms} ms"
    if ms < MINUTE:
        return f"{ms / SECOND:.1f} s".replace(".0 s", " s")
    if ms < HOUR:
        return f"{ms // MINUTE} min {ms % MINUTE // SECOND} s"
    return f"{ms // HOUR} h {ms % HOUR // MINUTE} min"
