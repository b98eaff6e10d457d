"""What the reader believes about a log, from the files that he names: a policy, heads that he kept, authorities."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

    from reenact.verify.log.anchoring import Believed
    from reenact.verify.log.checkpoint import Checkpoint

PolicyOption = Annotated[
    Path | None,
    typer.Option(
        "--witness-policy",
        metavar="FILE",
        envvar="REENACT_WITNESS_POLICY",
        help="Whose cosignatures are enough (C2SP tlog-policy), instead of those that the store names.",
    ),
]
CheckpointOption = Annotated[
    list[Path] | None,
    typer.Option("--checkpoint", metavar="FILE", help="Checkpoints of the log that you kept; may be given again."),
]
AuthorityOption = Annotated[
    list[Path] | None,
    typer.Option("--tsa-ca", metavar="FILE", help="Certificates (PEM) of time-stamp authorities that you trust."),
]


def believed(policy: Path | None, checkpoints: list[Path] | None, authorities: list[Path] | None) -> Believed:
    from reenact.verify.log.anchoring import Believed
    from reenact.verify.log.policy import read_policy

    return Believed(
        None if policy is None else read_policy(content(policy)),
        tuple(kept for path in checkpoints or () for kept in kept_in(path)),
        tuple(certificate for path in authorities or () for certificate in certificates(path)),
    )


def content(path: Path) -> bytes:
    from reenact.errors import StoreUnavailable
    from reenact.values.bounds import read_file

    try:
        return read_file(path)
    except OSError as error:
        raise StoreUnavailable(f"{path}: {error.strerror or 'cannot be read'}") from None


def kept_in(path: Path) -> list[Checkpoint]:
    """The checkpoints of a file, as `log checkpoint` prints one and an anchor collects them."""
    from reenact.errors import DamagedRecord, UsageError
    from reenact.verify.log.checkpoint import read_checkpoints

    try:
        return read_checkpoints(content(path))
    except DamagedRecord as damage:
        raise UsageError(f"{path} is no checkpoint: {damage}; `reenact log checkpoint` prints one") from None


def certificates(path: Path) -> list[Certificate]:
    from cryptography.x509 import load_pem_x509_certificates

    from reenact.errors import UsageError

    try:
        return list(load_pem_x509_certificates(content(path)))
    except ValueError:
        raise UsageError(f"{path} holds no certificates in PEM") from None
