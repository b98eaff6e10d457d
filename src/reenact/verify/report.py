"""What a verification says: four verdicts that stay apart, findings with a place, and the first break."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

import msgspec

Aspect = Literal["integrity", "completeness", "authenticity", "anchoring"]
Verdict = Literal["holds", "open", "absent", "broken", "contradicted"]

Covers = Literal["run", "part", "capabilities", "nothing"]

KEPT_FINDINGS: Final = 100
SHOWN_CHARACTERS: Final = 160

# Stable codes, the verdict that each breaks, and what it means.
CODES: Final[dict[str, tuple[Aspect, str]]] = {
    "MANIFEST_MISSING": ("integrity", "the bundle has no manifest.json"),
    "MANIFEST_MALFORMED": ("integrity", "manifest.json is not a canonical manifest"),
    "MANIFEST_DIGEST": ("integrity", "the manifest's digest does not recompute"),
    "FILE_MISSING": ("integrity", "the manifest names a file that is not there"),
    "FILE_EXTRA": ("integrity", "something is there that neither manifest nor journal names"),
    "FILE_KIND": ("integrity", "a link, folder or device stands where a plain file must"),
    "FILE_CHANGED": ("integrity", "a file's digest is not the manifest's"),
    "FILE_TOO_LARGE": ("integrity", "a file is larger than the format allows"),
    "FILE_MALFORMED": ("integrity", "a file beside the journal is not what it must be"),
    "JOURNAL_EMPTY": ("integrity", "there is no line to verify"),
    "LINE_TOO_LONG": ("integrity", "a line is longer than the format allows; reading stops there"),
    "LINE_NOT_CANONICAL": ("integrity", "a line is not JSON, or its bytes are not the canonical form of its value"),
    "LINE_MALFORMED": ("integrity", "a line is not of the form that its kind has"),
    "LINE_ORDER": ("integrity", "a line stands where its kind may not stand"),
    "EVIDENCE_TORN_TAIL": ("integrity", "the last line was cut: it has no newline"),
    "EVIDENCE_VERSION_UNKNOWN": ("integrity", "a record of a version that this verifier does not know"),
    "COMMIT_MISPLACED": ("integrity", "a commit does not begin with its commit line, and only there"),
    "COMMIT_EMPTY": ("integrity", "a commit holds nothing"),
    "COMMIT_NUMBER": ("integrity", "a commit is missing, repeated or out of order"),
    "COMMIT_PREV": ("integrity", "the commit before this one is not the one that it names"),
    "RUN_MISPLACED": ("integrity", "the run record is missing, repeated or not in the first commit"),
    "RUN_MISMATCH": ("integrity", "a record belongs to another run, or the run's mode and parent do not fit"),
    "HEAD_MISMATCH": ("integrity", "the last commit is not the one that its keeper remembers"),
    "STATE_SEQUENCE_GAP": ("integrity", "an entry is missing, repeated or out of order"),
    "STATE_CHECKSUM_MISMATCH": ("integrity", "an entry or checkpoint does not recompute"),
    "STATE_INVALID_TRANSITION": ("integrity", "a transition that the trace's state does not allow"),
    "MISSING_TOOL_CALL_ID": ("integrity", "a tool_call entry without its tool_call_id"),
    "ARTIFACT_DIGEST": ("integrity", "an artifact's digest does not recompute"),
    "ARTIFACT_LINK": ("integrity", "an artifact does not fit its entry or the artifact that it answers"),
    "ARTIFACT_CONTENT": ("integrity", "an artifact says what the format does not let it say"),
    "CAPABILITY_MISMATCH": ("integrity", "a capability allows something else than the call"),
    "CAPABILITY_EXPIRED": ("integrity", "a call went out under a capability that had expired"),
    "CAPABILITY_SIGNATURE": ("authenticity", "a capability's signature does not fit its key"),
    "NOTE_SIGNATURE": ("authenticity", "a note's signature does not fit its key, or the note is of another store"),
    "SEAL_NOT_SIGNED": ("authenticity", "the run was made where seals are signed, and nobody has signed its seal"),
    "KEY_INVALID": ("authenticity", "a key in keys.json is malformed or not the one that its kid names"),
    "ATTEMPT_CHAIN": ("integrity", "an attempt is missing, repeated or out of order"),
    "ATTEMPT_DIGEST": ("integrity", "an attempt's digest does not recompute"),
    "EFFECT_MISMATCH": ("integrity", "an effect does not follow from its attempts"),
    "CODE_MISMATCH": ("integrity", "an attempt's code does not stand for its facts"),
    "RETRY_MISMATCH": ("integrity", "an attempt was followed by another that the policy does not allow, or not then"),
    "BUDGET_MISMATCH": ("integrity", "a decision's amounts do not follow from the budget and what was spent"),
    "VOTE_MISMATCH": ("integrity", "a vote does not fit its request or the decision that names it"),
    "PLAN_MISMATCH": ("integrity", "the run does not follow the plan that it names"),
    "ARGUMENTS_MISMATCH": ("integrity", "a step's arguments are not what the plan and earlier outputs come to"),
    "REPLAY_MISMATCH": ("integrity", "REPLAY.jsonl is not what the journal says"),
    "RECEIPT_MISMATCH": ("integrity", "RECEIPT.json is not what the journal says"),
    "PAYLOAD_LOST": ("integrity", "a payload is missing, and no erasure record says why"),
    "PAYLOAD_CHANGED": ("integrity", "a payload's bytes are not those of its commitment"),
    "PAYLOAD_MALFORMED": ("integrity", "a payload is not a salt and canonical JSON"),
    "PAYLOAD_CONTENT": ("integrity", "a payload contradicts the record that names it"),
    "PAYLOAD_NOT_ERASED": ("integrity", "a payload is there although a record says that it was erased"),
    "ERASURE_CHAIN": ("integrity", "an erasure record does not recompute, or the chain of them is broken"),
    "NOTE_MALFORMED": ("integrity", "a signed note is not of the form that it must have"),
    "KEY_HISTORY": (
        "authenticity",
        "a key signs that nobody vouched for, or its rotation or replacement is not signed",
    ),
    "ERASURE_SIGNATURE": ("authenticity", "an erasure record is not signed by a key of the store"),
    "LOG_PROOF": ("anchoring", "the proof does not lead from the seal to a head of the store's log"),
    "LOG_SIGNATURE": ("anchoring", "a checkpoint, cosignature or time stamp does not fit its key"),
    "LOG_CONTRADICTED": ("anchoring", "somebody outside keeps a head of the log that this one contradicts"),
    "SEAL_DIGEST": ("integrity", "the seal's digest does not recompute"),
    "SEAL_HEAD": ("integrity", "the lines before the seal are not those that it names"),
    "SEAL_MISSING": ("completeness", "a seal is known for this run, and the journal does not end with it"),
    "SEAL_COUNT": ("completeness", "the seal counts other commits, traces or steps"),
    "SEAL_ROOT": ("completeness", "the seal's tree is over other traces or attempts"),
    "SEAL_STATUS": ("completeness", "the seal's status does not follow from how the traces ended"),
}


RULE_CODES: Final = frozenset({"ARGUMENTS_MISMATCH", "CODE_MISMATCH", "RETRY_MISMATCH", "BUDGET_MISMATCH"})
"""What is whole and signed, and contradicts the run's own rules."""


def shown(value: object) -> str:
    """Evidence as it may be printed: one line, bounded, nothing that moves a cursor or turns text around."""
    text = value if isinstance(value, str) else str(value)
    cut = text[:SHOWN_CHARACTERS]
    safe = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)
    return safe + "…" if len(text) > SHOWN_CHARACTERS else safe


class Where(msgspec.Struct, frozen=True, kw_only=True):
    """A place in the evidence. `line` counts from 1, `offset` is the first byte of that line, from 0.

    In a store `file` is a table and `row` one of its rows; `payload` is the commitment of the value that it is about.
    """

    file: str | None = None
    row: str | None = None
    commit: int | None = None
    line: int | None = None
    offset: int | None = None
    trace_id: str | None = None
    step_id: str | None = None
    payload: str | None = None


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One contradiction in the evidence."""

    code: str
    breaks: Aspect
    what: str
    expected: str | None
    got: str | None
    where: Where


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """What was read. `payloads` are the distinct ones that the journal names, of which the next five tell."""

    commits: int = 0
    lines: int = 0
    traces: int = 0
    attempts: int = 0
    payloads: int = 0
    present: int = 0
    erased: int = 0
    archived: int = 0
    lost: int = 0
    withheld: int = 0
    signatures: int = 0


class Anchor(msgspec.Struct, frozen=True, kw_only=True):
    """What stands for the run outside of its store: a head of the store's log that covers its seal."""

    origin: str
    index: int
    size: int
    root: str
    witnesses: tuple[str, ...] = ()
    """Those that are known here and saw that head."""
    known: int = 0
    """How many are."""
    since: str | None = None
    """When the first of them did."""
    kept: tuple[int, ...] = ()
    """Sizes of heads that the reader kept, and that the seal is in."""
    stamped: tuple[str, ...] = ()
    """Times that trusted time-stamp authorities gave for that head."""


class Signature(msgspec.Struct, frozen=True, kw_only=True):
    """What is signed, and by whom: what *authenticity* rests on."""

    covers: Covers = "nothing"
    """All of it, by the seal; up to `commits`, by a run checkpoint; what was approved and nothing that came of it."""
    by: Literal["trusted_key", "own_key", "untrusted_key"] | None = None
    """`trusted_key` is one that the reader trusts for this; `own_key` is the evidence's own, which nobody vouched for;
    `untrusted_key` signed where only trusted ones count."""
    kid: str | None = None
    trusted_as: str | None = None
    """The reader's name for it."""
    commits: int = 0
    is_open: bool = False
    """There is no seal yet: what is not signed may still be."""
    of: Literal["folder", "store"] = "folder"
    unapproved: int = 0
    """How many capabilities are signed by a key that is there, and not trusted for capabilities."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The verdicts and what they rest on. `findings` holds the first 100 of `broken_in_total`."""

    run_id: str | None
    integrity: Verdict
    completeness: Verdict
    authenticity: Verdict
    anchoring: Verdict
    first_break: Finding | None
    findings: tuple[Finding, ...]
    broken_in_total: int
    notes: tuple[str, ...]
    counts: Counts
    status: str | None
    head: str | None
    seal_digest: str | None
    prev_store_seal: str | None
    issuers: tuple[str, ...] = ()
    """The stores that the run's capabilities name as theirs."""
    anchor: Anchor | None = None
    seal_is_signed: bool = False
    """A key that is there signed the seal, and so the whole run."""
    signature: Signature = Signature()

    @property
    def exit_code(self) -> int:
        """0: integrity and completeness hold and nothing is contradicted; 1: broken; 4: no seal."""
        verdicts = (self.integrity, self.completeness, self.authenticity, self.anchoring)
        if "broken" in verdicts or "contradicted" in verdicts:
            return 1
        return 4 if self.completeness == "open" else 0


def unread(findings: tuple[Finding, ...], note: str) -> Report:
    """Of evidence that was not read, since what stands around it is broken."""
    return Report(
        run_id=None,
        integrity="broken",
        completeness="open",
        authenticity="absent",
        anchoring="absent",
        first_break=findings[0],
        findings=findings,
        broken_in_total=len(findings),
        notes=(note,),
        counts=Counts(),
        status=None,
        head=None,
        seal_digest=None,
        prev_store_seal=None,
    )


class Problem(msgspec.Struct, frozen=True):
    """What is wrong, before it is known where."""

    code: str
    what: str
    expected: object = None
    got: object = None

    def of(self, code: str, whose: str = "") -> Problem:
        """The same, told as what is wrong with the record that it is a part of."""
        return msgspec.structs.replace(self, code=code, what=f"{whose}: {self.what}" if whose else self.what)


class Findings:
    """Collects findings in the order in which they are met; keeps the first hundred and counts the rest."""

    def __init__(self) -> None:
        self.kept: list[Finding] = []
        self.total = 0
        self.broken: set[Aspect] = set()
        self.notes: dict[str, None] = {}  # in order, each once

    def add(self, problem: Problem, where: Where) -> None:
        breaks = CODES[problem.code][0]
        self.total += 1
        self.broken.add(breaks)
        if len(self.kept) < KEPT_FINDINGS:
            self.kept.append(
                Finding(
                    code=problem.code,
                    breaks=breaks,
                    what=shown(problem.what),
                    expected=None if problem.expected is None else shown(problem.expected),
                    got=None if problem.got is None else shown(problem.got),
                    where=where,
                )
            )

    def take(self, report: Report, place: str) -> None:
        """What was found in a part of the evidence, whose files lie at `place`."""
        room = KEPT_FINDINGS - len(self.kept)
        self.total += report.broken_in_total
        self.broken.update(finding.breaks for finding in report.findings)
        for each in report.findings[:room]:
            where = msgspec.structs.replace(each.where, file=f"{place}{each.where.file or ''}")
            self.kept.append(msgspec.structs.replace(each, where=where))

    def note(self, text: str) -> None:
        """Say something that breaks nothing."""
        self.notes[shown(text)] = None


def first_difference(code: str, pairs: Iterable[tuple[str, object, object]]) -> Problem | None:
    """The first of (what, expected, got) whose two sides differ, as a problem."""
    for what, expected, got in pairs:
        if expected != got:
            return Problem(code, f"{what} differs", _told(expected), _told(got))
    return None


def _told(value: object) -> object:
    return "null" if value is None else value
