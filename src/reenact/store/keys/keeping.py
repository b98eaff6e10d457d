"""The keys that sign for a store, as people look after them: which there are, a new one, one for one that is lost."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from reenact.errors import ReenactError, UsageError
from reenact.store.base import Store
from reenact.store.checks.verification import verify_evidence
from reenact.store.erasures import for_good
from reenact.store.keys.history import KeyHistory, Replacement, Rotation
from reenact.store.private_file import DRAFT
from reenact.store.signing import SigningKey, create_key, read_key
from reenact.verify.signed.trust import verifier_key


@dataclass(frozen=True, slots=True)
class KeyLine:
    """One key of a store."""

    kid: str
    public_key: str
    state: str
    """`signs` new runs, `older` since a rotation, `replaced` since it was lost, or `unknown`: nobody vouched for it"""
    since: str | None
    where: str | None
    """None where it is not here."""
    open_runs: list[str]
    """Those that need it to go on."""

    @property
    def is_needed(self) -> bool:
        return self.state == "signs" or bool(self.open_runs)

    def document(self) -> dict[str, object]:
        return asdict(self)


def list_keys(store: Store) -> list[KeyLine]:
    """In the order in which they came to sign."""
    keeper = store.key_table
    history, here = keeper.history(), keeper.here.all()
    needing = keeper.needing(history)
    known = {**history.keys, **{kid: key for kid, key in keeper.on_record().items() if kid not in history.keys}}
    return [
        KeyLine(
            kid=kid,
            public_key=key,
            state=state_of(history, kid),
            since=history.since.get(kid),
            where=here[kid][1] if kid in here else None,
            open_runs=[run.run_id for run in needing if run.kid == kid],
        )
        for kid, key in known.items()
    ]


def state_of(history: KeyHistory, kid: str) -> str:
    if history.replaced_by(kid) is not None:
        return "replaced"
    if kid == history.current:
        return "signs"
    return "older" if kid in history.keys or history.beginning is None else "unknown"


def public_keys(store: Store) -> dict[str, str]:
    """Those that somebody vouched for, to be handed to whoever verifies."""
    return dict(store.key_table.history().keys)


SIGNS = "capabilities, seals, run checkpoints, votes, erasures, changes of keys, the log"
USED_FOR = {
    "signs": f"signs new runs: {SIGNS}",
    "older": "signs the runs that began with it, until they are sealed; what it signed stays valid",
    "replaced": "was lost and replaced; what it signed stays valid",
    "unknown": "nothing: nobody vouched for it",
}


def shown_keys(store: Store) -> list[dict[str, str]]:
    """Each as others need it: what it is called, its public half, and what it is used for."""
    return [
        {
            "key": line.kid,
            "public_key": line.public_key,
            "verifier_key": str(verifier_key(store.store_id, line.public_key)),
            "used_for": USED_FOR[line.state],
            "where": line.where or "NOT HERE",
        }
        for line in list_keys(store)
    ]


def shown_file(file: Path) -> dict[str, str]:
    """The same of a file that need not sign for any store yet; its verifier key has a store's id in it."""
    try:
        key = read_key(file, follow=True)
    except FileNotFoundError:
        raise UsageError(f"{file} is not there; `reenact keys new {file}` makes a key") from None
    return {"key": key.kid, "public_key": key.public_key, "where": str(file)}


def make_key(file: Path) -> SigningKey:
    """A new key in a new file, its owner's alone."""
    if file.exists() or file.is_symlink() or DRAFT in file.name:
        raise UsageError(f"{file} is there already; nothing is overwritten")
    return create_key(lambda _: file)


def rotate_key(store: Store, *, who: str) -> Rotation:
    """The new one signs from here on, and the old one signs that."""
    for_good(who)
    return store.key_table.rotate(who)


def replace_key(store: Store, *, who: str, reason: str) -> tuple[list[Replacement], dict[str, str]]:
    """What was put in the place of each lost key; and, by run, why it may not go on."""
    said = for_good(who, reason)
    left: dict[str, str] = {}

    def is_sound(run_id: str) -> bool:
        try:
            with store.evidence() as evidence:
                verified = verify_evidence(evidence, run_id)
        except ReenactError as error:
            left[run_id] = str(error)
            return False
        if verified.exit_code == 1:
            left[run_id] = f"it does not verify; see `reenact verify {run_id}`"
        return verified.exit_code != 1

    return store.key_table.replace(who, said, is_sound), left
