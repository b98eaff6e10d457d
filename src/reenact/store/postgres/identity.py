"""Which store a URL names, and the keys that sign and vouch for it here."""

from __future__ import annotations

import threading
from collections.abc import Callable
from hashlib import sha256

from reenact.errors import RunNotFound, StoreUnavailable
from reenact.skills.services import StoreFiles
from reenact.store.base import LEASE_MS, KeyKeeper, Lease
from reenact.store.beside.idempotency import IdempotencyKeys, is_linked
from reenact.store.compression import Codec, RecentContents
from reenact.store.deltas import put_together
from reenact.store.encryption import SUFFIX, KeyFile
from reenact.store.keys.heads import MARKER, Marker
from reenact.store.keys.here import KeysHere
from reenact.store.location import OwnFiles
from reenact.store.postgres.opened.database import Asks
from reenact.store.postgres.opened.keys import keys_beside
from reenact.store.postgres.opened.schema import ENCRYPTED_WITH, open_schema, refuse_unfinished
from reenact.store.postgres.opened.shared import database_at, leave
from reenact.store.postgres.signed import key_records, key_rows, notes
from reenact.store.signing import SigningKey, check_head
from reenact.values.clock import Clock, SystemClock, format_ts

MOST_NUMBERS = 10_000


class Identity:
    """One store, opened: its connections, its id, its secret, its keys."""

    in_memory = False
    leftovers: str | None = (
        "the free space of the table's pages may hold the bytes until others are written there, the server's "
        "write-ahead log, its replicas and its backups until they are recycled or destroyed: that is for whoever runs "
        "them"
    )

    def __init__(self, url: str, *, clock: Clock | None = None, to_read: bool = False) -> None:
        self.clock: Clock = clock or SystemClock()
        self._to_read = to_read
        self.database = database_at(url)
        self.url = self.database.place.shown
        try:
            said = open_schema(self.database, self.clock, to_read=to_read)
            refuse_unfinished(said, self.url)
            self.store_id = said["store_id"]
            self.origins = key_records.origins_in(said)
            self.key_secret = self._secret()
            beside = keys_beside(self.store_id)
        except BaseException:
            self._leave()
            raise
        here = KeysHere(beside)
        self.idempotency = IdempotencyKeys(self.store_id, lambda: self.signing_key, self.key_of)
        self.key_table: KeyKeeper = key_records.key_table(self.database, self.store_id, here, self.clock, self.origins)
        encryption = beside.with_name(beside.name + SUFFIX)
        self.encryption_file: KeyFile | None = KeyFile(encryption, note=self._note_encryption)
        self.files: StoreFiles = OwnFiles(beside, here.elsewhere)
        self._key: SigningKey | None = None
        self._authenticated: set[str] = set()
        """Runs of which no commit is read whose head is not what a key of ours vouched for."""
        self._numbers: dict[str, int] = {}
        self._told: tuple[int, float] | None = None
        """What the server's clock said, and our own that never goes back then."""
        self._unpacking = threading.Lock()
        self._codec = Codec()
        self._recent_of = 0

    def _leave(self) -> None:
        leave(self.database)

    def _secret(self) -> bytes:
        """Empty for who may not read it: then nothing is made with it here."""
        ((may,),) = self.database.ask("SELECT has_table_privilege(':schema.key_secret', 'SELECT')")
        rows = self.database.ask("SELECT secret FROM :schema.key_secret") if may else []
        return rows[0][0] if rows else b""

    def _refuse_without_secret(self) -> None:
        """Another role than a worker's: to it the secret is not gone, it is none of its business."""
        if not self.key_secret:
            ((may,),) = self.database.ask("SELECT has_table_privilege(':schema.key_secret', 'SELECT')")
            if not may:
                raise StoreUnavailable(f"{self.url}: this role may read what is on record, and write nothing")

    # -- keys ------------------------------------------------------------------------------------------------------

    @property
    def signing_key(self) -> SigningKey:
        """The key that signs for new runs; KeyUnavailable where it is not here."""
        if self._key is None:
            key = self.key_table.own_key()
            if not self._to_read:
                self._refuse_without_secret()
                rows = key_rows.KeyRows(self.database)
                if not is_linked(rows):
                    self.database.transact(lambda db: self._begin_vouching(db, key))
                if self.idempotency.check_secret(rows, self.key_secret):
                    self.database.transact(lambda db: self._bind(db, key))
            self._key = key
        return self._key

    def _begin_vouching(self, db: Asks, key: SigningKey, *, anew: bool = False) -> None:
        """From the first run on every commit is vouched for, and so is every idempotency key."""
        db.ask(key_rows.LOCK)
        rows = key_rows.KeyRows(db)
        there = "SELECT 1 FROM :schema.notes WHERE schema = %s AND store_id = %s LIMIT 1"
        if anew or not db.ask(there, (MARKER, self.store_id)):
            IdempotencyKeys(self.store_id, lambda: key, self.key_of).link_all(rows, key)
            marker = Marker(
                keys_linked=True, last_run=self.origins.last_run, runs=[], ts=self.clock.timestamp(), votes=0
            )
            notes.write(db, marker.signed(key, self.store_id))

    def _bind(self, db: Asks, key: SigningKey) -> None:
        """Of a store that lay in a file before: what was spent has no rows here."""
        db.ask(key_rows.LOCK)
        IdempotencyKeys(self.store_id, lambda: key, self.key_of).bind(key_rows.KeyRows(db))

    def vouch(self) -> int:
        """A person says that what is there is right: idempotency keys, what they are made with and the ids of sessions
        are taken as they are found. How many commits nobody vouches for: none was ever written so."""
        key = self.key_table.own_key()
        self.database.transact(lambda db: self._begin_vouching(db, key, anew=True))
        self.key_secret = self._secret()
        return 0

    def key_of(self, kid: str) -> SigningKey | None:
        """The key of this kid, where this process has it."""
        here = self.key_table.here
        return here.usable(kid) if self._to_read else here.get(kid)

    def key_for(self, run_id: str, kid: str) -> SigningKey:
        """The key that a run which began with `kid` goes on with; KeyUnavailable where it is not here."""
        self.refuse_copied(run_id)
        return self.key_table.key_for(run_id, self._run_no(run_id), kid)

    def _note_encryption(self, name: str) -> None:
        """Something is about to be encrypted with the key of this name: should it get lost, the doctor knows."""
        sql = "INSERT INTO :schema.store VALUES (%s, '') ON CONFLICT DO NOTHING"
        self.database.transact(lambda db: db.ask(sql, (ENCRYPTED_WITH + name,)))

    # -- what they vouch for ---------------------------------------------------------------------------------------

    def authenticate(self, run_id: str) -> None:
        """From here on no commit of this run is given whose head is not what a key of ours vouched for."""
        self._authenticated.add(run_id)

    def check_head(self, run_id: str, n: int, head: str, cell: object) -> str:
        """The kid of the key that vouched for the head, or took over from it; NotAuthentic, or KeyUnavailable."""
        kid = cell[:8].hex() if isinstance(cell, bytes) else None
        if kid is not None and self.key_of(kid) is None:
            successor = self.key_table.history().taken_over(run_id, kid, n, head)
            if successor is not None:
                return successor
        return check_head(self.key_of, self.store_of(run_id), run_id, n, head, cell)

    def store_of(self, run_id: str) -> str:
        """The id of the store in which a run began."""
        origin = self.origins.of(self._run_no(run_id)) if self.origins.stores else None
        return self.store_id if origin is None else origin.store_id

    def refuse_copied(self, run_id: str) -> None:
        """KeyUnavailable for a run that began in a store which this one is a copy of."""
        if self.origins.stores:
            self.origins.refuse(run_id, self._run_no(run_id))

    def check_recorded(self, run_id: str) -> None:
        """NotAuthentic for a run that ended, where a key of ours vouched for something else, or should have."""
        sql = "SELECT n, body, mac FROM :schema.commits WHERE run_no = %s ORDER BY n"
        for n, packed, mac in self.database.ask(sql, (self._run_no(run_id),)):
            if isinstance(mac, bytes) and self.key_of(mac[:8].hex()) is None:
                continue  # `verify` tells of it
            self.check_head(run_id, n, sha256(self.unpack(packed)).hexdigest(), mac)

    # -- the server's clock ----------------------------------------------------------------------------------------

    def hear_clock(self, lease: Lease) -> None:
        """A lease was given just now: its end tells the server's time."""
        if lease.expires_ms > LEASE_MS:
            self._told = (lease.expires_ms - LEASE_MS, lease.until - LEASE_MS / 1000)

    def today(self, _clock: Clock, /) -> str:
        """By the server's clock, as it was told with the last lease."""
        if self._told is None:
            before = self.clock.monotonic()
            ((now,),) = self.database.ask("SELECT :schema.now_ms()")
            self._told = (int(now), before)
        then, at = self._told
        return format_ts(then + int((self.clock.monotonic() - at) * 1000))[:10]

    # -- what all reading needs ------------------------------------------------------------------------------------

    def _run_no(self, run_id: str) -> int:
        known = self._numbers.get(run_id)
        if known is None:
            rows = self.database.ask("SELECT run_no FROM :schema.runs WHERE run_id = %s", (run_id,))
            if not rows:
                raise RunNotFound(f"no run {run_id} in {self.url}")
            if len(self._numbers) >= MOST_NUMBERS:
                self._numbers.clear()
            known = self._numbers[run_id] = int(rows[0][0])
        return known

    def unpack(self, packed: bytes) -> bytes:
        with self._unpacking:
            return self._codec.unpack(packed)

    def put_together(self, run_no: int, stored: bytes, stored_at: Callable[[int], bytes | None]) -> bytes:
        with self._unpacking:
            if self._recent_of != run_no:  # what is stored names its base without the run
                self._codec.recent, self._recent_of = RecentContents(), run_no
            return put_together(self._codec, stored, stored_at)
