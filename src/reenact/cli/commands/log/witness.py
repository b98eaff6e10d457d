"""`reenact witness`: a small witness of one's own, for logs on other machines."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reenact.cli.options import JsonOption
from reenact.cli.screens.printing import say

if TYPE_CHECKING:
    from reenact.errors import StoreUnavailable
    from reenact.verify.signed.signed_note import VerifierKey


class Action(StrEnum):
    """What to do."""

    SERVE = "serve"
    SHOW = "show"


def witness(
    action: Annotated[Action, typer.Argument(help="What to do.")],
    state: Annotated[Path, typer.Argument(metavar="FILE", help="What it remembers; its key lies beside it.")],
    name: Annotated[
        str | None, typer.Option("--name", help="Of a new witness, such as example.org/witness; it keeps it.")
    ] = None,
    log: Annotated[
        list[str] | None, typer.Option("--log", metavar="VKEY", help="The key of a log to witness; may be given again.")
    ] = None,
    logs: Annotated[
        Path | None, typer.Option("--logs", metavar="FILE", help="More of them: the `log` lines of a policy.")
    ] = None,
    listen: Annotated[
        str, typer.Option("--listen", metavar="HOST:PORT", help="Where to listen; port 0 takes a free one.")
    ] = "127.0.0.1:8733",
    as_json: JsonOption = False,
) -> None:
    """Put a name to the heads of logs that one knows, where each goes on from the one before, and to nothing else.

    `serve` answers C2SP tlog-witness (add-checkpoint, and GET of the last checkpoint) until interrupted; `show` prints
    its verifier key and what it has seen. Behind a proxy that speaks TLS it may stand in the open: requests are small
    and bounded.

    Exit codes: 0 done, 1 what it remembers cannot be read, 2 not possible, 3 its file or address cannot be used, 130
    interrupted.
    """
    from reenact.errors import UsageError
    from reenact.store.open import open_witnessed
    from reenact.store.signing import create_key
    from reenact.values.clock import SystemClock
    from reenact.verify.signed.signed_note import is_key_name
    from reenact.witness.cosigner import Cosigner

    key_file = Path(f"{state}.key")
    if key_file.exists() and not state.exists():
        raise half_gone(key_file, state, "which remembers what it signed", "one that forgot would sign another past")
    if name is not None and not is_key_name(name):
        raise UsageError(f"{name!r} is no name: it has no spaces and no +, such as example.org/witness")
    known = known_logs(log or [], logs)
    remembered = open_witnessed(state, name=name)
    if name is not None and remembered.name != name:
        raise UsageError(f"this witness is {remembered.name}, and keeps its name; leave --name out")
    if remembered.logs() and not key_file.exists():
        raise half_gone(state, key_file, "which signs for it", "whoever asks this witness knows it by that key")
    key = create_key(lambda _: key_file)
    cosigner = Cosigner(remembered, key, known, SystemClock())
    if action is Action.SHOW:
        show(str(cosigner.vkey), remembered.logs(), as_json=as_json)
    else:
        serve(cosigner, listen, len(known))


def half_gone(here: Path, gone: Path, what: str, why: str) -> StoreUnavailable:
    from reenact.errors import StoreUnavailable

    return StoreUnavailable(
        f"{here} is there, and not {gone}, {what}: restore it from a backup, since {why}; a new witness is a new file"
    )


def known_logs(given: list[str], file: Path | None) -> list[VerifierKey]:
    from reenact.cli.commands.log.believing import content
    from reenact.errors import UsageError
    from reenact.verify.log.policy import read_policy
    from reenact.verify.signed.signed_note import ED25519, read_vkey

    found = [read_vkey(text) for text in given]
    for key in found:
        if key.kind != ED25519:
            raise UsageError("a log's key is one for signed notes, of kind 1")
    if file is not None:
        found += read_policy(content(file)).logs
    return found


def show(vkey: str, logs: list[tuple[str, int]], *, as_json: bool) -> None:
    from reenact.cli.screens.printing import one_line, print_json

    if as_json:
        print_json({"key": vkey, "logs": [{"origin": origin, "size": size} for origin, size in logs]})
        return
    say(vkey)
    for origin, size in logs:
        say(f"{one_line(origin)}  size {size}")


def serve(cosigner: object, listen: str, known: int) -> None:
    from reenact.cli.screens.printing import plural
    from reenact.errors import UsageError
    from reenact.witness.cosigner import Cosigner
    from reenact.witness.server import WitnessServer, read_address

    assert isinstance(cosigner, Cosigner)
    if not known:
        raise UsageError("name the key of a log with --log: a witness that knows none has nothing to say")
    host, port = read_address(listen)
    try:
        server = WitnessServer((host, port), cosigner)
    except OSError as error:
        raise UsageError(f"{listen} cannot be listened on: {error.strerror}") from None
    with server:
        shown = f"[{host}]" if ":" in host else host
        say(f"{cosigner.vkey.name} witnesses {plural(known, 'log')} at http://{shown}:{server.server_port}", err=True)
        say(str(cosigner.vkey))
        server.serve_forever()
