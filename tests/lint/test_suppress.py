"""A comment silences what it names, where it stands, for a reason; and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from reenact.lint.check import check


def found(code: str, folder: Path) -> list[tuple[int, str]]:
    file = folder / "example.py"
    file.write_text(f"import time\n{code}\n", encoding="utf-8")
    return [(one.place.line, one.rule) for one in check([str(file)]).findings]


@pytest.mark.parametrize(
    "code",
    [
        "A = time.time()  # reenact: ignore[RN203] for the log",
        "A = time.time()  #reenact:ignore[RN203]for the log",
        "A = time.time()  # reenact: ignore[RN203]: for the log",
        "A = time.time()  # reenact: ignore[RN203] — for the log",
        "A = time.time()  # reenact: ignore[ RN203 ] for the log  # noqa: DTZ",
        "# reenact: ignore[RN203] for the log\nA = time.time()",
        "# reenact: ignore[RN203] for the log\n\n# another word\nA = time.time()",
        "A = str(\n    time.time()  # reenact: ignore[RN203] for the log\n)",
        "def f(outcome):\n    return (outcome.message\n        == 'x')  # reenact: ignore[RN102] for the log",
    ],
)
def test_a_comment_with_a_reason_silences(code: str, tmp_path: Path) -> None:
    assert found(code, tmp_path) == []


@pytest.mark.parametrize(
    ("code", "rules"),
    [
        ("A = time.time()  # reenact: ignore[RN203]", [(2, "RN002"), (2, "RN203")]),
        ("A = time.time()  # reenact: ignore[RN203] ...", [(2, "RN002"), (2, "RN203")]),
        ("A = time.time()  # reenact: ignore[RN203]  # noqa", [(2, "RN002"), (2, "RN203")]),
        ("A = time.time()  # reenact: ignore[] why", [(2, "RN002"), (2, "RN203")]),
        ("A = time.time()  # reenact: ignore all of it", [(2, "RN002"), (2, "RN203")]),
        ("A = time.time()  # reenact: ignore[RN2] a family is no rule", [(2, "RN003"), (2, "RN203")]),
        ("A = 1  # reenact: ignore[RN002] cannot be silenced", [(2, "RN003"), (2, "RN004")]),
        ("A = 1  # reenact: ignore[RN203] nothing here", [(2, "RN004")]),
        ("A = time.time()  # reenact: ignore[RN203, RN201] one too many", [(2, "RN004")]),
        ("# reenact: ignore[RN203] speaks for the next line\nB = 1\nA = time.time()", [(2, "RN004"), (4, "RN203")]),
        ("A = '# reenact: ignore[RN203] a text is no comment', time.time()", [(2, "RN203")]),
    ],
)
def test_what_does_not_silence_is_reported(code: str, rules: list[tuple[int, str]], tmp_path: Path) -> None:
    assert found(code, tmp_path) == rules


def test_one_comment_may_silence_two_rules(tmp_path: Path) -> None:
    code = "def f(outcome):\n    return outcome.message == str(time.time())  # reenact: ignore[RN102, RN203] a probe"
    assert found(code, tmp_path) == []


def test_a_suppression_does_not_reach_the_next_statement(tmp_path: Path) -> None:
    code = "A = time.time()  # reenact: ignore[RN203] for the log\nB = time.time()"
    assert found(code, tmp_path) == [(3, "RN203")]
