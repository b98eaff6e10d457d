"""`reenact db copy`, as whoever types it meets it."""

from __future__ import annotations

from tests.cli.harness import Command, error_line

SORT = {"data": [3, 1, 2], "operation": "sort"}


def test_a_copy_says_what_it_did_and_where_the_keys_lie(reenact: Command) -> None:
    assert reenact("run", reenact.plan({"skill_id": "json_transform", "parameters": SORT})).code == 0
    place = reenact.folder / "copy.db"
    done = reenact("db", "copy", str(reenact.store), str(place), "--json")
    assert (done.code, done.err) == (0, "")
    told = done.json
    assert (told["from"], told["to"]) == (f"sqlite:///{reenact.store}", f"sqlite:///{place}")
    assert (told["runs"], told["went_on"], told["keys"]) == (1, False, [[f"{reenact.store}.key", f"{place}.key"]])
    assert reenact("verify", "last", "--store", str(place)).code == 0
    again = reenact("db", "copy", str(reenact.store), str(place))
    assert again.code == 2
    assert "was moved to" in error_line(again)


def test_what_cannot_be_copied_is_told_in_one_line(reenact: Command) -> None:
    for words, code, says in (
        (("db", "copy", "a.db"), 2, "say from where and to where"),
        (("db", "copy", str(reenact.folder / "none.db"), "b.db"), 3, "there is no store at"),
        (("db", "move", "a.db", "b.db"), 2, "move"),
        (("db", "upgrade", "a.db"), 2, "takes no place"),
        (("db", "grants"), 2, "has no roles"),
    ):
        done = reenact(*words)
        assert done.code == code
        assert says in error_line(done)
    assert reenact("run", reenact.plan({"skill_id": "json_transform", "parameters": SORT})).code == 0
    done = reenact("db", "copy", str(reenact.store), str(reenact.store))
    assert done.code == 2
    done = reenact("db", "copy", str(reenact.store), "mysql://host/db")
    assert (done.code, "is not understood" in error_line(done)) == (2, True)
    done = reenact("db", "copy", str(reenact.store), str(reenact.folder / "b.db"), "--give-up")
    assert (done.code, "nothing to give up" in error_line(done)) == (2, True)


def test_the_rights_of_roles_are_printed_without_a_server(reenact: Command) -> None:
    done = reenact(
        "db", "grants", "--store", "postgresql://nobody:s3cret@nowhere.invalid/d?schema=mine", "--auditor", "bob"
    )
    assert (done.code, done.err) == (0, "")
    assert 'GRANT USAGE ON SCHEMA "mine" TO "reenact_worker", "reenact_eraser", "bob"' in done.out
    assert "s3cret" not in done.out


def test_a_store_in_a_file_is_brought_up_to_date_or_made(reenact: Command) -> None:
    assert "a store was made" in reenact("db", "upgrade").out
    done = reenact("db", "upgrade", "--json").json
    assert done["before"] == done["schema"] > 0
