"""Every kind of tampering is found with the verdict, the code and the place that it must be found with.

`python -m tests.tampering` is the long form.
"""

from __future__ import annotations

import pytest

from reenact.verify.report import CODES
from tests.tampering.campaign import Corpus
from tests.tampering.evidence import SCENARIOS, whole
from tests.tampering.forging import JOURNAL
from tests.tampering.judging import NOBODY_FINDS, expected, is_found, untouched, verdicts

PARTS = 4
ONLY_OUTSIDE = ("keys", "checkpoint", "witness", "first key", "other log")


@pytest.mark.parametrize("of", SCENARIOS)
def test_what_the_kinds_begin_from_is_whole(of: str) -> None:
    report = untouched(of, "alone")
    assert report.findings == ()
    assert (report.integrity, report.exit_code) == ("holds", 4 if of == "open" else 0)


@pytest.mark.parametrize("part", range(1, PARTS + 1))
def test_each_kind_is_found_as_it_must_be(part: int, capsys: pytest.CaptureFixture[str]) -> None:
    corpus, must = Corpus((part, PARTS), large=False), expected()
    said = corpus.all_told()
    wrong = {name: (each, must.get(name)) for name, each in said.items() if each != must.get(name)}
    unseen = {name for name, each in said.items() if not is_found(corpus.kinds[name], each)}
    with capsys.disabled():
        print(f"\n{len(said)} kinds of tampering, {len(said) - len(unseen)} found, {len(unseen)} that nobody need find")
    assert wrong == {}
    assert unseen == NOBODY_FINDS.keys() & said.keys()
    misplaced = {name: each for name, each in said.items() if not is_placed(corpus, name, each)}
    assert misplaced == {}, "blamed on a line before the first that is another"


def is_placed(corpus: Corpus, name: str, said: dict[str, object]) -> bool:
    """In a journal the first break is told at the first line that is another, or where a later one can tell."""
    before, after = whole(corpus.kinds[name].of), corpus.made[name]
    if said.get("file") != JOURNAL or "line" not in said or before.get(JOURNAL) == after.get(JOURNAL):
        return True
    if corpus.kinds[name].of == "one step" or corpus.kinds[name].change.__name__ == "bundle":
        return True  # another run from its first line on
    old, new = (files[JOURNAL].splitlines() for files in (before, after))
    first = next((number for number, pair in enumerate(zip(old, new, strict=False), start=1) if pair[0] != pair[1]), 0)
    return int(str(said["line"])) >= first


def test_there_are_more_than_three_hundred_kinds_and_every_code_of_a_bundle_is_the_first_of_one() -> None:
    must = expected()
    assert len(must) >= 300
    found = {said["code"] for said in must.values()} - {None}
    assert found == CODES.keys()


def test_what_only_somebody_outside_finds_is_not_found_without_him() -> None:
    """Whoever has the bundle alone sees nothing; with a key, a checkpoint or a witness that he trusts he does."""
    corpus = Corpus(large=False)
    outside = {name: kind for name, kind in corpus.kinds.items() if kind.reader in ONLY_OUTSIDE and "owner: " in name}
    corpus.kinds = {
        name: kind._replace(reader="alone") for name, kind in outside.items() if "argument that" not in name
    }  # what a plan says of its arguments the run's own rules find
    assert len(corpus.kinds) >= 8
    for name, kind in corpus.kinds.items():
        told = corpus.told(name)
        assert (told["code"], told["exit_code"]) == (None, 0), name
        assert told["verdicts"] == " ".join(verdicts(untouched(kind.of, "alone"))), name
