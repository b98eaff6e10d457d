"""`reenact demo`: the whole product in under a minute, on loopback, with every claim checked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reenact.cli.options import JsonOption

if TYPE_CHECKING:
    from reenact.cli.demo.acts import Claim, Story
    from reenact.cli.demo.workshop import Ran
    from reenact.cli.screens.printing import Segment


def demo(
    keep: Annotated[
        Path | None, typer.Option("--keep", metavar="DIR", help="Keep everything in this new or empty folder.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run a plan, kill it with kill -9, recover it, replay it, export it, verify it, tamper with it.

    Everything happens on this machine: a flaky service on loopback, no network, no key. Nothing is left behind
    unless --keep is given.

    Exit codes: 0 every claim held, 1 one did not, 2 a part is not installed, 3 the folder cannot be used.
    """
    check_parts()
    from reenact.cli.demo.acts import Story
    from reenact.cli.demo.workshop import Workshop
    from reenact.cli.screens.printing import print_json, print_lines
    from reenact.values.clock import SystemClock

    clock = SystemClock()
    began = clock.monotonic()
    with Workshop(keep) as shop:
        story = Story(shop, Silence() if as_json else Stage())
        story.tell()
    seconds = clock.monotonic() - began
    if as_json:
        print_json(document(story, seconds))
    else:
        print_lines(summary(story.claims, seconds, keep))
    raise typer.Exit(0 if all(claim.held for claim in story.claims) else 1)


def check_parts() -> None:
    """The demo makes real HTTP calls, and says so before it starts rather than in the middle."""
    from importlib.util import find_spec

    from reenact.errors import UsageError

    if find_spec("httpx2") is None:
        raise UsageError("the demo makes HTTP calls on loopback: pip install 'reenact[http]'")


class Stage:
    """Prints the demo on stdout while it happens."""

    def title(self, number: int, text: str) -> None:
        self._print([], [(f"{number}. {text}", "bold")])

    def command(self, shown: str) -> None:
        self._print([], [("   $ ", "cyan"), (shown, "cyan")])

    def ended(self, ran: Ran) -> None:
        ended = "killed by SIGKILL" if ran.code == -9 else f"exit code {ran.code}"
        self._print(*([(f"   {line}".rstrip(), "dim")] for line in ran.output.splitlines()), [(f"   ({ended})", "dim")])

    def remark(self, text: str) -> None:
        self._print([], [(f"   {text}", "")])

    def claim(self, claim: Claim) -> None:
        self._print(claim_line(claim))

    def _print(self, *lines: list[Segment]) -> None:
        from reenact.cli.screens.printing import print_lines

        print_lines(lines)


class Silence(Stage):
    """Prints nothing: for `--json`, whose document comes at the end."""

    def _print(self, *lines: list[Segment]) -> None:
        """Nothing."""


def claim_line(claim: Claim) -> list[Segment]:
    return [("   held    " if claim.held else "   FAILED  ", "green" if claim.held else "red"), (claim.text, "")]


def summary(claims: list[Claim], seconds: float, keep: Path | None) -> list[list[Segment]]:
    held = sum(claim.held for claim in claims)
    verdict = f"{held} of {len(claims)} claims held, in {seconds:.1f} s"
    lines: list[list[Segment]] = [[], [("Proven here, and not only said", "bold")]]
    lines += [claim_line(claim) for claim in claims]
    lines += [[], [(verdict, "bold green" if held == len(claims) else "bold red")]]
    if keep is not None:
        lines.append([(f"everything is kept in {keep}; look with: reenact show last --store {keep / 'demo.db'}", "")])
    return lines


def document(story: Story, seconds: float) -> dict[str, object]:
    return {
        "held": all(claim.held for claim in story.claims),
        "seconds": round(seconds, 3),
        "commands": [{"command": ran.shown, "exit_code": ran.code} for ran in story.commands],
        "claims": [{"claim": claim.text, "held": claim.held} for claim in story.claims],
    }
