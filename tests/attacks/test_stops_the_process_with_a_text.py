"""Texts that an attacker writes so that whoever reads them does nothing else for minutes, or dies of an exception."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from reenact.builtin.net.body import decode_body
from reenact.builtin.net.guard import Guard
from reenact.cli.commands.plans.plan_file import read_plan
from reenact.contracts.plan import plan_from_document
from reenact.contracts.references import UnresolvedReference, references_in, resolve
from reenact.contracts.skill import version_key
from reenact.errors import DamagedRecord, JsonSyntaxError, PlanError, PolicyError, ReenactError, SkillError
from reenact.journal.lines import decode_line
from reenact.planners.model import unfenced
from reenact.planners.planner import PlannerError
from reenact.planners.rules import Rule, RuleBook, choose
from reenact.provenance.hashing import canonical_text
from reenact.provenance.manifests import read_manifest
from reenact.runtime.host_policy import find_policy
from reenact.skills.plain import to_plain
from reenact.values.bounds import LARGEST_FILE
from reenact.values.canonical import parse_json
from reenact.values.envelope import LARGEST_RESULT
from tests.attacks.limited import measured

QUICK_S = 4.0
DIGITS = ("²", "٣", "1" * 5000)


@pytest.fixture(autouse=True)
def _quick() -> object:
    """Each of these took minutes, or for ever."""
    began = time.process_time()
    yield
    assert time.process_time() - began < QUICK_S


def test_braces_and_spaces_in_a_parameter() -> None:
    """`{{` and spaces: the pattern of references tried each way to share them out, the cube of their number."""
    text = "{{" + " " * 200_000
    assert list(references_in(text)) == []
    assert resolve(text, {}, lambda _: None) == text


def test_a_reference_of_many_dots() -> None:
    """A path of 100,000 parts, of which each beginning is looked for as a step's id."""
    with pytest.raises(UnresolvedReference, match="more than 1000 characters"):
        resolve("{{" + "a." * 100_000 + "}}", {}, lambda _: None)


def test_a_key_in_yaml() -> None:
    """A key that is a list of one word, with `!` behind it: twice as long for each letter more."""
    with pytest.raises(ReenactError):
        canonical_text("? [ " + "a" * 56 + "! ]\n: 1\n")


def test_spaces_in_a_quoted_yaml_scalar() -> None:
    """A run of spaces without a line's end: each of them was taken for the first."""
    assert canonical_text('"a' + " " * 100_000 + 'b"')[0].startswith('"a')


def test_a_charset_that_is_none() -> None:
    """`charset=punycode`, which takes the square of the length; and others that are no charsets of texts."""
    for charset in ("punycode", "idna", "rot13", "unicode_escape", "base64", "utf-7", "x" * 100_000):
        assert decode_body(b"abc-" * 100_000, f"text/plain; charset={charset}")[0] == "base64"


def test_a_fence_of_blank_lines_around_a_plan() -> None:
    """Three backticks and line breaks: where the white space ends was tried at each of them."""
    text = "```" + "\n" * 200_000
    assert unfenced(text) == text
    assert unfenced('```json\n{"steps": []}\n```') == '{"steps": []}\n'


def test_a_goal_on_which_a_rule_never_ends() -> None:
    """The pattern is the host's, and fine for what its people say; the goal is made for it."""
    book = RuleBook(rules=[Rule(when=r"(\w+\s?)*please$", steps=[])], otherwise=[])
    assert choose(book, "mail ann please") == []
    refused = choose(book, "a" * 2000 + "!")
    assert isinstance(refused, PlannerError)
    assert "took more than 2 s" in refused.message


def test_a_name_in_a_plan_that_looks_like_what_the_decoder_says(tmp_path: Path) -> None:
    """An unknown field whose name repeats the decoder's own words, for which each of them was looked at to the end."""
    file = tmp_path / "plan.json"
    file.write_text('{"plan_id":"p","agent_id":"a","steps":[],"' + "unknown field `" * 10_000 + '":1}')
    with pytest.raises(PlanError, match="unknown field"):
        read_plan(file)


def test_many_members_of_which_one_is_wrong() -> None:
    """A plan of 5,000 prices: to name the wrong one, the whole plan was decoded once for each."""
    prices: dict[str, object] = {f"model-{n}": 1 for n in range(5_000)}
    steps = [{"step_id": f"s{n}", "skill_id": "a"} for n in range(5_000)]
    context = {"budget": {"per_model_cents": {**prices, "last": "no"}}}
    with pytest.raises(PlanError, match="per_model_cents"):
        plan_from_document({"plan_id": "p", "agent_id": "a", "steps": steps, "context": context})


def test_a_long_text_that_is_almost_json() -> None:
    """3 MB without their end: the reader that says what is wrong took a hundred times as long as the first one."""
    with pytest.raises(JsonSyntaxError, match="it is not JSON"):
        parse_json("[" + "[]," * 1_000_000)


def test_a_dotted_key_in_somebodys_pyproject() -> None:
    """50,000 parts, of which Python's reader makes every beginning."""
    assert read_manifest("pyproject.toml", b".".join([b"a"] * 50_000) + b" = 1") == {}
    assert read_manifest("pyproject.toml", b"x = {" + b".".join([b"a"] * 50_000) + b" = 1}") == {}
    assert read_manifest("pyproject.toml", b'[project]\nname = "a"') == {"name": "a"}
    wide = b'[project]\nname = "a"\ndependencies = [' + b'"b==1.2.3", ' * 400 + b"]"
    assert read_manifest("pyproject.toml", wide)["name"] == "a"


LAUGHS = """
from reenact import Runtime
def act(given):
    steps = [{"step_id": "s0", "skill_id": "json_transform",
              "parameters": {"operation": "extract", "data": {"a": ["x"] * 100}, "path": "a"}}]
    for number in range(1, 12):
        again = given(number - 1)
        steps.append({"step_id": f"s{number}", "skill_id": "json_transform",
                      "parameters": {"operation": "extract", "data": {"a": again}, "path": "a"}})
    done = Runtime(":memory:").run({"plan_id": "laughs", "agent_id": "a", "steps": steps})
    return [done.status, done.outcomes[-1].code, done.outcomes[-1].message]
"""


@pytest.mark.parametrize(
    "again", ['[f"{{{{s{n}}}}}"] * 3000', 'f"{{{{s{n}}}}} " * 3000'], ids=["in a list", "in a text"]
)
def test_references_that_multiply_what_a_step_returned(again: str) -> None:
    """A plan of 300 kB: each step names the one before 3,000 times, and was 3,000 times as large."""
    found = measured(LAUGHS.replace("given(number - 1)", again.replace("{n}", "{number - 1}")))
    assert "failed" in found.result
    assert "ERR_REFERENCE_UNRESOLVED" in found.result
    assert found.peak_mb < 512


def test_many_references_into_one_output() -> None:
    """It was read, checked and parsed for each of them."""
    read: list[str] = []

    def output(step_id: str) -> object:
        read.append(step_id)
        return {"a": {"b": 1}, "c": 2}

    earlier = {"s": 0, "t": 1}
    assert resolve(["{{s.a}}", "{{s.a.b}} {{t.c}}", "{{s.c}}"] * 100, earlier, output) == [{"b": 1}, "1 2", 2] * 100
    assert read == ["s", "t"]


def test_many_references_to_one_large_value() -> None:
    with pytest.raises(UnresolvedReference, match=f"/99: with what .* more than {LARGEST_RESULT} bytes"):
        resolve(["{{a}}"] * 1000, {"a": 0}, lambda _: "x" * (LARGEST_RESULT // 99 - 100))
    with pytest.raises(UnresolvedReference, match=f"/: with what .* more than {LARGEST_RESULT} bytes"):
        resolve(["x" * (LARGEST_RESULT // 2), "{{a}}"], {"a": 0}, lambda _: "x" * (LARGEST_RESULT // 2))
    assert resolve(["{{a}}"] * 1000, {"a": 0}, lambda _: None) == [None] * 1000


@pytest.mark.parametrize(
    "text",
    ["a." * 50_000 + "a = 1", "x = {" + "a." * 50_000 + "a = 1}", "[" + "a." * 50_000 + "a]\n" + "b = 1\n" * 50_000,
     "[" + "a." * 150 + "a]\n" + "".join(f"b{n} = 1\n" for n in range(90_000)), "max_external_calls = " + "1" * 5000,
     "a = " + "[" * 5000],
    ids=["key", "key in a value", "table", "keys of a table", "digits", "brackets"],
)  # fmt: skip
def test_a_policy_in_a_folder_that_was_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """`reenact.toml` is read by every command that is run there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    Path("reenact.toml").write_text(text)
    with pytest.raises(PolicyError, match="is not TOML"):
        find_policy()
    assert read_manifest("pyproject.toml", text.encode()) == {}


@pytest.mark.parametrize("opening", [b"[", b'{"artifact":', b'{"run":{"plan":['])
def test_a_journal_line_that_is_nested_deeply(opening: bytes) -> None:
    """100,000 brackets, for which the decoder raises a RecursionError that nobody expects."""
    with pytest.raises(DamagedRecord):
        decode_line(opening * 100_000, where="here")


@pytest.mark.parametrize("digits", DIGITS)
def test_digits_that_are_no_number(digits: str) -> None:
    """`²` is a digit to Python and no number, and 5,000 digits are more than it converts: each is a ValueError."""
    with pytest.raises(UnresolvedReference, match="leads nowhere"):
        resolve("{{a." + digits[:900] + "}}", {"a": 0}, lambda _: [1])
    with pytest.raises(SkillError):
        Guard.of({"allow_hosts": [f"host:{digits}"]}, {})
    with pytest.raises(ReenactError):
        version_key(f"1.0.{digits}")


def test_a_plan_without_an_end() -> None:
    """A device, or a pipe that somebody keeps filling, instead of a file."""
    code = """
from pathlib import Path
from reenact.cli.commands.plans.plan_file import read_plan
from reenact.errors import PlanError
def act(given):
    try:
        read_plan(Path("/dev/zero"))
    except PlanError as error:
        return str(error)
"""
    found = measured(code)
    assert f"more than {LARGEST_FILE} bytes" in found.result
    assert found.peak_mb < 512


def test_a_result_that_no_record_could_hold() -> None:
    """What is recorded can be read again: a tool that returns more is told so, and nothing is written."""
    with pytest.raises(SkillError, match=f"more than {LARGEST_RESULT} bytes"):
        to_plain(["a" * (LARGEST_RESULT // 2 + 1)] * 2)
