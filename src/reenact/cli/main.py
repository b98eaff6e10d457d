"""The `reenact` command: a table of commands, each loaded only when it is called."""

from __future__ import annotations

import importlib
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from reenact.cli.exits import INTERRUPTED, NOBODY_READS, UNUSABLE, USAGE
from reenact.cli.screens.printing import one_line, print_json, say
from reenact.errors import ReenactError

# name → (module beneath reenact.cli, one line for --help). The module holds a function named like the command, `-`
# written as `_`; two commands may share a module. It may hold COMMAND_SETTINGS, which are passed to typer's `command`.
COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("commands.runs.run", "Run a plan."),
    "plan": ("commands.plans.plan", "Make a plan for a goal."),
    "simulate": ("commands.plans.simulate", "Say what a plan would cost, take, touch and miss, before it runs."),
    "pin": ("commands.plans.pin", "Write everything into a plan that its behaviour depends on."),
    "resume": ("commands.runs.resume", "Go on with one run that stopped."),
    "recover": ("commands.runs.recover", "Go on with every run that stopped."),
    "ls": ("commands.runs.ls", "List runs."),
    "show": ("commands.runs.show", "Show a run as a timeline."),
    "replay": ("commands.runs.replay", "Run a recording again and compare, aspect by aspect."),
    "play": ("commands.runs.play", "Show a session event by event, from its replay log."),
    "fork": ("commands.runs.fork", "Replay a run up to a step and go on with one thing changed."),
    "shadow": ("commands.runs.shadow", "Let a candidate decide beside a recorded run; nothing is executed."),
    "diff": ("commands.runs.diff", "Show two runs side by side."),
    "metrics": ("commands.evidence.metrics", "Print what the store's runs add up to, or serve it to a scraper."),
    "approve": ("commands.people.votes", "Say yes to a call that waits for a person."),
    "deny": ("commands.people.votes", "Say no to a call that waits for a person."),
    "resolve": ("commands.people.resolve", "Decide a call that is in doubt."),
    "break-lease": ("commands.people.break_lease", "Take a run from a holder that does not let go of it."),
    "cancel": ("commands.people.cancel", "End a run that shall not go on."),
    "erase": ("commands.evidence.erase", "Take values out of a store; the chain stays whole."),
    "archive": ("commands.evidence.archive", "Move the values of old runs to bundles, and back."),
    "repair": ("commands.evidence.repair", "Tell a torn file of lines from a damaged one, and mend it."),
    "keys": (
        "commands.evidence.keys",
        "Show, make, rotate and replace the keys that sign for a store; trust another's.",
    ),
    "db": ("commands.evidence.db", "Move a whole store to another place."),
    "doctor": ("commands.evidence.doctor", "Look at the store and say what to do."),
    "export": ("commands.evidence.export", "Write a run's evidence to a folder."),
    "verify": ("commands.evidence.verify", "Check a run or an exported folder."),
    "log": ("commands.log.log", "The store's transparency log: its signed head, proofs, and who outside has seen it."),
    "witness": ("commands.log.witness", "Be a witness of other stores' logs."),
    "verify-replay": (
        "commands.reports.verify_replay",
        "Check the inputs of published reports against their replay blocks.",
    ),
    "eval": ("commands.reports.eval", "Evaluate models sample by sample, and publish a report that can be checked."),
    "hash": ("commands.reports.hash", "Print the hash by which a replay block names an input."),
    "backfill": ("commands.reports.backfill", "Write sidecars for reports that were published without one."),
    "rerun": ("commands.reports.rerun", "Run a report's recorded command again, at its commit."),
    "skills": ("commands.plans.skills", "List the skills that plans may use."),
    "skill": ("commands.plans.skills", "Show what one skill declares."),
    "policy": ("commands.plans.policy", "Show what plans may do here at most, and who said so."),
    "lint": ("commands.plans.lint", "Find code that decides on what may differ between two runs."),
    "demo": ("demo.command", "Run, kill, recover, replay, export, verify, tamper."),
}

EPILOG = (
    "Exit codes: 0 done or holds, 1 failed or broken, 2 usage, 3 store unusable, 4 waiting or open, 130 interrupted, "
    "141 whoever read the output closed it."
)


asked: list[str] = []
"""The words of the command that is run in this process."""


@contextmanager
def while_somebody_reads() -> Iterator[None]:
    """`reenact ls | head -1` is no failure: where the reader has gone, nothing more is said, and the exit code tells.

    SIGPIPE itself stays ignored: it would kill a run for any connection that a server closes.
    """
    try:
        yield
    except BrokenPipeError:
        for stream in (sys.stdout, sys.stderr):  # what is still buffered would be an error again when Python ends
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        sys.exit(NOBODY_READS)


@contextmanager
def in_one_line() -> Iterator[None]:
    """A mistake in the command itself is told like any other, and so is an interrupt."""
    try:
        yield
    except KeyboardInterrupt:
        interrupted()
    except Exception as error:
        told = getattr(error, "format_message", None)  # what marks the framework's own errors in all of its versions
        if told is None or type(error).__name__ == "NoArgsIsHelpError":  # that one shows the help
            raise
        context = getattr(error, "ctx", None)
        where = "reenact" if context is None else context.command_path
        end_with(f"{one_line(told().rstrip('.'))}; see `{where} --help`", "USAGE", getattr(error, "exit_code", USAGE))


def end_with(message: str, code: str, exit_code: int) -> NoReturn:
    """Say what is wrong in one line with its stable code; whoever asked for JSON gets that as a document too."""
    if "--json" in asked and code != "IO_ERROR":  # stdout itself may be what cannot be written
        print_json({"error": {"code": code, "message": message, "exit_code": exit_code}})
    say(f"error: {message} [{code}]", err=True)
    sys.exit(exit_code)


def interrupted() -> NoReturn:
    say("interrupted", err=True)
    sys.exit(INTERRUPTED)


class LazyGroup(TyperGroup):
    """Lists commands from the table, and imports a command's module only to run it."""

    def list_commands(self, _ctx: Any, /) -> list[str]:
        return list(COMMANDS)

    def get_command(self, _ctx: Any, cmd_name: str, /) -> Any:
        if cmd_name in self.commands:
            return self.commands[cmd_name]
        known = COMMANDS.get(cmd_name)
        return None if known is None else TyperCommand(name=cmd_name, help=known[1])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = args[0] if args else ""
        if name in COMMANDS and name not in self.commands:
            self.commands[name] = load_command(name)
        return super().resolve_command(ctx, args)

    # The framework would call a closed pipe a failure with exit code 1, tell of a wrong option in three lines, and say
    # nothing of an interrupt.

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        with while_somebody_reads(), in_one_line():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        with while_somebody_reads(), in_one_line():
            return super().invoke(ctx)


def load_command(name: str) -> Any:
    module = importlib.import_module(f"reenact.cli.{COMMANDS[name][0]}")
    single = typer.Typer(add_completion=False, rich_markup_mode=None)
    settings = getattr(module, "COMMAND_SETTINGS", {})
    single.command(name, **settings)(getattr(module, name.replace("-", "_")))
    return typer.main.get_command(single)


app = typer.Typer(
    cls=LazyGroup,
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Crash-safe tool calls for AI agents: recorded, replayable, provable.",
    epilog=EPILOG,
)


def print_version(wanted: bool) -> None:
    if wanted:
        from reenact import __version__

        say(f"reenact {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: bool = typer.Option(
        False, "--version", callback=print_version, is_eager=True, help="Print the version."
    ),  # the callback acts
) -> None:
    """Crash-safe tool calls for AI agents: recorded, replayable, provable."""


def main(argv: list[str] | None = None) -> None:
    """Entry point: a user's mistake ends as one line on stderr and a documented exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # what its encoding cannot say is spelled out, as on stderr
        sys.stdout.reconfigure(errors="backslashreplace")
    asked[:] = sys.argv[1:] if argv is None else argv
    with while_somebody_reads():
        run_command(argv)


def run_command(argv: list[str] | None) -> None:
    try:
        try:
            app(argv)
        finally:
            sys.stdout.flush()
    except ReenactError as error:
        end_with(one_line(str(error)), error.code, error.exit_code)
    except KeyboardInterrupt:
        interrupted()
    except BrokenPipeError:
        raise
    except OSError as error:  # a full disk behind stdout, a folder that may not be entered
        about = f"{error.filename}: " if error.filename else ""
        end_with(one_line(f"{about}{error.strerror or error}"), "IO_ERROR", UNUSABLE)
