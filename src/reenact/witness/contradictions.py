"""A head of the log that somebody else holds, and that is none of this log: kept as evidence, and told with both."""

from __future__ import annotations

from reenact.errors import DamagedRecord, ReenactError
from reenact.runtime.crash_points import reach
from reenact.store.log.log import Log
from reenact.verify.log.checkpoint import read_checkpoint
from reenact.verify.signed.signed_note import signed_by


class Failed(ReenactError):
    """One of those that were asked did not do it; it is asked again later."""

    code = "WITNESS_FAILED"


class Contradicts(Failed):
    """It holds a head that is none of this log, and shows it, or says so."""

    code = "LOG_CONTRADICTED"


def refuse_other_head(log: Log, holder: str, note: bytes) -> None:
    """Contradicts, with both heads and on record, where this one was signed by a key of ours and is not of our log."""
    try:
        checkpoint = read_checkpoint(note)
    except DamagedRecord:
        return
    head = checkpoint.head
    if head.origin != log.origin or not any(signed_by(checkpoint.note, key) for key in log.vkeys()):
        return
    newest = log.rows.newest()
    if newest is None or head.size > newest.size:
        says = f"this log has {'none' if newest is None else f'size {newest.size}'}"
    elif head.size <= log.rows.size() and (root := log.root_at(head.size)) != head.root:
        says = f"here the root of that size is {root.hex()}"
    else:
        return
    reach("before_contradiction")
    log.rows.add_contradiction(holder, note)
    raise Contradicts(f"it holds a head that the log's key signed and that is none of this log: {head}; {says}")
