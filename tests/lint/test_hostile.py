"""Whatever a file holds, lint ends, says so, and runs none of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reenact.lint.check import check
from reenact.lint.files import MAX_BYTES
from reenact.lint.findings import Finding

NESTED_MIN = b"def f(o):\n    return " + b"min(o, o, o, o, o, o, o, o, key=lambda x: " * 14 + b"x" + b")" * 14


def chain_of_branches(length: int) -> bytes:
    branches = [b"    elif outcome.message == '%d': return %d\n" % (n, n) for n in range(length)]
    return b"def f(outcome):\n    if outcome.code == 'a': return 1\n" + b"".join(branches)


# name → (content, the rules that are reported)
FILES: dict[str, tuple[bytes, set[str]]] = {
    "null bytes": (b"x = 1\0\n", {"RN001"}),
    "no utf-8": (b"x = '\xff'\n", {"RN001"}),
    "utf-16": ("x = 1\n".encode("utf-16"), {"RN001"}),
    "an unknown encoding": (b"# coding: nope\nx = 1\n", {"RN001"}),
    "binary": (bytes(range(256)) * 10, {"RN001"}),
    "latin-1, declared": (b"# coding: latin-1\nimport time\nx = '\xe4', time.time()\n", {"RN203"}),
    "a byte order mark": (b"\xef\xbb\xbfimport time\nx = time.time()\n", {"RN203"}),
    "windows lines": (b"import time\r\nx = time.time()\r\n", {"RN203"}),
    "nothing": (b"", set()),
    "parentheses": (b"x = " + b"(" * 5000 + b")" * 5000, {"RN001"}),
    "signs": (b"x = " + b"-" * 100_000 + b"1\n", {"RN005"}),
    "attributes": (b"x = a" + b".b" * 50_000 + b"\n", {"RN005"}),
    "a long sum": (b"def f(outcome):\n    if " + b"+".join([b"outcome.message"] * 100) + b": pass\n", {"RN101"}),
    "a sum too long": (b"def f(outcome):\n    if " + b"+".join([b"outcome.message"] * 2000) + b": pass\n", {"RN005"}),
    "a long chain of branches": (chain_of_branches(100), {"RN101"}),
    "a chain of branches too long": (chain_of_branches(2000), {"RN005", "RN101"}),
    "a long or": (b"x = " + b" or ".join([b"a"] * 20_000) + b"\n", set()),
    "a list of stars": (b"x = [" + b",".join([b"*a"] * 20_000) + b"]\n", set()),
    "a long list": (b"X = [" + b",".join([b"'a'"] * 50_000) + b"]\n", set()),
    "lists of lists of lists": (b"x = 1\n" + (b"x = [" + b",".join([b"x"] * 64) + b"]\n") * 40, set()),
    "nested loops": (
        b"def f(o):\n"
        + b"".join(b" " * (n + 1) + b"for x%d in o:\n" % n for n in range(18))
        + b" " * 19
        + b"y = o.latency_ms\n",
        set(),
    ),
    "nested functions with loops": (
        b"".join(b" " * (2 * n) + b"def f(o):\n" + b" " * (2 * n + 1) + b"for x in o:\n" for n in range(18))
        + b" " * 37
        + b"pass\n",
        set(),
    ),
    "a lambda called eight times, fourteen deep": (NESTED_MIN, set()),
    "functions that each call the next one forty times": (
        b"".join(b"def f%d(x):\n    return [%s]\n" % (n, b",".join([b"f%d(x)" % (n + 1)] * 40)) for n in range(20)),
        set(),
    ),
    "a lambda that calls itself": (b"f = lambda x: x(x)\nf(f)\nsorted([f], key=f)\n", set()),
    "functions that all call each other": (
        b"".join(b"def f%d(x):\n    return f%d(x) or f%d(x.y)\n" % (n, (n + 1) % 500, n * 7 % 500) for n in range(500)),
        set(),
    ),
    "classes in a circle": (
        b"".join(b"class C%d(C%d):\n    def m(self): return self.x\n" % (n, (n + 1) % 500) for n in range(500)),
        set(),
    ),
    "nothing but suppressions": (b"# reenact: ignore[RN203] x\n" * 3000, {"RN004"}),
    "a syntax of its own": (b"def f(*a, **k):\n    return f(*a, **k) or f(*[*a], **{**k})\n", set()),
}


def found(content: bytes, folder: Path) -> list[Finding]:
    file = folder / "hostile.py"
    file.write_bytes(content)
    return list(check([str(file)]).findings)


@pytest.mark.parametrize(("content", "rules"), FILES.values(), ids=FILES.keys())
def test_a_hostile_file_is_reported_as_what_it_is(content: bytes, rules: set[str], tmp_path: Path) -> None:
    assert {one.rule for one in found(content, tmp_path)} == rules


def test_a_file_beyond_the_limit_is_not_analysed_and_not_called_clean(tmp_path: Path) -> None:
    (finding,) = found(b"#" * (MAX_BYTES + 1), tmp_path)
    assert finding.rule == "RN005"
    assert "larger than 4 MiB" in finding.message


def test_a_syntax_error_names_its_line_and_the_other_files_are_still_checked(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n\ndef broken(:\n    pass\n")
    (tmp_path / "b.py").write_text("import time\nx = time.time()\n")
    report = check([str(tmp_path)])
    assert [(Path(one.place.file).name, one.place.line, one.rule) for one in report.findings] == [
        ("a.py", 3, "RN001"),
        ("b.py", 2, "RN203"),
    ]
    assert report.exit_code() == 1


def test_the_code_is_never_run(tmp_path: Path) -> None:
    witness = tmp_path / "witness"
    (tmp_path / "helper.py").write_text(f"open({str(witness)!r}, 'w').close()\n")
    (tmp_path / "conftest.py").write_text("import helper\n")
    code = f"import helper\nopen({str(witness)!r}, 'w').close()\nclass A:\n    x = helper.run()\nraise SystemExit(7)\n"
    (tmp_path / "code.py").write_text(code)
    assert check([str(tmp_path)]).exit_code() == 0
    assert not witness.exists()


def test_what_cannot_be_read_is_said_and_is_not_called_clean(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "gone.py").symlink_to(tmp_path / "nowhere.py")
    (tmp_path / "fine.py").write_text("import time\nx = time.time()\n")
    names = ["missing.py", "pipe", "gone.py", "fine.py", "nul\0.py"]
    report = check([str(tmp_path / name) for name in names])
    assert [Path(one.file).name for one in report.unreadable] == ["missing.py", "pipe", "gone.py", "nul\0.py"]
    assert [one.rule for one in report.findings] == ["RN203"]
    assert report.exit_code() == 3


def test_the_standard_library_is_analysed_whole() -> None:
    folder = Path(os.__file__).parent
    report = check([str(folder / name) for name in ("asyncio", "json", "logging", "concurrent", "email")])
    assert len(report.checked) > 50
    assert [one for one in report.findings if one.rule == "RN005"] == []
