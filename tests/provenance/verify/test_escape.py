"""Foreign text can say anything and do nothing."""

from __future__ import annotations

import html
import json

from hypothesis import given
from hypothesis import strategies as st

from reenact.provenance.verify.report_escape import in_markdown, in_markup, printable
from reenact.provenance.verify.report_json import as_json

anything = st.text(st.characters(), max_size=60) | st.text(
    "\n\r\x1b\x00\x7f\x85\x9b\u2028\u202e\ud800#[a:|`<&", max_size=30
)


@given(anything)
def test_printable_text_is_one_line_without_anything_to_act_on(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    assert len(shown.splitlines()) <= 1
    assert "##[" not in shown
    assert printable(shown) == shown


@given(st.text(st.characters(codec="ascii", exclude_categories=["Cc"]).filter(lambda char: char != "#")))
def test_plain_text_is_left_alone(text: str) -> None:
    assert printable(text, limit=10_000) == text


def test_the_middle_of_long_text_is_cut_and_said_to_be() -> None:
    shown = printable("a" * 500 + "b" * 500, limit=100)
    assert shown == "a" * 50 + "…(900 more)…" + "b" * 50


def test_messages_to_build_services_are_broken_wherever_they_stand() -> None:
    for message in ("##[error]x", "a ##vso[task.setvariable]", "##teamcity[x]", "###[x]"):
        assert not any(mark in printable(message) for mark in ("##[", "##vso[", "##teamcity["))


@given(anything)
def test_markup_holds_no_markup(text: str) -> None:
    assert not set(in_markup(text)) & set("<>\"'")
    assert html.unescape(in_markup(text)) == printable(text)


@given(anything)
def test_markdown_holds_no_markdown(text: str) -> None:
    assert not set(in_markdown(text)) & set("|`*_<>[]!\\~$@\"'")
    assert html.unescape(in_markdown(text)) == printable(text)


@given(st.dictionaries(anything, anything | st.none() | st.booleans() | st.lists(anything, max_size=3), max_size=4))
def test_json_is_ascii_and_reads_back(value: dict[str, object]) -> None:
    text = as_json({"value": [[key, item] for key, item in value.items()]})
    assert text.isascii()
    assert "##[" not in text
    joined = json.loads(text)["value"]
    assert json.dumps(joined) == json.dumps(json.loads(json.dumps([[key, item] for key, item in value.items()])))
