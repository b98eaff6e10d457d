"""What a verification proves, in words for whoever receives the evidence and has never seen a journal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reenact.verify.render import in_words, is_only_beside, place
from reenact.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reenact.record.document_shape import EventDocument, RunDocument, StepDocument
    from reenact.store.checks.derived import Difference
    from reenact.verify.report import Report

ASPECTS = ("integrity", "completeness", "authenticity", "anchoring")
QUESTIONS = {
    "integrity": "Do the records fit together?",
    "completeness": "Is all there that their closing record counts?",
    "authenticity": "Who vouches for them?",
    "anchoring": "Has anybody outside seen them?",
}
SENTENCES = {
    ("integrity", "holds"): "The records fit together: every fingerprint in them was computed again and is right. "
    "Whether all of it was written anew is what the last two answers are about.",
    ("integrity", "broken"): "The records contradict themselves: something in them was changed, damaged, or taken from "
    "elsewhere. Do not rely on them; the findings say where.",
    ("completeness", "holds"): "The records are whole: they end with a closing record that counts what stands before "
    "it, and the count is right.",
    ("completeness", "open"): "The records have no end: either the run had not ended when they were taken, or its end "
    "was cut off. What came later is not known.",
    ("completeness", "broken"): "Something is missing from the records, or was added to them.",
    ("authenticity", "holds"): "A signature stands for the records, and it fits.",
    ("authenticity", "absent"): "No signature that counts stands for all of the records: whoever sent them could have "
    "written them.",
    (
        "authenticity",
        "broken",
    ): "A signature does not fit: the records are not what was signed, or somebody else signed them.",
    ("anchoring", "holds"): "Somebody outside keeps a fingerprint that covers these records: changing them later would "
    "show.",
    ("anchoring", "absent"): "Nothing shows that anybody outside has seen these records: whoever holds the signing key "
    "could have written other ones before sending them, and nothing here would show it.",
    ("anchoring", "contradicted"): "What should show that somebody outside has seen these records does not fit them, "
    "or somebody outside holds others: the findings say which.",
}
ONLY_BESIDE = "The records themselves fit together, but a file lies among them that does not belong to them."
OWN_KEY = (
    " The key came with the records, and nobody vouched for it: ask the sender for its fingerprint in some other way, "
    "and check again with the key that you were given."
)
OWN_WITNESSES = (
    " They are the witnesses that the sender's store itself names: whether they are anybody else is for you to find "
    "out. Name those that you know, and check again."
)
SIGNED_IN_PART = "A signature stands for the first part of the records, and it fits; nothing stands yet for the rest."
OWN_WORD = (
    "The records say what the tools answered and what was decided, at the times of the clock there. Whether a tool's "
    "answer was right, and the clock, is not something that records can prove."
)


@dataclass(frozen=True)
class Claim:
    """One of the four verdicts."""

    aspect: str
    verdict: str
    sentence: str
    rests_on: str
    is_own_word: bool = False
    """It holds by a key that came with the records, or by witnesses whom their store names."""

    @property
    def standing(self) -> str:
        if self.is_own_word:
            return f"{'signed' if self.aspect == 'authenticity' else 'seen'}; by whom is not proven"
        return "proven" if self.verdict == "holds" else "not proven"


@dataclass(frozen=True)
class Moment:
    """A line of the timeline."""

    ts: str
    what: str
    how: str
    detail: str


@dataclass(frozen=True)
class Told:
    """A finding with its place."""

    code: str
    where: str
    what: str
    expected: str | None
    got: str | None


@dataclass(frozen=True)
class Evidence:
    """Everything that a report for people says; nothing in it is escaped yet."""

    source: str
    report: Report
    checked_at: str
    required: tuple[str, ...] = ()
    """What the reader required, and is absent."""
    run: RunDocument | None = None
    differences: tuple[Difference, ...] = ()
    keys_are_trusted: bool = False
    """The reader named the key that signed."""
    witnesses_are_named: bool = True
    """The reader said whose cosignatures count; else they are the store's own list."""

    @property
    def headline(self) -> str:
        if self.report.exit_code == 1 or self.differences:
            return "These records cannot be relied on"
        if self.required:
            return f"What was asked for is not there: {', '.join(self.required)}"
        if self.report.exit_code == 4:
            return "The records fit together; their end is open"
        return "The records are whole, and fit together"

    @property
    def claims(self) -> list[Claim]:
        return [self._claim(aspect) for aspect in ASPECTS]

    def _claim(self, aspect: str) -> Claim:
        verdict = str(getattr(self.report, aspect))
        sentence = SENTENCES.get((aspect, verdict), "")
        if aspect == "integrity" and verdict == "broken" and is_only_beside(self.report):
            sentence = ONLY_BESIDE
        if aspect == "authenticity" and verdict == "holds" and self.report.signature.covers == "part":
            sentence = SIGNED_IN_PART
        addition = self._own_word(aspect) if verdict == "holds" else ""
        return Claim(aspect, verdict, sentence + addition, in_words(self.report, aspect), bool(addition))

    def _own_word(self, aspect: str) -> str:
        """What is to be said where a verdict rests on nobody's word but the sender's."""
        anchor = self.report.anchor
        if aspect == "authenticity" and not self.keys_are_trusted:
            return OWN_KEY
        if aspect == "anchoring" and anchor is not None and not (anchor.kept or anchor.stamped):
            return "" if self.witnesses_are_named else OWN_WITNESSES
        return ""

    @property
    def not_proven(self) -> Iterator[str]:
        """Besides what the four verdicts leave open."""
        counts = self.report.counts
        for number, what in (
            (counts.withheld, "were left out of what was sent"),
            (counts.erased, "were erased"),
            (counts.archived, "lie in an archive and not here"),
        ):
            if number:
                yield f"{number} of {counts.payloads} recorded values {what}: nothing is said about them."
        yield OWN_WORD

    @property
    def facts(self) -> list[tuple[str, str]]:
        report, counts = self.report, self.report.counts
        facts = [
            ("Checked", f"{self.source}, on {self.checked_at}, by reenact {__version__}"),
            ("Run", f"{report.run_id or 'unknown'}" + (f" ({report.status})" if report.status else "")),
            (
                "Read",
                f"{counts.traces} calls, {counts.attempts} attempts, {counts.present} of {counts.payloads} values",
            ),
        ]
        if report.seal_digest is not None:
            facts.append(("Closing record", report.seal_digest))
        facts += [("Store", issuer) for issuer in report.issuers]
        return facts

    @property
    def findings(self) -> Iterator[Told]:
        for each in self.report.findings:
            yield Told(each.code, place(each.where), each.what, each.expected, each.got)
        for other in self.differences:
            yield Told("DERIVED", f"{other.table}, {other.row}", other.what, other.expected, other.got)

    @property
    def more_findings(self) -> int:
        return self.report.broken_in_total - len(self.report.findings)

    @property
    def timeline(self) -> list[Moment]:
        """Calls and what people said, in the order of time. No values: only what was called, and how it went."""
        if self.run is None:
            return []
        moments = [moment(step) for step in self.run["steps"]] + [said(event) for event in self.run["events"]]
        return sorted(moments, key=lambda each: each.ts)


def moment(step: StepDocument) -> Moment:
    tries = len(step["attempts"])
    detail = f"{tries} attempts" if tries > 1 else ""
    if step["served_from"] is not None:
        detail = "answered from the record, nothing was sent"
    if step["message"]:
        detail = "; ".join(part for part in (detail, step["message"]) if part)
    how = step["state"].lower() + (f" ({step['code']})" if step["code"] not in (None, "SUCCESS") else "")
    return Moment(step["started_at"], f"{step['step_id']}: {step['skill']}", how, detail)


def said(event: EventDocument) -> Moment:
    about = "" if event["step_id"] is None else f" about {event['step_id']}"
    who = "" if event["who"] is None else f" by {event['who']}"
    how = event.get("decision") or event.get("resolution") or ""
    return Moment(event["ts"], f"{event['type']}{about}{who}", str(how), str(event.get("reason") or ""))
