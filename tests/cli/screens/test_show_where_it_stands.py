"""What `show` says of a run that stands still, and of one that came as a folder."""

from __future__ import annotations

from tests.cli.harness import SKILLS, Command
from tests.store.copies import move_store


def kept(reenact: Command) -> None:
    plan = reenact.plan({"skill_id": "steady"}, {"skill_id": "steady", "parameters": {"text": "a private word"}})
    assert reenact("run", plan, "--skills", SKILLS).code == 0


def killed(reenact: Command) -> str:
    plan = reenact.plan({"skill_id": "steady"}, {"skill_id": "counts", "parameters": {"file": "f"}})
    assert reenact("run", plan, "--skills", SKILLS, REENACT_CRASH_AT="after_dispatch:2").code == -9
    return str(reenact("ls", "--json").json[0]["run_id"])


def test_a_run_without_its_process_is_interrupted_as_in_the_list_with_what_to_do(reenact: Command) -> None:
    run_id = killed(reenact)

    text = reenact("show", "last").out
    assert text.startswith(f"run   {run_id}  interrupted\n")
    assert "was on its way when its process ended: it may or may not have happened" in text
    assert f"next  nobody works on it: `reenact resume {run_id}`" in text
    document = reenact("show", "last", "--json").json
    assert (document["status"], document["interrupted"]) == ("running", True)
    assert "nobody works on it" in document["next"]


def test_a_call_that_a_cancel_left_in_doubt_is_said_to_be(reenact: Command) -> None:
    killed(reenact)
    assert reenact("cancel", "last", "--reason", "enough").code == 0

    text = reenact("show", "last").out
    assert "was on its way when the run was cancelled: it may or may not have happened" in text
    assert "next  " not in text


def test_a_call_that_returned_nothing_yet_has_no_output(reenact: Command) -> None:
    plan = reenact.plan({"skill_id": "counts", "parameters": {"file": "f"}}, supervisor="ask")
    assert reenact("run", plan, "--skills", SKILLS).code == 4

    text = reenact("show", "last", "--values").out
    assert 'parameters {"file":"f"}' in text
    assert "output" not in text


def test_what_was_erased_is_not_shown_as_null(reenact: Command) -> None:
    kept(reenact)
    assert reenact("erase", "last", "s1", "--reason", "asked", "--yes").code == 0

    text = reenact("show", "last", "--values").out
    assert text.count("(erased, archived, or not exported)") == 2
    steps = reenact("show", "last", "--values", "--json").json["steps"]
    assert [step["absent"] for step in steps] == [[], ["parameters", "output"]]


def test_a_tool_that_nobody_knows_has_no_version(reenact: Command) -> None:
    assert reenact("run", reenact.plan({"skill_id": "nobody"})).code == 1
    assert "  1 s0  nobody  DENIED  ERR_SKILL_NOT_FOUND\n" in reenact("show", "last").out


def test_a_folder_is_shown_like_the_run_that_it_was_exported_from(reenact: Command) -> None:
    kept(reenact)
    assert reenact("export", "last", "--to", "evidence").code == 0
    move_store(reenact.store, reenact.folder / "elsewhere.db")

    for options in ((), ("--values",), ("--json",), ("--values", "--json")):
        from_store = reenact("show", "last", *options, REENACT_STORE="elsewhere.db")
        from_folder = reenact("show", "./evidence", *options)
        assert (from_folder.code, from_folder.out) == (0, from_store.out)


def test_a_folder_without_values_says_that_they_are_not_there(recorded: Command) -> None:
    assert recorded("export", "last", "--to", "bare", "--payloads", "none").code == 0

    shown = recorded("show", "bare", "--values")
    assert (shown.code, shown.out.count("(erased, archived, or not exported)")) == (0, 4)


def test_a_folder_of_a_run_that_has_not_ended_is_open(reenact: Command) -> None:
    killed(reenact)
    assert reenact("export", "last", "--to", "evidence").code == 0
    assert reenact("show", "evidence").out.splitlines()[0].endswith("  open")


def test_a_folder_that_was_changed_is_not_shown(recorded: Command) -> None:
    assert recorded("export", "last", "--to", "evidence").code == 0
    journal = recorded.folder / "evidence" / "journal.jsonl"
    journal.write_bytes(journal.read_bytes().replace(b'"success"', b'"failure"', 1))

    refused = recorded("show", "evidence")
    assert (refused.code, refused.out) == (1, "")
    assert refused.err.startswith("error: evidence cannot be shown: journal.jsonl, commit ")


def test_a_folder_is_not_watched(recorded: Command) -> None:
    assert recorded("export", "last", "--to", "still").code == 0
    refused = recorded("show", "./still", "--watch")
    assert (refused.code, refused.err) == (
        2,
        "error: an exported folder does not change: say it without --watch [USAGE]\n",
    )


def test_a_verified_run_tells_the_digest_that_a_witness_was_given(recorded: Command) -> None:
    seal = recorded("show", "last", "--json").json["seal"]["seal_digest"]
    assert f"seal          {seal}\n" in recorded("verify", "last").out


def test_a_word_without_an_output_says_what_it_counts_as(reenact: Command) -> None:
    killed(reenact)
    said = reenact("resolve", "last", "s1", "--succeeded", "--reason", "looked", "--skills", SKILLS)
    assert "is resolved (succeeded), its output is null; go on with: reenact resume" in said.out
