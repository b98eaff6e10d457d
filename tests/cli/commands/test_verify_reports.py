"""Reports for whoever receives evidence: plain words, nothing that a recorded value could do in them."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tools.vectors.scenarios import three_steps
from tools.vectors.writer import bundle_files

from reenact.verify.signed.signed_note import read_vkey
from tests.cli.harness import SKILLS, Command
from tests.conftest import ROOT
from tests.verify.changing import changed_files, read_folder, write_folder
from tests.witness.stores import a_witness

BUNDLE = ROOT / "test_vectors" / "bundles" / "three_steps_packed"
FILES = ("r.html", "r.md", "r.xml", "r.sarif")
HOSTILE = (
    "</td><script>alert(1)</script><img src=x onerror=alert(1)>\"'`|</testcase>]]>"
    "\u202e\x1b]0;x\x07 [a](javascript:alert(1)) ##[command]"
)


def reports(reenact: Command, target: str, *more: str) -> tuple[int, dict[str, str]]:
    html, markdown, junit, sarif = FILES
    done = reenact("verify", target, "--html", html, "--markdown", markdown, "--junit", junit, "--sarif", sarif, *more)
    return done.code, {name: (reenact.folder / name).read_text(encoding="utf-8") for name in FILES}


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.add(tag)
        self.attributes |= {name for name, _ in attrs}


def inert(written: dict[str, str]) -> None:
    """Nothing runs, loads or leads anywhere, whatever was recorded."""
    tags = Tags()
    tags.feed(written["r.html"])
    allowed = "html head meta title style body h1 h2 h3 table tr td th p span ul li"
    assert tags.found <= set(allowed.split())
    assert tags.attributes <= {"lang", "charset", "http-equiv", "content", "name", "class"}
    assert "default-src 'none'" in written["r.html"]
    assert "http" not in re.sub(r"http-equiv|http_call", "", written["r.html"])
    assert not re.search(r"[<>`\[\]]|\]\(", written["r.md"].replace("<br>", ""))
    ElementTree.fromstring(written["r.xml"])
    json.loads(written["r.sarif"])
    for text in written.values():
        assert all(char.isprintable() or char == "\n" for char in text)
        assert "##[" not in text


def test_what_holds_is_said_in_four_sentences_with_the_timeline(reenact: Command) -> None:
    code, written = reports(reenact, str(BUNDLE))
    assert code == 0
    inert(written)
    for name in ("r.html", "r.md"):
        for words in (
            "every fingerprint in them was computed again", "the count is right", "nobody vouched for it",
            "Nothing shows that anybody outside has seen these records", "What happened", "fetch: http",
        ):  # fmt: skip
            assert words in written[name], name
    suite = ElementTree.fromstring(written["r.xml"])
    assert (suite.get("tests"), suite.get("failures")) == ("4", "0")
    assert json.loads(written["r.sarif"])["runs"][0]["results"] == []


def test_a_run_of_a_store_is_reported_too(recorded: Command) -> None:
    code, written = reports(recorded, "last")
    assert code == 0
    assert "a private word" not in "".join(written.values())
    assert "flaky" in written["r.md"]


def test_what_is_broken_is_told_with_its_place_and_nothing_is_retold(reenact: Command, tmp_path: Path) -> None:
    change = {"replace": ["journal.jsonl", '"code":"ERR_HTTP_503"', '"code":"ERR_HTTP_500"']}
    folder = write_folder(tmp_path / "broken", changed_files(read_folder(BUNDLE), [change]))
    code, written = reports(reenact, str(folder))
    assert code == 1
    inert(written)
    assert "These records cannot be relied on" in written["r.html"]
    assert "Not shown" in written["r.html"]
    results = json.loads(written["r.sarif"])["runs"][0]["results"]
    assert results[0]["ruleId"] == "ATTEMPT_DIGEST"
    place = results[0]["locations"][0]["physicalLocation"]
    assert (place["artifactLocation"]["uri"].endswith("journal.jsonl"), place["region"]["startLine"]) == (True, 7)
    assert ElementTree.fromstring(written["r.xml"]).get("failures") == "1"


def test_what_is_required_and_absent_fails_in_every_form(reenact: Command) -> None:
    code, written = reports(reenact, str(BUNDLE), "--require", "anchor")
    assert code == 1
    assert "What was asked for is not there: anchor" in written["r.html"]
    assert json.loads(written["r.sarif"])["runs"][0]["results"][0]["ruleId"] == "REQUIRED_AND_ABSENT"
    assert '<failure type="absent"' in written["r.xml"]


@pytest.mark.parametrize("what", ["signature", "trust", "anchor"])
def test_a_build_service_sees_red_whatever_was_required_and_is_absent(reenact: Command, what: str) -> None:
    nobody = reenact.folder / "nobody.json"
    nobody.write_text("{}")
    keys = ["--keys", str(nobody)] if what == "signature" else []
    code, written = reports(reenact, str(BUNDLE), "--require", what, *keys)
    assert code == 1
    suite = ElementTree.fromstring(written["r.xml"])
    assert suite.get("failures") == "1", written["r.xml"]
    (failure,) = suite.iter("failure")
    assert failure.get("type") == "absent"


def test_a_report_says_no_more_than_was_shown(recorded: Command) -> None:
    """Whoever has a key of his own can write every record anew: that they fit together does not say who did."""
    (own,) = recorded("keys", "show", "--json").json
    with a_witness(recorded.folder, read_vkey(own["verifier_key"])) as (url, key):
        assert recorded("log", "witness", "add", url, "--key", str(key)).code == 0
        assert recorded("log", "witness", "collect").code == 0
    code, written = reports(recorded, "last")
    assert code == 0
    for text in (written["r.html"], written["r.md"]):
        assert "Were the records changed" not in text
        assert "Whether all of it was written anew is what the last two answers are about" in text
        assert "store itself names: whether they are anybody else" in text
        assert text.count("by whom is not proven") == 2
    policy = recorded.folder / "policy"
    policy.write_text(recorded("log", "policy").out)
    _, written = reports(recorded, "last", "--witness-policy", str(policy))
    assert written["r.md"].count("by whom is not proven") == 1


@pytest.mark.parametrize("place", ["a message", "a file's name", "a step's error"])
def test_hostile_values_stay_text(reenact: Command, tmp_path: Path, place: str) -> None:
    if place == "a step's error":
        plan = reenact.plan({"skill_id": "broken", "parameters": {"words": HOSTILE}})
        assert reenact("run", plan, "--skills", SKILLS).code == 1
        _, written = reports(reenact, "last")
    else:
        files = bundle_files(three_steps(), packed=True)
        if place == "a message":
            files["manifest.json"] = json.dumps({HOSTILE: HOSTILE}).encode()
        name = "x" if place == "a message" else HOSTILE.replace("/", "_").replace("\x07", "")[:80]
        _, written = reports(reenact, str(write_folder(tmp_path / "hostile", {**files, name: b"x"})))
    assert "alert(1)" in written["r.html"] + written["r.md"] or place == "a message"
    inert(written)


def test_a_file_that_cannot_be_written_is_one_line(reenact: Command) -> None:
    done = reenact("verify", str(BUNDLE), "--html", "nowhere/r.html")
    assert (done.code, done.err.count("\n")) == (3, 1)
