"""The key beside the store: what was taken out for the disk is there for whoever goes on, and for nobody else."""

from __future__ import annotations

import io
import json
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from reenact import Runtime, skill
from reenact.errors import SecretError, StoreUnavailable
from reenact.record.export import export_run
from reenact.record.reader import RunReader
from reenact.replay import replay
from reenact.runtime.effects.secrets import Secrets
from reenact.runtime.listeners import Notice
from reenact.runtime.structured_log import StructuredLog
from reenact.runtime.writing.redaction import Redactor
from reenact.store.encryption import KeyFile, key_name
from tests.cli.harness import Command
from tests.crash.harness import KILLED, in_child
from tests.runtime.running import Bench, plan, step
from tests.secrets.planting import leaks, leaks_in_files, leaks_in_store

TOKEN = "sk-live0Tk0nABCDEFGHIJKLMNOP"  # planted, so that the search knows it
PROMPT = f"log in with {TOKEN}, then tell me the weather"
COUNT = "made.txt"


def made(folder: str) -> int:
    file = Path(folder, COUNT)
    return len(file.read_text().splitlines()) if file.exists() else 0


@skill("ask", version="1.0.0", tool_class="write", honours_key=True)
def ask(folder: str, prompt: str) -> dict[str, Any]:
    """A model that says again what it was told; it is counted how often."""
    with Path(folder, COUNT).open("a") as file:
        file.write(f"{len(prompt)}\n")
    return {"said": f"you wrote: {prompt}", "access_token": TOKEN}


@skill("log_in", version="1.0.0", tool_class="read")
def log_in() -> dict[str, str]:
    return {"session_token": TOKEN}


@skill("use", version="1.0.0", tool_class="write", honours_key=True)
def use(session: str) -> bool:
    return session == TOKEN


PLAN = plan(step(log_in, step_id="log_in"), step(use, {"session": "{{log_in.session_token}}"}, step_id="use"))
SKILLS = ("--skills", str(Path(__file__)))


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REENACT_SEAL_KEY", raising=False)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "store.db.encryption-key"


def clean(folder: Path) -> None:
    assert leaks_in_files(folder) == []
    assert leaks_in_store(folder / "store.db") == []


# -- making it ---------------------------------------------------------------------------------------------------------


def test_it_is_made_when_it_is_first_needed_and_stays(tmp_path: Path, file: Path) -> None:
    bench = Bench(tmp_path, log_in, use)
    bench.run(step(use, {"session": "plain"}))
    assert not file.exists()
    bench.runtime.run(PLAN)
    assert file.stat().st_mode & 0o777 == 0o600
    text = file.read_text()
    assert Bench(tmp_path, log_in, use).runtime.run(PLAN).status == "completed"
    assert file.read_text() == text
    assert sorted(path.name for path in tmp_path.glob("store.db.*")) == ["store.db.encryption-key", "store.db.key"]


def test_a_store_in_memory_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    runtime = Runtime("sqlite:///:memory:", skills=[log_in, use])
    result = runtime.run(PLAN)
    assert result.status == "completed"
    assert replay(runtime.store, result.run_id).verdict == "matched"
    assert list(tmp_path.iterdir()) == []


def first_key(path: str) -> str:
    return key_name(KeyFile(Path(path)).first())


def test_processes_that_make_it_at_once_agree_on_one(file: Path) -> None:
    with get_context("fork").Pool(4) as pool:
        assert len(set(pool.map(first_key, [str(file)] * 16, chunksize=1))) == 1


def test_what_is_no_key_is_told_and_not_written_over(tmp_path: Path, file: Path) -> None:
    file.write_text("my notes")
    file.chmod(0o600)
    with pytest.raises(StoreUnavailable, match=r"encryption-key is damaged"):
        Bench(tmp_path, log_in, use).runtime.run(PLAN)
    assert file.read_text() == "my notes"


# -- going on ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("point", ["before_dispatch:1", "after_dispatch:1", "after_effect:1"])
def test_a_prompt_like_a_secret_is_sent_again_as_it_was_after_a_kill(tmp_path: Path, point: str) -> None:
    def die() -> None:
        with Bench(tmp_path, ask).runtime.session() as session:
            session.call("ask", {"folder": str(tmp_path), "prompt": PROMPT})

    assert in_child(die, crash_at=point) == KILLED
    clean(tmp_path)
    bench = Bench(tmp_path, ask)
    run_id = bench.store.find_run("last").run_id
    with bench.runtime.session(resume=run_id, interrupted="settle") as session:
        history = session.history()
    assert json.loads(history[0]["tool_calls"][0]["function"]["arguments"])["prompt"] == PROMPT
    assert json.loads(history[1]["content"]) == {"access_token": TOKEN, "said": f"you wrote: {PROMPT}"}
    assert set(Path(tmp_path, COUNT).read_text().split()) == {str(len(PROMPT))}
    bench.check(run_id)
    assert replay(bench.store, run_id).verdict == "matched"
    clean(tmp_path)


def loop(folder: Path) -> list[Any]:
    """A program that is started again: its prompts hold what its tools told it."""
    said: list[Any] = []
    with Bench(folder, ask, log_in).runtime.session(id="order-42") as session:
        said.append(session.call("log_in").output)
        for number in range(3):
            prompt = f"{number}: {json.dumps(said)} {PROMPT}"
            said.append(session.call("ask", {"folder": str(folder), "prompt": prompt}).output)
    return said


@pytest.mark.parametrize("point", ["before_dispatch:3", "after_dispatch:3", "after_effect:4", "after_seal"])
def test_a_program_that_is_started_again_gets_what_it_got(tmp_path: Path, point: str) -> None:
    in_child(lambda: loop(tmp_path), crash_at=point)
    clean(tmp_path)
    first, made_then = loop(tmp_path), made(str(tmp_path))
    assert loop(tmp_path) == first
    assert json.dumps(first) == json.dumps(loop(tmp_path))
    assert (made(str(tmp_path)), len(set(Path(tmp_path, COUNT).read_text().split()))) == (made_then, 3)
    clean(tmp_path)


def test_a_program_that_is_started_again_without_the_key_is_told_so_and_calls_nothing(
    tmp_path: Path, file: Path
) -> None:
    assert in_child(lambda: loop(tmp_path), crash_at="after_effect:3") == KILLED
    kept, made_then = file.read_text(), made(str(tmp_path))
    file.unlink()
    with pytest.raises(SecretError, match="is encrypted: set REENACT_SEAL_KEY to the key that is called"):
        loop(tmp_path)
    assert (made(str(tmp_path)), file.exists()) == (made_then, False)
    file.write_text(kept)
    file.chmod(0o600)
    assert len(loop(tmp_path)) == 4


def test_a_tool_that_calls_the_name_of_another_a_password_shuts_nobody_out(tmp_path: Path) -> None:
    @skill("sly", version="1.0.0", tool_class="read")
    def sly() -> dict[str, str]:
        return {"password": "second_tool", "cookie": "my-order-42"}

    @skill("second_tool", version="1.0.0", tool_class="read")
    def second_tool() -> str:
        return "here"

    def start() -> list[object]:
        with Bench(tmp_path, sly, second_tool).runtime.session(id="sly") as session:
            made = [session.call("sly"), session.call("second_tool", idempotency_key="my-order-42")]
            made.append(session.call("second_tool", step_id="second_tool"))
        return [outcome.output for outcome in made]

    assert in_child(start, crash_at="before_dispatch:3") == KILLED
    for _ in range(2):
        assert start() == [{"cookie": "my-order-42", "password": "second_tool"}, "here", "here"]


def test_a_recorded_session_is_run_over_with_the_key_of_its_own_store(tmp_path: Path) -> None:
    first = loop(tmp_path)
    bench, run_id = Bench(tmp_path, ask, log_in), Bench(tmp_path).store.find_run("last").run_id
    export_run(bench.path, run_id, tmp_path / "bundle")
    with bench.runtime.session(replay=run_id) as session:
        assert session.call("log_in").output == first[0]
        session.account_for([f"main:{number}" for number in (2, 3, 4)])
    with (
        pytest.raises(SecretError, match="the recorded answer of step main:1 is encrypted"),
        bench.runtime.session(replay=tmp_path / "bundle") as session,
    ):
        session.call("log_in")


def test_a_duplicate_of_a_call_before_a_crash_carries_its_output_as_it_was(tmp_path: Path) -> None:
    @skill("once", version="1.0.0", tool_class="read", idempotent=True)
    def once() -> dict[str, str]:
        return {"z": "1", "session_token": TOKEN}

    options = {"duplicate_output": True}
    with pytest.raises(ZeroDivisionError), Bench(tmp_path, once).runtime.session(**options) as session:
        first = session.call("once").output
        raise ZeroDivisionError
    with Bench(tmp_path, once).runtime.session(resume=session.run_id, **options) as again:
        second = again.call("once")
    assert (second.code, json.dumps(second.output)) == ("DENIED_DUPLICATE", json.dumps(first))
    clean(tmp_path)


def test_a_run_goes_on_under_the_key_that_it_began_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert in_child(lambda: Bench(tmp_path, log_in, use).runtime.run(PLAN), crash_at="before_dispatch:2") == KILLED
    monkeypatch.setenv("REENACT_SEAL_KEY", "a key that came later, long enough")
    bench = Bench(tmp_path, log_in, use)
    (done,) = bench.runtime.recover()
    assert done.status == "completed"
    assert replay(bench.store, done.run_id).verdict == "matched"
    monkeypatch.delenv("REENACT_SEAL_KEY")
    assert replay(bench.store, done.run_id).verdict == "matched"


# -- without it --------------------------------------------------------------------------------------------------------


def test_a_run_that_needs_a_lost_key_is_held_and_goes_on_when_it_is_back(tmp_path: Path, file: Path) -> None:
    assert in_child(lambda: Bench(tmp_path, log_in, use).runtime.run(PLAN), crash_at="before_dispatch:2") == KILLED
    text, command = file.read_text(), Command(tmp_path)
    file.unlink()
    for _ in range(2):
        held = command("resume", "last", *SKILLS)
        assert held.code == 4
        assert "needs a value that is encrypted: set REENACT_SEAL_KEY to the key that is called" in held.out + held.err
        assert str(file) in held.out + held.err
    file.write_text(f"another-key-made-meanwhile\n{text}")
    file.chmod(0o600)
    assert command("resume", "last", *SKILLS).code == 0
    clean(tmp_path)


def test_a_served_answer_that_cannot_be_opened_says_so_and_nothing_is_called(tmp_path: Path, file: Path) -> None:
    parameters = {"folder": str(tmp_path), "prompt": PROMPT}
    with pytest.raises(ZeroDivisionError), Bench(tmp_path, ask).runtime.session() as session:
        first = session.call("ask", parameters, idempotency_key="k")
        raise ZeroDivisionError
    kept = file.read_text()
    file.unlink()
    bench = Bench(tmp_path, ask)
    with pytest.raises(ZeroDivisionError), bench.runtime.session(resume=session.run_id) as again:
        shut = again.call("ask", parameters, idempotency_key="k")
        raise ZeroDivisionError
    assert (shut.code, shut.output, made(str(tmp_path))) == ("ERR_SECRET_UNAVAILABLE", None, 1)
    assert str(file) in str((shut.details or {})["reason"])
    (recorded, *_) = RunReader(bench.store, session.run_id).steps()
    with pytest.raises(SecretError, match="the recorded answer of step c1 is encrypted: set REENACT_SEAL_KEY"):
        Redactor(Secrets(), (), bench.store.encryption_file).answer(recorded.outcome())
    file.write_text(kept + file.read_text())  # what was recorded meanwhile has a key of its own
    file.chmod(0o600)
    with Bench(tmp_path, ask).runtime.session(resume=session.run_id) as last:
        served = last.call("ask", parameters, idempotency_key="k")
    assert (json.dumps(served.output), made(str(tmp_path))) == (json.dumps(first.output), 1)
    bench.check(session.run_id)


def test_the_doctor_tells_of_it(reenact: Command, tmp_path: Path, file: Path) -> None:
    def finding() -> dict[str, str]:
        (found,) = [each for each in reenact("doctor", "--json").json if each["subject"] == "encryption"]
        return dict(found)

    path = reenact.plan({"skill_id": "log_in"})
    plain = reenact.plan({"skill_id": "use", "parameters": {"session": "x"}}, name="plain.json")
    assert reenact("run", plain, *SKILLS).code == 0
    assert (finding()["verdict"], "nothing was encrypted" in finding()["says"]) == ("ok", True)
    assert reenact("run", path, *SKILLS).code == 0
    assert (finding()["verdict"], finding()["says"]) == ("ok", f"{file}, mode 600")
    file.chmod(0o644)
    assert (finding()["verdict"], finding()["do"]) == ("trouble", f"chmod 600 {file}")
    text = file.read_text()
    file.unlink()
    assert finding()["verdict"] == "warning"
    assert key_name(KeyFile(None).first()) not in finding()["says"]
    file.write_text("short")
    file.chmod(0o600)
    assert finding()["verdict"] == "trouble"
    file.write_text(text)
    file.chmod(0o600)
    assert reenact("doctor").code == 0


# -- who does not get it -----------------------------------------------------------------------------------------------


def test_neither_the_key_nor_what_it_encrypts_is_in_a_bundle_or_shown_unasked(reenact: Command, file: Path) -> None:
    assert reenact("run", reenact.plan({"skill_id": "log_in"}), *SKILLS).code == 0
    text, bundle = file.read_text().strip(), reenact.folder / "bundle"
    export_run(str(reenact.store), "last", bundle)
    assert not [path for path in bundle.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]
    assert leaks_in_files(bundle) == []
    assert not [
        path for path in reenact.folder.glob("store.db*") if path != file and text.encode() in path.read_bytes()
    ]
    for where in ("last", str(bundle)):
        shown = reenact("show", where, "--values", "--json")
        assert "$sealed" in shown.out
        assert leaks("what is shown", (shown.out + shown.err).encode()) == []
    opened = reenact("show", "last", "--values", "--unseal", "--json")
    assert opened.json["steps"][0]["output"] == {"session_token": TOKEN}
    shut = reenact("show", str(bundle), "--values", "--unseal")
    assert (shut.code, TOKEN in shut.out + shut.err) == (4, False)
    given = reenact("show", str(bundle), "--values", "--unseal", "--json", REENACT_SEAL_KEY=text)
    assert given.json["steps"][0]["output"] == {"session_token": TOKEN}


def test_who_listens_hears_nothing_of_what_a_caller_says(tmp_path: Path) -> None:
    @skill("careless", version="1.0.0", tool_class="write", public=["label"], side_effects=["http_request"])
    def careless(ctx: Any, label: str, prompt: str) -> None:
        ctx.progress(f"now {prompt}")
        ctx.side_effect("http_request", f"https://example.com/?api_key={TOKEN}")
        raise ValueError(f"cannot use {prompt} for {label}")

    notices: list[Notice] = []
    log = io.BytesIO()
    bench = Bench(tmp_path, careless, listeners=[notices.append, StructuredLog(log, redact=str)])
    with bench.runtime.session(goal=PROMPT) as session:
        session.call("careless", {"label": TOKEN, "prompt": PROMPT})
        session.call("careless", {"label": 5, "prompt": PROMPT})
        session.call("careless", {"label": "x", "prompt": [PROMPT]})
    assert len(notices) > 6
    assert leaks("the notices", repr(notices).encode()) == []
    assert leaks("the log", log.getvalue()) == []
    export_run(bench.path, session.run_id, tmp_path / "bundle")
    bench.check(session.run_id)
    assert replay(bench.store, session.run_id).verdict == "matched"
    clean(tmp_path)
