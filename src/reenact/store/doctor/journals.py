"""The journal of every run that is open, read as recovery would have to.

The journal of a run that has ended is `reenact verify`'s business: it says more, and takes as long as the run is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256

from reenact.errors import ReenactError
from reenact.store.base import OpenRun
from reenact.store.compression import Codec
from reenact.store.damage import NO_BLOB
from reenact.store.deltas import put_together
from reenact.store.doctor.findings import NAMED, Finding, command, counted, flat
from reenact.store.evidence import RunEvidence
from reenact.store.naming import read_lines
from reenact.values.digest import ZERO_DIGEST

MOST_ROWS = 200_000
"""So many commits and values are looked at. Where open runs have more, some are not looked at, and that is said."""


class OpenJournals:
    """Every commit and every value of the runs that have not ended."""

    def __init__(self, name: str, store: str | None) -> None:
        self._name = name
        self._store = store
        self._codec = Codec()
        self.commits = self.values = self.runs = self.damaged = 0

    def look(self, open_runs: Sequence[tuple[RunEvidence, OpenRun]]) -> Iterator[Finding]:
        for run, row in open_runs:
            if self.commits + self.values >= MOST_ROWS:
                break
            problem = self._problem(run, row.run_id)
            self.runs += 1
            self.damaged += problem is not None
            if problem is not None and self.damaged <= NAMED:
                verify = command(self._store, "verify", row.run_id)
                do = f"`{verify}` says more; copy {self._name} away, then restore a backup"
                yield Finding(f"run {row.run_id}", "trouble", problem, do)
        if self.damaged > NAMED:
            yield Finding("journal", "trouble", f"{self.damaged - NAMED} more open runs are damaged")
        read = (counted(self.commits, "commit"), counted(self.values, "value"), counted(self.runs, "open run"))
        looked = "{} and {} of {} were read".format(*read)
        if self.runs < len(open_runs):
            yield Finding("journal", "note", f"{looked}, {len(open_runs) - self.runs} runs were not")
        else:
            yield Finding("journal", "ok", looked)

    def _problem(self, run: RunEvidence, run_id: str) -> str | None:
        """The first thing that is wrong with a run."""
        try:
            return self._wrong_commit(run, run_id) or self._wrong_value(run)
        except ReenactError as error:
            return flat(str(error))

    def _wrong_commit(self, run: RunEvidence, run_id: str) -> str | None:
        n, prev = 0, ZERO_DIGEST
        for row in run.commits():
            n += 1
            self.commits += 1
            if row.n != n:
                return f"commit {n} is not there"
            if row.body is None:
                return f"commit {n} is not what was written: {flat(row.problem or '')}"
            if not row.same:
                return f"commit {n} is not what was written: the digest beside it is another"
            head = next(read_lines(row.body), {})
            if (head.get("kind"), head.get("n"), head.get("run_id"), head.get("prev")) != ("commit", n, run_id, prev):
                return f"commit {n} does not follow the one before it"
            prev = sha256(row.body).hexdigest()
        return None if n else "the journal has nothing of it"

    def _wrong_value(self, run: RunEvidence) -> str | None:
        for place, commitment, stored in run.payloads():
            self.values += 1
            if not isinstance(stored, bytes):
                return f"a value of commit {place.n} is not what was written: {NO_BLOB}"
            try:
                envelope = put_together(self._codec, stored, run.stored)
            except ReenactError as error:
                return f"a value of commit {place.n} cannot be read: {flat(str(error))}"
            if sha256(envelope).digest() != commitment:
                return f"a value of commit {place.n} is not what was written"
        return None
