"""A key that is trusted for one store is, whatever notes were taken away: its id stands in all that it signed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest

from reenact.errors import UsageError
from reenact.store.keys.trusted import named_trust
from reenact.verify import Report, verify_bundle
from reenact.verify.render import in_words
from reenact.verify.signed.trust import Trust, verifier_key
from tests.attacks.refunds import Files, exported, forged, remake
from tests.attacks.test_changes_what_a_call_returned import drop_all_notes, notes_in, with_notes
from tests.second_verifier.both import SCRIPT, differences, node, second, spoken, told
from tests.verify.changing import write_folder

Change = Callable[[Files], Files]
ELSEWHERE = "01900000-0000-7000-8000-000000000000"


@cache
def sent() -> Files:
    return exported(Path(mkdtemp()))


def store() -> str:
    return str(notes_in(sent())[0]["store_id"])


def without_the_beginning(files: Files) -> Files:
    return with_notes(files, [note for note in notes_in(files) if note["schema"] != "reenact.signing.v1"])


def listed(file: Path, *lines: tuple[str, str]) -> Path:
    """(purposes, store) of the key that signed it."""
    (key,) = json.loads(sent()["keys.json"]).values()
    names = ("acme", "other")
    file.write_text(
        "".join(
            f"{name}  {purposes}  {verifier_key(of, key)}\n" for name, (purposes, of) in zip(names, lines, strict=False)
        )
    )
    return file


def judged(folder: Path, trusted: Path) -> Report:
    """By both, alike."""
    report = verify_bundle(folder, keys=named_trust(trusted))
    (theirs,) = second([folder], "--keys", str(trusted))
    theirs.pop("exit_code")
    assert differences(told(report), theirs) == {}
    return report


ALL = "seals,capabilities,log"


@pytest.mark.parametrize("others", [False, True], ids=["alone", "with another store's"])
def test_it_is_known_without_the_note_that_begins(others: bool, tmp_path: Path) -> None:
    folder = remake(tmp_path / "b", without_the_beginning(sent()))
    lines = [(ALL, store()), *([("log", ELSEWHERE)] if others else [])]
    report = judged(folder, listed(tmp_path / "keys", *(reversed(lines) if others else lines)))
    by = report.signature
    assert (report.authenticity, by.by, by.trusted_as) == ("holds", "trusted_key", "other" if others else "acme")


@pytest.mark.parametrize("change", [without_the_beginning, drop_all_notes])
def test_another_answer_is_found_without_the_note_that_begins(change: Change, tmp_path: Path) -> None:
    folder = remake(tmp_path / "b", change(forged(sent())))
    report = judged(folder, listed(tmp_path / "keys", (ALL, store())))
    assert [finding.code for finding in report.findings] == ["SEAL_NOT_SIGNED"]
    assert (report.authenticity, report.exit_code) == ("broken", 1)


def test_a_list_of_ones_own_finds_it_where_the_folder_brings_no_key(tmp_path: Path) -> None:
    folder = remake(tmp_path / "b", drop_all_notes(forged(sent())) | {"keys.json": b"{}\n"})
    mine = Trust(named_trust(listed(tmp_path / "keys", (ALL, store()))).keys)
    report = verify_bundle(folder, keys=mine)
    assert [finding.code for finding in report.findings] == ["SEAL_NOT_SIGNED"]
    assert report.exit_code == 1
    assert verify_bundle(folder).authenticity == "absent"


@pytest.mark.parametrize("change", [lambda files: files, without_the_beginning, drop_all_notes])
def test_a_key_of_another_store_makes_nothing_trusted(change: Change, tmp_path: Path) -> None:
    folder = remake(tmp_path / "b", change(sent()))
    trusted = listed(tmp_path / "keys", (ALL, ELSEWHERE))
    report = judged(folder, trusted)
    assert (report.authenticity, report.counts.signatures) == ("absent", 0)
    assert report.signature.by in (None, "untrusted_key")
    bare = remake(tmp_path / "bare", change(sent()) | {"keys.json": b"{}\n"})
    mine = verify_bundle(bare, keys=Trust(named_trust(trusted).keys))
    assert (mine.authenticity, mine.signature.trusted_as) == ("absent", None)


def test_what_a_key_is_not_trusted_for_is_told_in_words(tmp_path: Path) -> None:
    folder = remake(tmp_path / "b", sent())
    report = judged(folder, listed(tmp_path / "keys", ("seals", store())))
    words = in_words(report, "authenticity")
    assert report.authenticity == "absent"
    assert words.startswith("signed by ")
    assert words.endswith('(trusted as "acme"); the capabilities by a key that is not trusted for capabilities')
    assert report.signature.unapproved == 1
    assert "the key of 1 capability is not trusted for capabilities" in " ".join(report.notes)
    assert not any("no key was there" in note for note in report.notes)


@pytest.mark.parametrize(
    "lines", [(), ((ALL, "store"),), (("seals", "store"),), (("capabilities", "store"),), ((ALL, ELSEWHERE),)]
)
@pytest.mark.parametrize("change", [lambda files: files, drop_all_notes])
def test_both_say_it_in_the_same_words(change: Change, lines: tuple[tuple[str, str], ...], tmp_path: Path) -> None:
    folder = remake(tmp_path / "b", change(sent()))
    given = [(purposes, store() if of == "store" else of) for purposes, of in lines]
    ours, theirs = spoken(folder, listed(tmp_path / "keys", *given) if lines else None)
    assert len(ours) == 4
    assert ours == theirs


def key() -> str:
    (found,) = json.loads(sent()["keys.json"]).values()
    return str(found)


NO_LISTS: dict[str, Callable[[], str]] = {
    "a key under two names": lambda: f"acme  {ALL}  {key()}\nother  {ALL}  {key()}\n",
    "a key for a store and for all": lambda: f"acme  {ALL}  {verifier_key(store(), key())}\nother  {ALL}  {key()}\n",
    "a purpose twice": lambda: f"acme  seals,seals  {key()}\n",
    "a purpose that is none": lambda: f"acme  seals,all  {key()}\n",
    "no name": lambda: f"{ALL}  {key()}\n",
    "a name with a space too many": lambda: f"acme  billing  {ALL}  {key()}\n",
    "a name that turns the line around": lambda: f"acme\u202ebilling  {ALL}  {key()}\n",
    "a long name": lambda: f"{'x' * 101}  {ALL}  {key()}\n",
    "another kind of space": lambda: f"acme  {ALL}\u00a0{key()}\n",
    "a byte order mark": lambda: f"\ufeffacme  {ALL}  {key()}\n",
    "a key of no store": lambda: f"acme  {ALL}  {str(verifier_key(store(), key())).replace('reenact/', 'x/')}\n",
}


@pytest.mark.parametrize("name", NO_LISTS)
def test_what_is_no_list_is_refused_by_both_with_its_line(name: str, tmp_path: Path) -> None:
    folder, file = write_folder(tmp_path / "bundle", sent()), tmp_path / "trusted"
    file.write_text(f"# mine\n\n{NO_LISTS[name]()}", encoding="utf-8")
    with pytest.raises(UsageError) as refused:
        named_trust(file)
    words = [node(), SCRIPT, folder, "--keys", file]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    place = str(refused.value).split(": ")[0]
    assert done.stderr.startswith(f"verify.mjs: {place}: "), done.stderr
