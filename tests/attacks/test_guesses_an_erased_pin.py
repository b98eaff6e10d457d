"""Somebody with a copy of the store and a bundle wants an erased PIN: does anything there confirm a right guess?"""

from __future__ import annotations

import hmac
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from hashlib import blake2b, sha256
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from reenact import Runtime, SkillContext, skill
from reenact.cli.commands.evidence.erase import KEYS_STAY
from reenact.errors import ReenactError
from reenact.record.erase import erase
from reenact.record.export import export_run
from reenact.store.checks.verification import verify_run
from reenact.store.compression import Codec
from reenact.values.canonical import canonicalize
from tests.cli.harness import Command

PIN = "4711"
CARD = "card-of-ada"
CALLS_TO_A_CHECKPOINT = 260
SKILL_IDS = ("check_pin", "set_pin")
STEP_IDS = ("check", "set", "keyed", "c1")
HEX = re.compile(rb"[0-9a-f]{64}")


@skill("check_pin", version="1.0.0", tool_class="read", idempotent=True)
def check_pin(card: str, pin: str) -> str:
    return f"{card}: {pin} is right"


@skill("set_pin", version="1.0.0", tool_class="write", honours_key=True)
def set_pin(ctx: SkillContext, card: str, pin: str) -> str:
    return f"{card}: {pin} is set"


SKILLS = (check_pin, set_pin)


class Loot:
    """What the files hold: raw bytes, cells, unpacked commits and envelopes, and all that may be a digest or a salt."""

    def __init__(self, path: Path, bundle: Path | None = None) -> None:
        files = [Path(f"{path}{suffix}") for suffix in ("", "-wal", "-shm")]
        if bundle is not None:
            files += [file for file in bundle.rglob("*") if file.is_file()]
        self.raw = [file.read_bytes() for file in files if file.exists()]
        self.secret = key_secret(path)
        self.short: set[bytes] = set()
        for cell in cells(path):
            self.raw += [cell, unpacked(cell)]
            if len(cell) in (16, 32):
                self.short.add(cell.hex().encode())
        self.digests = {found for part in self.raw for found in HEX.findall(part)} | self.short
        self.salts = [bytes.fromhex(found.decode()) for found in self.digests if len(found) == 64]
        self.step_keys = {found for part in self.raw for found in re.findall(rb"s:([0-9a-f]{64})", part)}
        self.runs = {found for part in self.raw for found in re.findall(rb'"key_run":"([^"]+)"', part)}

    def tells(self, pin: str) -> bool:
        """Whether anything in the files confirms a guess."""
        beside = re.compile(rb"%b.{1,20}%b" % (CARD.encode(), pin.encode()), re.DOTALL)
        if any(beside.search(part) for part in self.raw):
            return True
        arguments = {"card": CARD, "pin": pin}
        texts = [canonicalize(f"{CARD}: {pin} is {word}") for word in ("right", "set")]
        for skill_id in SKILL_IDS:
            texts += [
                canonicalize(arguments),
                canonicalize(["request", "local", skill_id, arguments]),
                canonicalize([skill_id, arguments]),
                canonicalize({"args": arguments, "skill_id": skill_id}),
            ]
        return any(self.has_digest(text) for text in texts) or self.has_step_key(canonicalize(arguments))

    def has_digest(self, text: bytes) -> bool:
        if sha256(text).hexdigest().encode() in self.digests:
            return True
        return any(
            hmac.digest(salt, text, "sha256").hex().encode() in self.digests
            or sha256(salt + text).hexdigest().encode() in self.digests
            or blake2b(text, key=salt, digest_size=16).hexdigest().encode() in self.digests
            for salt in self.salts
        )

    def has_caller_key(self, key: str) -> bool:
        """A caller's is made of the store's secret alone."""
        said = (canonicalize(["caller", "local", skill_id, key]) for skill_id in SKILL_IDS)
        return any(hmac.digest(self.secret, text, "sha256").hex().encode() in self.digests for text in said)

    def has_step_key(self, content: bytes) -> bool:
        """A step's own key is made of the store's secret, which is there, and of the run's salt."""
        for salt in self.salts:
            inner = hmac.digest(salt, content, "sha256").hex()
            for run, step, skill_id in product(self.runs, STEP_IDS, SKILL_IDS):
                said = canonicalize(["step", run.decode(), step, "local", skill_id, inner])
                if hmac.digest(self.secret, said, "sha256").hex().encode() in self.step_keys:
                    return True
        return False


def cells(path: Path) -> Iterator[bytes]:
    with closing(sqlite3.connect(path)) as db:
        db.text_factory = bytes
        for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            for row in db.execute(f"SELECT * FROM {table.decode()}"):
                yield from (cell for cell in row if isinstance(cell, bytes))


def unpacked(cell: bytes) -> bytes:
    try:
        return Codec().unpack(cell)
    except ReenactError:
        return b""


def key_secret(path: Path) -> bytes:
    with closing(sqlite3.connect(path)) as db:
        return bytes(db.execute("SELECT secret FROM key_secret").fetchone()[0])


def run_of_a_plan(runtime: Runtime) -> str:
    steps = [
        {"step_id": "check", "skill_id": "check_pin", "parameters": {"card": CARD, "pin": PIN}},
        {"step_id": "set", "skill_id": "set_pin", "parameters": {"card": CARD, "pin": PIN}},
        {
            "step_id": "keyed", "skill_id": "set_pin", "parameters": {"card": CARD, "pin": PIN},
            "idempotency_key": "the caller's own",
        },
    ]  # fmt: skip
    return runtime.run({"plan_id": "p", "agent_id": "a", "steps": steps}).run_id


def run_of_a_session(runtime: Runtime) -> str:
    with runtime.session(agent_id="a") as session:
        session.call("check_pin", {"card": CARD, "pin": PIN})
        for n in range(CALLS_TO_A_CHECKPOINT):
            session.call("check_pin", {"card": CARD, "pin": f"x{n}"})
    return session.run_id


@pytest.mark.parametrize("work", [run_of_a_plan, run_of_a_session])
def test_holds_the_right_pin_against_all_that_is_left(tmp_path: Path, work: Callable[[Runtime], str]) -> None:
    """Before the erasure a guess is confirmed; after it none of the digests, keys, salts, logs and free pages tells."""
    path = tmp_path / "store.db"
    runtime = Runtime(str(path), skills=SKILLS)
    run_id = work(runtime)
    assert Loot(path).tells(PIN), "the control: what is there can be found"
    erase(runtime.store, run_id, None, who="ada", reason="asked to")
    folder = tmp_path / "bundle"
    export_run(str(path), run_id, folder)
    assert not Loot(path, folder).tells(PIN)
    runtime.close()
    assert not Loot(path, folder).tells(PIN), "nor after the log went into the file"


def test_the_salt_goes_with_the_run(tmp_path: Path) -> None:
    """What recovery starts from holds the salt of a long session, and goes too; verify knows why."""
    path = tmp_path / "store.db"
    runtime = Runtime(str(path), skills=SKILLS)
    run_id = run_of_a_session(runtime)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(*) FROM run_checkpoints").fetchone() != (0,)
    erase(runtime.store, run_id, None, who="ada", reason="asked to")
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(*) FROM run_checkpoints").fetchone() == (0,)
        assert db.execute("SELECT count(*) FROM idempotency WHERE request_digest IS NOT NULL").fetchone() == (0,)
    assert verify_run(str(path), run_id).exit_code == 0


def test_the_digest_beside_a_key_goes_with_its_call(tmp_path: Path) -> None:
    """Of one erased step nothing stays that its arguments were compared by."""
    path = tmp_path / "store.db"
    runtime = Runtime(str(path), skills=SKILLS)
    run_id = run_of_a_plan(runtime)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(request_digest) FROM idempotency").fetchone() == (1,)
    erase(runtime.store, run_id, "keyed", who="ada", reason="asked to")
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(request_digest) FROM idempotency").fetchone() == (0,)


# -- a PIN in each of the places that one may stand in -----------------------------------------------------------------


@skill("refuse_pin", version="1.0.0", tool_class="read")
def refuse_pin(card: str) -> str:
    raise ValueError(f"{card}: {PIN} is wrong")


@skill("tell_pin", version="1.0.0", tool_class="read")
def tell_pin(card: str) -> str:
    return f"{card}: {PIN} is right"


def by_arguments(session: Any) -> None:
    session.call("check_pin", {"card": CARD, "pin": PIN}, step_id="check")


def by_output(session: Any) -> None:
    session.call("tell_pin", {"card": CARD}, step_id="check")


def by_error(session: Any) -> None:
    session.call("refuse_pin", {"card": CARD}, step_id="check")


def by_key(session: Any) -> None:
    session.call("set_pin", {"card": CARD, "pin": "none"}, step_id="check", idempotency_key=f"{CARD}: {PIN}")


STAYS_AS_THE_PAGE_SAYS = {
    by_arguments: (["step"], []),
    by_output: (["step"], []),
    by_error: (["step"], []),
    by_key: (["caller"], ["caller"]),
}
"""What is said of the keys after the erasure of the step, and of the run."""
CONFIRMED = {by_arguments: (True, False), by_output: (False, False), by_error: (False, False), by_key: (True, True)}
"""Whether the right guess is confirmed by anything then."""


@pytest.mark.parametrize("place", CONFIRMED)
def test_what_is_confirmed_after_an_erasure_is_what_the_command_and_the_page_say(
    tmp_path: Path, place: Callable[[Any], None]
) -> None:
    path = tmp_path / "store.db"
    runtime = Runtime(str(path), skills=(*SKILLS, refuse_pin, tell_pin))
    with runtime.session(agent_id="a", id="pins") as session:
        place(session)
    run_id = session.run_id
    runtime.close()
    assert tells(Loot(path)), "the control: what is there can be found"
    command = Command(tmp_path)
    for step_id, said, confirmed in zip((["check"], []), STAYS_AS_THE_PAGE_SAYS[place], CONFIRMED[place], strict=True):
        done = command("erase", run_id, *step_id, "--reason", "asked to", "--yes", "--json")
        assert done.json["keys_stay"] == said
        assert tells(Loot(path)) == confirmed
        again = command("erase", run_id, *step_id, "--reason", "asked to", "--yes")
        assert [line for line in again.out.splitlines() if "test guesses" in line] == [KEYS_STAY[each] for each in said]


def tells(loot: Loot) -> bool:
    """The right guess is confirmed, and a wrong one is not."""
    assert not any(one_tells(loot, pin) for pin in ("0815", "4712"))
    return one_tells(loot, PIN)


def one_tells(loot: Loot, pin: str) -> bool:
    return loot.tells(pin) or loot.has_caller_key(f"{CARD}: {pin}")
