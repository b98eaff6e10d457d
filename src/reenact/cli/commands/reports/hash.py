"""`reenact hash`: the hash by which a replay block names an input."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from reenact.cli.screens.printing import say

if TYPE_CHECKING:
    from reenact.errors import HashingError


class Hashed(msgspec.Struct, frozen=True):
    """Both hashes of a file; `structured` is null where it has none, and then `problem` says why."""

    file: str
    structured: str | None
    raw: str
    warnings: list[str]
    problem: str | None


def hash(  # noqa: A001  # the command's name
    files: Annotated[list[str], typer.Argument(metavar="FILE…", help="Files to hash; - reads standard input.")],
    raw: Annotated[bool, typer.Option("--raw", help="Hash the bytes, not the value that YAML or JSON holds.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document, with both hashes.")] = False,
) -> None:
    """Print the hash of an input: of the value that a YAML or JSON file holds, or with --raw of its bytes.

    Comments, layout and the order of keys do not change the hash of a value.
    """
    from reenact.cli.screens.printing import one_line, print_json

    results = [_hashed(name, _read(name), needs_value=not raw and not as_json) for name in files]
    if as_json:
        print_json(results)
        if not raw and any(result.structured is None for result in results):
            raise typer.Exit(2)
        return
    for result in results:
        digest = result.raw if raw else result.structured
        name = one_line(result.file)
        say(str(digest) if len(results) == 1 else f"{digest}  {name}")
        for warning in [] if raw else result.warnings:
            say(f"warning: {name}: {warning}", err=True)


def _hashed(name: str, data: bytes, *, needs_value: bool) -> Hashed:
    from reenact.errors import HashingError
    from reenact.provenance.hashing import hash_raw, hash_structured_with_warnings

    try:
        structured, warnings = hash_structured_with_warnings(data)
    except HashingError as error:
        if needs_value:
            raise _named(name, error) from None
        return Hashed(name, None, hash_raw(data), [], str(error))
    return Hashed(name, structured, hash_raw(data), warnings, None)


def _named(name: str, error: HashingError) -> HashingError:
    from reenact.cli.screens.printing import one_line

    return type(error)(f"{one_line(name)}: {error}; use --raw for the hash of its bytes")


def _read(name: str) -> bytes:
    """The file, of which no more than an input may have is read."""
    from reenact.cli.screens.printing import one_line
    from reenact.errors import StoreUnavailable
    from reenact.provenance.safe_paths import MAX_INPUT_BYTES

    try:
        if name == "-":
            data = sys.stdin.buffer.read(MAX_INPUT_BYTES + 1)
        else:
            with Path(name).open("rb") as file:
                data = file.read(MAX_INPUT_BYTES + 1)
    except OSError as error:
        raise StoreUnavailable(f"{one_line(name)}: cannot be read: {error.strerror}") from None
    if len(data) > MAX_INPUT_BYTES:
        raise StoreUnavailable(f"{one_line(name)}: larger than {MAX_INPUT_BYTES} bytes")
    return data
