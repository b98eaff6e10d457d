"""The demo's script, act by act: each runs commands, shows their output, and makes claims that it checks."""

from __future__ import annotations

import shutil
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from reenact.cli.demo.plan import CRASH_POINT, ORDER_STEP
from reenact.cli.demo.service import UNAVAILABLE
from reenact.cli.demo.workshop import SKILLS, Ran, Workshop
from reenact.cli.screens.printing import plural
from reenact.verify.report import Report, Where
from reenact.verify.verifier import verify_bundle


@dataclass(frozen=True, slots=True)
class Claim:
    """Something that the demo says, and whether it was so."""

    text: str
    held: bool


class Narrator(Protocol):
    """Where the demo's output goes while it happens."""

    def title(self, number: int, text: str) -> None: ...
    def command(self, shown: str) -> None: ...
    def ended(self, ran: Ran) -> None: ...
    def remark(self, text: str) -> None: ...
    def claim(self, claim: Claim) -> None: ...


@dataclass(slots=True)
class Story:
    """The demo's acts over one workshop. `claims` and `commands` are what has been claimed and run so far."""

    shop: Workshop
    narrator: Narrator
    claims: list[Claim] = field(default_factory=list)
    commands: list[Ran] = field(default_factory=list)

    def tell(self) -> None:
        acts = (
            ("A plan runs against a flaky service, and is killed with kill -9 in the middle", self.run_and_kill),
            ("Recovery goes on where the journal ends", self.recover),
            ("What happened: attempts, back-offs, costs, digests", self.timeline),
            ("Played back: the same plan, every answer from the recording", self.replay),
            ("Handed to a stranger: a folder that is checked without our store", self.export_and_verify),
            ("One byte is changed in a copy", self.tamper),
        )
        for number, (title, act) in enumerate(acts, start=1):
            self.narrator.title(number, title)
            act()

    # -- telling ---------------------------------------------------------------------------------------------------

    def reenact(self, *arguments: str, crash_at: str | None = None) -> Ran:
        self.narrator.command("reenact " + " ".join(arguments))
        ran = self.shop.reenact(*arguments, crash_at=crash_at)
        self.commands.append(ran)
        self.narrator.ended(ran)
        return ran

    def claim(self, text: str, *, held: bool) -> None:
        claim = Claim(text, held)
        self.claims.append(claim)
        self.narrator.claim(claim)

    def tell_ledger(self) -> dict[str, int]:
        """What the service says it did."""
        ledger = self.shop.ledger()
        quotes, asked, placed = ledger["quotes_asked"], ledger["orders_asked"], ledger["orders_placed"]
        self.narrator.remark(
            f"the service counts {plural(quotes, 'request')} for a quote, {plural(asked, 'request')} for an order, "
            f"{plural(placed, 'order')} placed"
        )
        return ledger

    # -- the acts --------------------------------------------------------------------------------------------------

    def run_and_kill(self) -> None:
        ran = self.reenact("run", "plan.json", "--skills", SKILLS, crash_at=CRASH_POINT)
        ledger = self.tell_ledger()
        statuses = [row.status for row in self.shop.runs()]
        self.claim("the process died of SIGKILL, with no chance to clean up", held=ran.code == -signal.SIGKILL)
        self.claim(
            "the order is placed out there, and the journal does not know it yet",
            held=ledger["orders_placed"] == 1 and statuses == ["running"],
        )

    def recover(self) -> None:
        ran = self.reenact("recover", "--skills", SKILLS)
        ledger = self.tell_ledger()
        statuses = [row.status for row in self.shop.runs()]
        self.claim("the run is completed", held=ran.code == 0 and statuses == ["completed"])
        self.claim(
            "what was recorded was not asked for again: no further quote",
            held=ledger["quotes_asked"] == UNAVAILABLE + 1,
        )
        self.claim(
            "the order in doubt was sent again with the same key, and placed once",
            held=ledger["orders_asked"] == 2 and ledger["orders_placed"] == 1,
        )

    def timeline(self) -> None:
        ran = self.reenact("show", "last")
        run = self.shop.document()
        attempts = {step["step_id"]: step["attempts"] for step in run["steps"]}
        quote, order = attempts.get("quote", []), attempts.get(ORDER_STEP, [])
        self.claim(
            f"{plural(UNAVAILABLE, 'refusal')} with their back-offs are on record, and then the answer",
            held=ran.code == 0
            and [item["code"] for item in quote] == ["ERR_HTTP_503"] * UNAVAILABLE + ["OK_HTTP_CALL"]
            and all(item["backoff_ms"] for item in quote[:UNAVAILABLE]),
        )
        self.claim(
            "so is the doubt about the order, and how it was settled",
            held=[item["kind"] for item in order] == ["redispatch", "attempt"],
        )
        self.claim("the run is sealed", held=run["seal"] is not None)

    def replay(self) -> None:
        before = self.shop.ledger()
        ran = self.reenact("replay", "last", "--mode", "mock_replay", "--skills", SKILLS)
        self.claim("it behaves the same: codes, retries, back-offs, costs, side effects, order", held=ran.code == 0)
        self.claim("the service was not called", held=self.shop.ledger() == before)

    def export_and_verify(self) -> None:
        exported = self.reenact("export", "last", "--to", "bundle")
        verified = self.reenact("verify", "./bundle")
        self.claim("the exported folder verifies", held=exported.code == 0 and verified.code == 0)
        self.claim("so does the store, and its derived tables agree", held=self.shop.verify_store() == 0)

    def tamper(self) -> None:
        bundle, forged = self.shop.folder / "bundle", self.shop.folder / "forged"
        shutil.copytree(bundle, forged)
        line, before, after = flip_one_byte(forged / "journal.jsonl")
        self.narrator.remark(f"in the copy's journal.jsonl, line {line}, {before} becomes {after}")
        ran = self.reenact("verify", "./forged")
        place = first_place(verify_bundle(forged))
        self.claim("it is found", held=ran.code == 1)
        self.claim(
            f"and where: line {line}, step {ORDER_STEP}",
            held=place is not None and (place.line, place.step_id) == (line, ORDER_STEP),
        )
        self.claim("the folder that nobody touched still verifies", held=verify_bundle(bundle).exit_code == 0)


def flip_one_byte(journal: Path) -> tuple[int, str, str]:
    """The order's effect gets another code: one bit of one byte. (line, before, after)"""
    data = bytearray(journal.read_bytes())
    before, word = b'"code":"', b"OK"
    effect = data.index(b'"document_hashes"', data.index(f'"step_id":"{ORDER_STEP}"'.encode()))
    at = data.index(before + word + b'"', effect) + len(before)
    data[at] ^= 1
    journal.write_bytes(data)
    return data.count(b"\n", 0, at) + 1, word.decode(), bytes(data[at : at + len(word)]).decode()


def first_place(report: Report) -> Where | None:
    return None if report.first_break is None else report.first_break.where
