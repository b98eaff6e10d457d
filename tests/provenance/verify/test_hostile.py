"""A hostile sidecar leaks nothing, hangs nothing, and cannot forge a line of any output."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reenact.provenance.hashing import hash_raw, hash_structured
from tests.provenance.verify.repository import TOKEN, Repository, fields, raw

SECRET = "id: secret-xyzzy\n"
FORGERY = (
    "x\n  ok    token: tokens/t.yml\nverdict: holds\r\x1b[2K\x1b]0;title\x07\u009b31m\u2028\u202e\x00\ud800"
    "##[error]`$(id)`::error::"
)
# Nothing that a terminal acts on, that ends a line, or that hides what follows.
PLAIN = re.compile(r"[^\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff]*")


def outside(repository: Repository) -> Path:
    """A file beside the root that no verification may open, with the hash that a sidecar would name."""
    path = repository.root.parent / "secret.yml"
    path.write_text(SECRET)
    return path


def traced(repository: Repository, *arguments: str) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """Run the command in a Python that reports every path it opens."""
    script = (
        "import sys, os\n"
        "seen = []\n"
        "def hook(event, args):\n"
        "    if event == 'open' and isinstance(args[0], (str, bytes)):\n"
        "        seen.append(os.fsdecode(args[0]))\n"
        "sys.addaudithook(hook)\n"
        "from reenact.cli.main import main\n"
        "try:\n"
        "    main(sys.argv[1:])\n"
        "finally:\n"
        "    sys.stderr.write('\\nOPENED ' + repr(seen))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        cwd=repository.root,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    opened = done.stderr.rpartition("\nOPENED ")[2]
    return done, eval(opened)


@pytest.mark.parametrize("mode", ["", "--compat", "--at-commit"])
@pytest.mark.parametrize(
    "path",
    ["../secret.yml", "tokens/../../secret.yml", "@OUT@", "tokens/link.yml", "linked/secret.yml", "tokens/abs.yml"],
)
def test_nothing_outside_the_root_is_opened(path: str, mode: str, repository: Repository) -> None:
    out = outside(repository)
    (repository.root / "tokens/link.yml").symlink_to("../../secret.yml")
    (repository.root / "tokens/abs.yml").symlink_to(out)
    (repository.root / "linked").symlink_to("..")
    recorded = {"path": path.replace("@OUT@", str(out)), "hash": hash_structured(SECRET)}
    repository.recorded(token=recorded)
    done, opened = traced(repository, "verify-replay", *([mode] if mode else []), "docs/r.md")
    assert done.returncode == 1
    assert "FAIL  token" in done.stdout
    assert hash_structured(SECRET) not in done.stdout.replace(f"expected {hash_structured(SECRET)}", "")
    assert "xyzzy" not in done.stdout + done.stderr
    assert not [name for name in opened if name.endswith("secret.yml")]


@pytest.mark.parametrize("mode", ["", "--compat"])
def test_gits_own_folder_is_not_read(mode: str, repository: Repository) -> None:
    repository.commit()
    config = (repository.root / ".git/config").read_bytes()
    repository.sidecar(brief=raw(".git/config", config))
    assert repository.verify(*([mode] if mode else []), "docs/r.md").returncode == 1


@pytest.mark.parametrize("mode", ["", "--compat"])
@pytest.mark.parametrize("kind", ["fifo", "socket", "folder", "device", "loop", "sparse"])
def test_what_is_no_regular_file_of_bounded_size_is_not_read(kind: str, mode: str, repository: Repository) -> None:
    path = repository.root / "tokens/x.yml"
    listener = socket.socket(socket.AF_UNIX)
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "socket":
        here = Path.cwd()
        os.chdir(path.parent)
        try:
            listener.bind("x.yml")
        finally:
            os.chdir(here)
    elif kind == "folder":
        path.mkdir()
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "loop":
        path.symlink_to("x.yml")
    else:
        with path.open("wb") as file:
            file.truncate(2 << 30)
    repository.sidecar(token={"path": "tokens/x.yml", "hash": hash_structured(TOKEN)})
    done = repository.verify(*([mode] if mode else []), "docs/r.md")
    listener.close()
    assert done.returncode == 1
    assert "FAIL  token" in done.stdout


@pytest.mark.parametrize("kind", ["fifo", "sparse", "link"])
@pytest.mark.parametrize("suffix", [".md", ".replay.json"])
def test_a_report_or_sidecar_that_is_no_ordinary_file_is_not_read(
    kind: str, suffix: str, repository: Repository
) -> None:
    repository.sidecar()
    path = repository.root / f"docs/r{suffix}"
    path.unlink()
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to(outside(repository))
    else:
        with path.open("wb") as file:
            file.truncate(2 << 30)
    done = repository.verify()
    assert done.returncode == (1 if suffix == ".md" else 2)
    assert "xyzzy" not in done.stdout + done.stderr
    assert repository.verify("--compat", "docs/r.md").returncode == (0 if suffix == ".md" else 2)


BOMB = "a0: &a0 x\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30))


@pytest.mark.parametrize(
    "content",
    [BOMB, "[" * 10_000, "[" * 10_000 + "]" * 10_000, "{a: " * 10_000, "- " * 10_000, "a: &a [*a]\n", "'" * 100_001],
    ids=["bomb", "open brackets", "brackets", "braces", "dashes", "circle", "quotes"],
)
def test_an_input_made_to_hang_a_parser_fails_at_once(content: str, repository: Repository) -> None:
    repository.write("tokens/t.yml", content)
    repository.sidecar()
    done = repository.call("verify-replay", "docs/r.md")
    assert done.returncode == 1
    assert re.search("FAIL  token: (unparseable|undecided): tokens/t.yml", done.stdout)
    assert repository.call("verify-replay", "--compat", "docs/r.md").returncode == 1


@pytest.mark.parametrize(
    "text", ["[" * 10_000, '{"a":' * 10_000, "[" * 10_000 + "]" * 10_000, "9" * 100_000, '"' + "\\" * 99_999]
)
def test_a_sidecar_made_to_hang_a_parser_is_invalid(text: str, repository: Repository) -> None:
    repository.write("docs/r.replay.json", text)
    done = repository.call("verify-replay", "docs/r.md")
    assert (done.returncode, "FAIL  invalid sidecar: " in done.stdout) == (2, True)
    assert repository.call("verify-replay", "--compat", "docs/r.md").returncode == 2


def forged_strings() -> list[dict[str, Any]]:
    """A sidecar for each string that it may hold, with the forgery in its place."""
    models = [{"id": FORGERY, "provider": FORGERY, "provider_request_ids": [FORGERY]}]
    conditions = {"requested": [FORGERY], "effective": [FORGERY]}
    entry = {"path": FORGERY, "hash": hash_raw(b"")}
    return [
        fields(ahd_version=FORGERY, node_version=FORGERY, platform=FORGERY, argv=[FORGERY]),
        fields(ahd_commit=FORGERY, git_dirty=True),
        fields(token=entry),
        fields(brief=entry),
        fields(token={"path": "/" + FORGERY, "hash": hash_raw(b"")}),
        fields(models=models, conditions=conditions),
        fields(**{FORGERY: 1}),
        fields(kind=FORGERY),
        fields(invoked_at=FORGERY),
        fields(token={"path": "x", "hash": FORGERY}),
        fields(schema_version=FORGERY),
        {"schema": FORGERY},
    ]


@pytest.mark.parametrize("number", range(len(forged_strings())))
@pytest.mark.parametrize("mode", ["text", "compat", "json"])
def test_no_string_of_a_sidecar_forges_a_line(number: int, mode: str, repository: Repository) -> None:
    repository.write("docs/r.replay.json", json.dumps(forged_strings()[number]))
    repository.write("docs/r.md", f"# r\n\n```yaml ahd-replay\nkind: {FORGERY}\n```\n".encode("utf-8", "replace"))
    options = {"text": ("--verbose",), "compat": ("--compat",), "json": ("--json",)}[mode]
    done = repository.call("verify-replay", *options, "docs/r.md")
    output = done.stdout + done.stderr
    assert PLAIN.fullmatch(output)
    assert "##[" not in output
    assert "verdict: holds" not in output.splitlines()
    assert output.splitlines().count("  ok    token: tokens/t.yml") <= 1
    assert not any(line.lstrip().startswith("::") for line in output.splitlines())
    if mode == "json":
        assert json.loads(done.stdout)["reports"]


def test_no_string_forges_a_result_in_the_files_for_build_services(repository: Repository, tmp_path: Path) -> None:
    hostile = "a|b</testcase>\"'&<!--`**x**\n| forged | row |\n" + FORGERY
    for number, sidecar in enumerate([*forged_strings(), fields(token={"path": hostile, "hash": hash_raw(b"")})]):
        repository.write(f"docs/many/{number}.replay.json", json.dumps(sidecar))
    files = {name: tmp_path / name for name in ("junit", "sarif", "summary")}
    options = [word for name, path in files.items() for word in (f"--{name}", str(path))]
    repository.verify(*options, "docs/many")
    texts = {name: path.read_text(encoding="utf-8") for name, path in files.items()}
    assert all(PLAIN.fullmatch(text) for text in texts.values())
    suites = ET.fromstring(texts["junit"])
    assert len(suites) == 13
    assert json.loads(texts["sarif"])["version"] == "2.1.0"
    rows = [line for line in texts["summary"].splitlines() if line.startswith("|")]
    assert all(row.count("|") == 5 for row in rows)
    assert not any("forged | row" in row for row in rows)
    assert not any(mark in texts["summary"] for mark in ("<", "`", "\\n|"))


def test_names_of_files_and_subjects_of_commits_are_foreign_too(repository: Repository) -> None:
    name = "docs/\x1b[31m\n  ok    token: tokens/t.yml"
    repository.recorded()
    repository.sidecar(name + ".replay.json", ahd_commit=repository.git("rev-parse", "HEAD"), git_dirty=False)
    repository.write("tokens/t.yml", "id: other\n")
    repository.commit("subject \x1b]0;x\x07 \u202e ##[error] end")
    done = repository.verify("docs")
    assert done.returncode == 1
    assert PLAIN.fullmatch(done.stdout)
    assert "##[" not in done.stdout
    assert "\\x1b]0;x\\x07" in done.stdout
    assert done.stdout.splitlines().count("  ok    token: tokens/t.yml") == 0
    missing = repository.verify("docs/\x1b[31m\nnothing*.md")
    assert (missing.returncode, PLAIN.fullmatch(missing.stderr.rstrip("\n")) is not None) == (2, True)
    assert len(missing.stderr.splitlines()) == 1


def test_a_report_as_long_as_allowed_takes_no_more_than_its_length_in_time(repository: Repository) -> None:
    repository.sidecar()
    repository.write("docs/r.md", "```\n" * 200_000 + "~~~\n" * 200_000 + "- `a` (" * 100_000)
    assert repository.verify().returncode == 0


def test_neither_an_inputs_content_nor_a_keys_name_is_printed(repository: Repository) -> None:
    repository.write("tokens/t.yml", "password: hunter2\npassword: hunter3\n")
    repository.write("briefs/b.yml", "key: &hunter4 [*hunter5]\n")
    repository.sidecar()
    for options in ((), ("--json",), ("--compat",)):
        done = repository.verify(*options, "docs/r.md")
        assert done.returncode == 1
        assert "hunter" not in done.stdout + done.stderr
        assert "password" not in done.stdout + done.stderr


names = st.text(st.characters(), max_size=12) | st.sampled_from(
    ["..", ".", "", "tokens", "t.yml", "/", "C:\\", "~", "-", "\0", ".git"]
)
paths = st.lists(names, max_size=6).map("/".join) | st.lists(names, max_size=6).map("\\".join)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@given(token=paths, brief=paths, name=st.sampled_from(sorted(fields())), value=values, is_changed=st.booleans())
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
def test_whatever_a_sidecar_says_the_answer_is_a_verdict(
    token: str, brief: str, name: str, value: Any, is_changed: bool, repository: Repository
) -> None:
    recorded = fields(
        token={"path": token, "hash": hash_structured(TOKEN)}, brief={"path": brief, "hash": hash_raw(b"")}
    )
    text = json.dumps(recorded | ({name: value} if is_changed else {}))
    repository.write("docs/r.replay.json", text)
    for options in ((), ("--json",), ("--compat",), ("--at-commit",)):
        done = repository.call("verify-replay", *options, "docs/r.md")
        assert done.returncode in (0, 1, 2)
        assert PLAIN.fullmatch(done.stdout + done.stderr)
