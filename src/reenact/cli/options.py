"""Options, arguments and inputs that several commands share: the store, the skills, a run, JSON."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reenact.cli.stdout import skill_output_to_stderr

if TYPE_CHECKING:
    from collections.abc import Callable

    from reenact.replay.runtime import Runtime
    from reenact.runtime.host_policy import HostPolicy
    from reenact.runtime.listeners import Listener
    from reenact.skills.registry import Registry
    from reenact.store.base import Store
    from reenact.store.evidence import Evidence

StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        help="sqlite:///PATH or a path. Default: REENACT_STORE, else a file in your data directory.",
    ),
]
SkillsOption = Annotated[
    list[str] | None,
    typer.Option("--skills", metavar="FILE|MODULE", help="Skills besides the built-in ones; may be given again."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
ToolRegistryOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--tool-registry",
        metavar="FILE",
        help="A server's registry of tools by class, which becomes part of the plan; may be given again.",
    ),
]
UnrecordedReadsOption = Annotated[
    bool,
    typer.Option(
        "--unrecorded-reads",
        help="Let steps that only read go on while the journal cannot be written, and say so. All others stop the run.",
    ),
]
HostPolicyOption = Annotated[
    Path | None,
    typer.Option(
        "--host-policy", metavar="FILE", help="The host's policy. Default: REENACT_POLICY, else what `policy` shows."
    ),
]
TrustOption = Annotated[
    bool,
    typer.Option(
        "--trust-plan",
        help="Load the function that the plan names as its supervisor, and run live what came in a folder.",
    ),
]
GraceOption = Annotated[
    float,
    typer.Option(
        "--grace", metavar="SECONDS", min=0, help="On SIGTERM, what calls in flight have to end. A second one kills."
    ),
]
ReplayLogOption = Annotated[
    Path | None,
    typer.Option(
        "--replay-log",
        metavar="FILE|DIR",
        help="Write the replay log as it goes: to FILE.jsonl, or to DIR/RUN_ID.jsonl. After a crash it goes on there.",
    ),
]
RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="A run's id or its beginning, a session's id, or `last`.")
]
TargetArgument = Annotated[
    str,
    typer.Argument(
        metavar="RUN|DIR|ZIP", help="A run (id, beginning of one, `last`), an exported folder, or the zip of one."
    ),
]
ReasonOption = Annotated[str, typer.Option("--reason", help="Why; it is recorded.")]
WhoOption = Annotated[str | None, typer.Option("--who", help="Who says so; the login name by default.")]


def open_runtime(
    url: str | None,
    skills: list[str] | None,
    listeners: tuple[Listener, ...] = (),
    *,
    unrecorded_reads: bool = False,
    tool_registries: list[Path] | None = None,
    policy: HostPolicy | None = None,
    replay_log: Path | None = None,
) -> Runtime:
    """A runtime on a store that is made if there is none. Skills are loaded first: a mistake in them makes no store."""
    from reenact.replay.runtime import Runtime

    registry = load_registry(skills)
    everybody = (*listeners, *log_listener())
    return Runtime(
        url,
        skills=registry,
        listeners=everybody,
        unrecorded_reads=unrecorded_reads,
        tool_registries=tool_registries or (),
        policy=policy,
        replay_log=replay_log,
    )


def host_policy(file: Path | None, *, trust_plan: bool = False) -> HostPolicy:
    """The policy in force for a command."""
    from dataclasses import replace

    from reenact.runtime.host_policy import find_policy

    return replace(find_policy(file), by_command=True, trusts_plans=trust_plan)


def log_listener() -> tuple[Listener, ...]:
    """REENACT_LOG names a file that gets one JSON object per notice; none is written without it."""
    path = os.environ.get("REENACT_LOG")
    if not path:
        return ()
    from reenact.errors import UsageError
    from reenact.runtime.structured_log import StructuredLog

    try:
        # A new one is its owner's alone: it tells what was called, when, and how it went.
        log = open(path, "ab", opener=lambda name, flags: os.open(name, flags, 0o600))  # noqa: SIM115
        return (StructuredLog(log),)
    except OSError as error:
        raise UsageError(f"REENACT_LOG={path}: {error.strerror}") from None


def load_registry(skills: list[str] | None) -> Registry:
    from reenact.skills.load import load_skills
    from reenact.skills.registry import default_registry

    with skill_output_to_stderr():
        registry = default_registry()
        for spec in skills or ():
            load_skills(spec, registry)
    return registry


def require_reason(reason: str) -> None:
    """What a person does to a run is recorded with who and why."""
    from reenact.errors import UsageError

    if not reason:
        raise UsageError("say why, with --reason: it is recorded beside your name")


def read_object(path: Path, what: str) -> dict[str, Any]:
    """The JSON object in a file; `what` is the sentence that says in an error what belongs there."""
    from reenact.errors import StoreUnavailable, UsageError
    from reenact.values.bounds import read_file
    from reenact.values.canonical import parse_json

    try:
        document = parse_json(read_file(path), what=str(path))
    except OSError as error:
        raise StoreUnavailable(f"{path}: {error.strerror or 'cannot be read'}; {what}") from None
    if not isinstance(document, dict):
        raise UsageError(f"{path}: {what}")
    return document


def write_text(path: Path | None, make: Callable[[], str], mode: str = "w") -> None:
    """A report, where one was asked for."""
    from reenact.errors import StoreUnavailable

    if path is None:
        return
    try:
        with path.open(mode, encoding="utf-8", newline="\n") as file:
            file.write(make())
    except OSError as error:
        raise StoreUnavailable(f"{path}: cannot be written: {error.strerror}") from None


def existing_store(url: str | None, *, to_write: bool = False) -> Store:
    """The store to read from, also where nothing can be written; asking for what was recorded never makes a store."""
    from reenact.store.open import open_store

    refuse_missing(url)
    return open_store(url, to_read=not to_write)


def existing_evidence(url: str | None, *, folder: str | None = None) -> Evidence:
    """What lies in a store that is there, to be verified or exported. `folder` may have been meant as a path."""
    from reenact.store.open import open_evidence

    refuse_missing(url, folder)
    return open_evidence(url)


def refuse_missing(url: str | None, folder: str | None = None) -> None:
    from reenact.errors import StoreUnavailable
    from reenact.store.open import missing

    place = missing(url)
    if place is not None and folder is not None:
        raise StoreUnavailable(
            f"{folder}: no such folder or zip here, and no store at {place} to look for such a run in"
        )
    if place is not None:
        raise StoreUnavailable(f"there is no store at {place}; `reenact run` makes one, --store names another")
