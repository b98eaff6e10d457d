"""Values are put away once within a run, wherever the commit that holds them is just now."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from reenact.errors import StoreError
from reenact.runtime.effects.secrets import Secrets
from reenact.runtime.writing.payloads import PayloadBook
from reenact.runtime.writing.redaction import Redactor
from reenact.runtime.writing.staging import Draft
from reenact.store.base import Lease, Store
from reenact.values.clock import FixedClock
from tests.engines.places import opened
from tests.store.backends import backend_at
from tests.store.units import Run

LONG = "long enough to be found by its content " * 10


class Writing:
    """A book, and commits that take what is in it."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.run = Run("run-1")
        self.lease: Lease | None = None
        self.book = PayloadBook(store, "run-1", FixedClock(), b"k" * 32, Redactor(Secrets()))

    def begin(self) -> Draft:
        return self.book.close_draft()

    def end(self, draft: Draft) -> None:
        unit, done = self.run.unit(payloads=draft.payloads)
        unit.shared = draft.shared
        appended = self.store.append(unit, self.lease, owner="a")
        self.lease = appended.lease
        done(appended)
        draft.n = unit.n
        self.book.committed(draft)

    def commit(self) -> None:
        self.end(self.begin())


@pytest.fixture
def writing(tmp_path: Path) -> Iterator[Writing]:
    store = opened(tmp_path / "store.db", clock=FixedClock())
    yield Writing(store)
    store.close()


@pytest.mark.parametrize("value", [LONG, "short", {"a": [1, 2.5, None]}], ids=["long", "short", "object"])
def test_equal_values_have_one_envelope_within_a_commit_across_commits_and_while_one_is_on_its_way(
    writing: Writing, value: object
) -> None:
    book = writing.book
    first = book.put(value)
    assert book.put(value) == first
    taken = writing.begin()
    assert book.put(value) == first
    assert book.get(first[0]) == value, "what is on its way can be read"
    writing.end(taken)
    assert len(taken.payloads) == 1
    second = writing.begin()
    assert (second.payloads, second.shared) == ([], [(first[0], 1)])
    writing.end(second)
    assert book.put(value) == first
    assert book.get(first[0], near=2) == value


def test_what_a_failed_commit_held_goes_with_the_next_one(writing: Writing) -> None:
    book = writing.book
    first = book.put(LONG)
    taken = writing.begin()
    second = book.put("meanwhile")
    assert book.put(LONG) == first
    book.reopen(taken)
    assert [book.get(commitment) for commitment, _ in (first, second)] == [LONG, "meanwhile"]
    assert book.put("meanwhile") == second
    again = writing.begin()
    assert ([payload.commitment for payload in again.payloads], again.shared) == ([first[0], second[0]], [])
    writing.end(again)
    assert [book.put(value) for value in (LONG, "meanwhile")] == [first, second]
    assert writing.begin().shared == [(first[0], 1), (second[0], 1)]


def test_outcomes_and_salts_make_every_envelope_of_another_run_differ(writing: Writing, tmp_path: Path) -> None:
    mine, _ = writing.book.put(LONG)
    other, _ = PayloadBook(writing.store, "run-2", FixedClock(seed=2), b"o" * 32, Redactor(Secrets())).put(LONG)
    assert mine != other


def test_a_value_that_is_gone_is_a_lookup_error(writing: Writing, tmp_path: Path) -> None:
    commitment, _ = writing.book.put(LONG)
    writing.commit()
    with pytest.raises(LookupError):
        writing.book.get("0" * 64)
    backend_at(tmp_path).remove_payload(writing.store, commitment)
    with pytest.raises(LookupError):
        writing.book.get(commitment)


def test_a_store_that_cannot_be_read_says_so(writing: Writing) -> None:
    commitment, _ = writing.book.put(LONG)
    writing.commit()
    writing.store.close()
    with pytest.raises(StoreError):
        writing.book.get(commitment)
