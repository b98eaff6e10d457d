"""The journal of one run, line by line: chain, order, traces, checkpoints, seal. Steps 3 to 5 of the verifier."""

from __future__ import annotations

from collections import deque
from hashlib import sha256
from typing import Any, Final

from reenact.values.canonical import canonicalize
from reenact.values.digest import ZERO_DIGEST, digest
from reenact.verify.calls.foreign import ForeignLine, ForeignTrace
from reenact.verify.calls.rules import RunRules
from reenact.verify.capability import KeyRing
from reenact.verify.lines import (
    COMMIT_START,
    MAX_LINE_BYTES,
    AttemptLine,
    CheckpointLine,
    CommitLine,
    EntryLine,
    EventLine,
    RunCheckpointLine,
    RunLine,
    SealLine,
    VoteLine,
    read_line,
)
from reenact.verify.order import CommitOrder
from reenact.verify.payloads import PayloadCheck, Value
from reenact.verify.plan import (
    CallsMade,
    aborts,
    check_parent,
    check_run_plan,
    check_said,
    output_of,
    plan_hash,
    read_plan,
)
from reenact.verify.report import Findings, Problem, Where, first_difference
from reenact.verify.shapes import (
    ActionRequest,
    AnyArtifact,
    Attempt,
    Checkpoint,
    Event,
    Plan,
    Run,
    RunCheckpoint,
    Seal,
    SupervisorDecision,
    Vote,
)
from reenact.verify.traces import KeyCheck, Scene, Trace
from reenact.verify.tree import Tree

GIVE_UP_AFTER: Final = 1000
ABOUT_A_CALL: Final = frozenset({"resolve", "synthesized", "late", "went_on"})


class JournalCheck:
    """Takes a run's lines in order. Memory grows with the number of traces and payloads, not with their size."""

    def __init__(
        self, payloads: PayloadCheck, ring: KeyRing, findings: Findings, *, key_secret: bytes | None = None
    ) -> None:
        self.payloads, self.ring, self.findings, self.file = payloads, ring, findings, "journal.jsonl"
        self.keys = KeyCheck(secret=key_secret)
        self.run: Run | None = None
        self.run_id: str | None = None
        self.seal: Seal | None = None
        self.seal_is_sound = False
        self.plan: Plan | None = None
        self.plan_document: Any = None
        self.lines = self.commits = self.attempts = 0
        self.traces: dict[str, Trace] = {}
        self._order: CommitOrder | None = None
        self._body = sha256()
        self._offset = self._next_offset = 0
        self._open: dict[str, Trace] = {}
        self.votes: dict[str, Vote] = {}
        self.run_checkpoints: dict[str, int] = {}  # digest → commit
        self._outputs: dict[str, str | None] = {}  # by step, in a plan: what later ones refer to
        self._turns = self._spent = 0
        self._cancelled = False
        self._not_completed: list[int] = []
        self._assembled = 0  # the commit in which a session named its plan
        self._attempt_tree = Tree()
        # Heads of the first traces, as long as all of them have ended; the rest waits in `_later`.
        self._ended = Tree()
        self._later: deque[Trace] = deque()
        self._calls = CallsMade()
        self._rules = RunRules()

    @property
    def head(self) -> str | None:
        """SHA-256 of the last commit's body."""
        return self._body.hexdigest() if self.lines else None

    @property
    def _is_foreign(self) -> bool:
        return self.run is not None and self.run.kind == "trace"

    @property
    def gave_up(self) -> bool:
        return self.findings.total > GIVE_UP_AFTER

    def _where(self, trace: Trace | None = None, trace_id: str | None = None) -> Where:
        return Where(
            file=self.file,
            commit=self.commits or None,
            line=self.lines,
            offset=self._offset,
            trace_id=trace.trace_id if trace else trace_id,
            step_id=trace.step_id if trace else None,
        )

    def _report(self, problem: Problem | None, trace: Trace | None = None) -> None:
        if problem is not None:
            self.findings.add(problem, self._where(trace))

    def line(self, raw: bytes, *, starts_body: bool | None = None) -> bool:
        """Take the next line with its newline; False when reading must stop.

        `starts_body` says what is known from outside: whether a commit's body begins here.
        """
        self.lines += 1
        self._offset, self._next_offset = self._next_offset, self._next_offset + len(raw)
        if len(raw) > MAX_LINE_BYTES:
            self._report(Problem("LINE_TOO_LONG", f"a line of more than {MAX_LINE_BYTES} bytes"))
            return False
        begins = raw.startswith(COMMIT_START)
        if begins and starts_body is False:
            self._report(Problem("COMMIT_MISPLACED", "a commit line stands in the middle of a body"))
        previous = self._body.hexdigest() if self.commits else ZERO_DIGEST
        if begins or starts_body:
            self._close_commit()
            self._body = sha256()
            self._order = None if begins else CommitOrder()
            self.commits += not begins
        if starts_body and not begins:  # told once the count stands at the body that lacks it
            self._report(Problem("COMMIT_MISPLACED", "a body has no commit line"))
        # Step 3.1: canonical bytes of a known form.
        read = read_line(raw, ForeignLine if self._is_foreign else None)
        if isinstance(read, Problem):
            self._body.update(raw)
            if begins:
                self.commits += 1
                self._order = CommitOrder()
            if self._order is not None:
                self._order.lines += not begins
            self._report(read)
            return not self.gave_up
        record, value = read
        if self.seal is not None:
            self._report(Problem("LINE_ORDER", "a line stands after the seal"))
        if isinstance(record, CommitLine):
            self._commit(record, previous)
        else:
            self._place(str(value["kind"]))
            self._take(record, value)
        self._body.update(raw)
        return not self.gave_up

    def _commit(self, commit: CommitLine, previous: str) -> None:
        """Step 3.2: the run chain."""
        expected = self.commits + 1
        self.commits = commit.n
        self._order = CommitOrder()
        if self.run_id is None:
            self.run_id = self.payloads.run_id = commit.run_id
        if commit.n != expected:
            self._report(Problem("COMMIT_NUMBER", "the number of the commit", expected, commit.n))
        elif commit.prev != previous:
            what = f"prev: the bytes of commit {commit.n - 1} are not those that commit {commit.n} names"
            self._report(Problem("COMMIT_PREV", what, previous, commit.prev))
        if commit.run_id != self.run_id:
            self._report(Problem("RUN_MISMATCH", "the commit's run_id", self.run_id, commit.run_id))

    def _close_commit(self) -> None:
        if self._order is not None and self._order.lines == 0:
            self._report(Problem("COMMIT_EMPTY", f"commit {self.commits} holds nothing"))
        self._report(self.ring.check_head(self.run_id, self.commits, self._body))

    def _place(self, kind: str) -> None:
        """Step 3.3: order within the commit."""
        if self._order is None:
            self._report(Problem("COMMIT_MISPLACED", "a line stands before the first commit line"))
            self._order = CommitOrder()
        if self.run is None and kind != "run" and self.lines == 2:
            self._report(Problem("RUN_MISPLACED", "the run record is not the first line of the first commit"))
        self._report(self._order.place(kind))

    def _take(self, record: object, value: dict[str, Any]) -> None:
        if isinstance(record, EntryLine):
            self._entry(record, value)
        elif isinstance(record, AttemptLine):
            self._attempt(record.attempt, value["attempt"])
        elif isinstance(record, RunLine):
            self._run(record.run)
        elif isinstance(record, EventLine):
            self._event(record.event)
        elif isinstance(record, VoteLine):
            self._vote(record.vote, value["vote"])
        elif isinstance(record, CheckpointLine):
            self._checkpoint(record.checkpoint)
        elif isinstance(record, RunCheckpointLine):
            self._run_checkpoint(record.run_checkpoint, value["run_checkpoint"])
        elif isinstance(record, SealLine):
            self._seal(record.seal, value["seal"])

    def _run(self, run: Run) -> None:
        """Step 3.4: the run record and its plan."""
        if self.run is not None or self.commits != 1:
            self._report(Problem("RUN_MISPLACED", "a second run record, or one outside the first commit"))
            return
        self.run = run
        planned = run.kind == "plan"
        named = (run.plan_hash is not None, run.plan is not None, run.steps_planned is not None)
        difference = first_difference("RUN_MISMATCH", (("the run record's run_id", self.run_id, run.run_id),))
        if named != (planned, planned, planned) or not (planned or run.plan_id == run.run_id):
            what = f"a run of kind {run.kind} names its plan as another kind would"
            difference = Problem("PLAN_MISMATCH", what)
        self._report(difference or check_parent(run))
        if run.plan is not None:
            self._report(self._load_plan(run.plan))
            if self.plan is not None:
                self._report(check_run_plan(self.plan_document, self.plan, run))

    def _load_plan(self, commitment: str) -> Problem | None:
        found = self.payloads.value(commitment, self._where())
        if found is None:
            return None
        plan = read_plan(found.value)
        if not isinstance(plan, Plan):
            return plan
        self.plan, self.plan_document = plan, found.value
        self.keys.salt = bytes.fromhex(plan.context.pins.salt)
        return None

    def _event(self, event: Event) -> None:
        assert self._order is not None
        self._report(self._order.event(event.ts))
        if event.type == "turn" and not self._turns and event.data is not None:
            self._opening(self.payloads.value(event.data, self._where()))
        self._turns += event.type == "turn"
        self._cancelled |= event.type == "cancel"
        trace = self.traces.get(event.trace_id) if event.trace_id else None
        if event.type in ("resolve", "late") and trace is not None:
            trace.overruled = True
        where = self._where(trace, event.trace_id)
        if event.type in ABOUT_A_CALL and trace is None:
            what = f"an event of type {event.type} is about no call that the run has begun"
            self.findings.add(Problem("RUN_MISMATCH", what), where)
        self.payloads.see(event.reason, where)
        self.payloads.see(event.data, where)
        if event.type in ("accept_changed", "went_on", "pinned"):
            said = None if event.data is None else self.payloads.value(event.data, where)
            self._report(check_said(event, said, self.plan, self.run))
        if event.type == "finish" and event.data and self.run is not None and self.run.kind == "session":
            self._assembled = self.commits
            self._report(self._load_plan(event.data))

    def _opening(self, found: Value | None) -> None:
        """What a session knew when it began has the salt of the plan that it comes to."""
        opened = None if found is None else read_plan(found.value)
        if isinstance(opened, Plan):
            self.keys.salt = bytes.fromhex(opened.context.pins.salt)

    def _vote(self, vote: Vote, value: dict[str, Any]) -> None:
        trace = self.traces.get(vote.trace_id)
        request = None if trace is None else trace.request
        recomputed = digest({key: item for key, item in value.items() if key != "digest"})
        self.votes[vote.digest] = vote
        self.payloads.see(vote.reason, self._where(trace, vote.trace_id))
        if trace is not None and trace.damaged:
            return
        state = "unknown" if trace is None else trace.chain.state
        asked = request.digest if request is not None else None
        self._report(
            first_difference(
                "VOTE_MISMATCH",
                (
                    ("the digest of a vote", recomputed, vote.digest),
                    ("the state of the trace that is voted on", "PENDING", state),
                    ("the vote's action_request_digest", asked, vote.action_request_digest),
                ),
            ),
            trace,
        )

    def _trace(self, trace_id: str) -> Trace:
        trace = self.traces.get(trace_id)
        if trace is None:
            kind = ForeignTrace if self._is_foreign else Trace
            trace = self.traces[trace_id] = kind(trace_id, len(self.traces))
            self._open[trace_id] = trace
            self._later.append(trace)
        return trace

    def _entry(self, line: EntryLine, value: dict[str, Any]) -> None:
        """Step 4: entries, artifacts and capabilities."""
        assert self._order is not None
        trace = self._trace(line.entry.trace_id)
        opens = line.entry.sequence_number == 1
        self._report(self._order.unit(trace.trace_id, trace.index), trace)
        if self.run is None:  # already told; without it nothing but the chain can be checked
            self._report(trace.chain.append(value["entry"]), trace)
            trace.damaged = True
            return
        if opens and self.run.kind == "plan" and len(self._open) > 1:
            what = "a step is requested while an earlier one has not ended"
            self._report(Problem("LINE_ORDER", what), trace)
        scene = Scene(
            run=self.run,
            plan=self.plan,
            payloads=self.payloads,
            ring=self.ring,
            keys=self.keys,
            votes=self.votes,
            outputs=self._outputs,
            turns=self._turns,
            where=self._where(trace),
        )
        sound = True
        for problem in trace.entry(line, value, scene):
            sound = False
            self._report(problem, trace)
        self._rules.time(trace.trace_id, scene.where, line.entry.ts)
        if self._is_foreign:
            pass  # no plan, no budget
        elif opens and isinstance(line.artifact, ActionRequest):
            self._calls.add(line.artifact)
        elif isinstance(line.artifact, SupervisorDecision) and sound and not trace.damaged:
            self._report(self._rules.decision(line.artifact, self.run, self.plan, self._spent), trace)
        if trace.chain.terminal:
            self._end_trace(trace, line.artifact)

    def _end_trace(self, trace: Trace, last: AnyArtifact) -> None:
        self._open.pop(trace.trace_id, None)
        self._rules.ended(trace.trace_id)
        if trace.step_id is not None and self.plan is not None:
            self._outputs[trace.step_id] = output_of(last) if trace.chain.state == "COMPLETED" else None
        is_duplicate = (
            isinstance(last, SupervisorDecision) and not self._is_foreign and last.meta.code == "DENIED_DUPLICATE"
        )
        if trace.chain.state != "COMPLETED" and not is_duplicate:
            self._not_completed.append(trace.index)
        while self._later and self._later[0].chain.terminal and not self._later[0].damaged:
            self._ended.append(self._later.popleft().leaf())

    def _attempt(self, record: Attempt, value: dict[str, Any]) -> None:
        """Step 4.4: attempts."""
        assert self._order is not None
        self.attempts += 1
        self._spent += int(record.cost_exact)
        keys = {"digest": record.digest, "ordinal": record.ordinal, "trace_id": record.trace_id}
        self._attempt_tree.append(canonicalize(keys))
        trace = self.traces.get(record.trace_id)
        if trace is None:
            what = "an attempt of a trace that has no entry"
            self.findings.add(Problem("ATTEMPT_CHAIN", what), self._where(trace_id=record.trace_id))
            return
        self._report(self._order.unit(trace.trace_id, trace.index), trace)
        for problem in trace.attempt(record, value):
            self._report(problem, trace)
        if not trace.damaged:
            self._report(self._rules.attempt(record, trace.step_id, trace.index, self._where(trace)), trace)
        self.payloads.see(record.response, self._where(trace))
        told = self.payloads.value(record.response, self._where(trace)) if record.kind == "lost" else None
        if told is not None:
            self._report(trace.loss_problem(told), trace)

    def _checkpoint(self, record: Checkpoint) -> None:
        """Step 4.5: checkpoints of traces."""
        assert self._order is not None
        trace = self.traces.get(record.trace_id)
        if trace is None or self.run is None:
            problem = Problem("STATE_CHECKSUM_MISMATCH", "a checkpoint of a trace that has no entry")
            self.findings.add(problem, self._where(trace_id=record.trace_id))
            return
        self._report(self._order.checkpoint(trace.index), trace)
        self._report(trace.checkpoint(record, self.run.plan_id), trace)

    def _run_checkpoint(self, record: RunCheckpoint, value: dict[str, Any]) -> None:
        """Step 4.6: checkpoints of the run."""
        self.run_checkpoints[record.digest] = self.commits
        recomputed = digest({key: item for key, item in value.items() if key != "digest"})
        reserved = record.reserved_exact if self._open else "0"
        self._report(
            first_difference(
                "STATE_CHECKSUM_MISMATCH",
                (
                    ("the digest of a run checkpoint", recomputed, record.digest),
                    ("the run checkpoint's run_id", self.run_id, record.run_id),
                    ("the run checkpoint's commits", self.commits, record.commits),
                    ("the run checkpoint's run_head", self.head, record.run_head),
                    ("the run checkpoint's root", self._root(terminal_only=True), record.root),
                    ("the run checkpoint's open traces", list(self._open), record.open),
                    ("the run checkpoint's spent_exact", str(self._spent), record.spent_exact),
                    ("the run checkpoint's reserved_exact", reserved, record.reserved_exact),
                ),
            )
        )

    def _root(self, *, terminal_only: bool = False) -> str:
        return self._ended.root(trace.leaf() for trace in self._later if trace.chain.terminal or not terminal_only)

    def _seal(self, seal: Seal, value: dict[str, Any]) -> None:
        """Step 5: the seal."""
        self.seal = seal
        recomputed = digest({key: item for key, item in value.items() if key != "seal_digest"})
        is_own, follows = seal.seal_digest == recomputed, seal.run_head == self.head
        other = None if is_own else Problem("SEAL_DIGEST", "seal_digest", recomputed, seal.seal_digest)
        moved = None if follows else Problem("SEAL_HEAD", "run_head", self.head, seal.run_head)
        self.seal_is_sound = other is None and moved is None
        self._report(other)
        self._report(moved)
        self._report(first_difference("RUN_MISMATCH", (("the seal's run_id", self.run_id, seal.run_id),)))
        session = self.run is not None and self.run.kind != "plan"
        planned = None if self.run is None or session else self.run.steps_planned
        self._report(
            first_difference(
                "SEAL_COUNT",
                (
                    ("commits", self.commits, seal.commits),
                    ("traces", len(self.traces), seal.traces),
                    ("steps_planned", len(self.traces) if session else planned, seal.steps_planned),
                ),
            )
        )
        self._report(
            first_difference(
                "SEAL_ROOT",
                (
                    ("root", self._root(), seal.root),
                    ("attempts_root", self._attempt_tree.root(), seal.attempts_root),
                ),
            )
        )
        self._seal_status(seal, session=session)
        self._report(self._seal_plan(seal, session=session))

    def _seal_status(self, seal: Seal, *, session: bool) -> None:
        """Step 5.1: the status follows from how the traces ended, and from whether somebody cancelled the run."""
        for trace in self._open.values():
            if not trace.damaged and seal.status != "cancelled":
                what = f"the run is sealed while a trace is {trace.chain.state}"
                self._report(Problem("SEAL_STATUS", what), trace)
        if seal.status == "completed" and not session and seal.traces != seal.steps_planned:
            what = "the traces of a completed run"
            self._report(Problem("SEAL_STATUS", what, seal.steps_planned, seal.traces))
        told = seal.status != "cancelled" and bool(self._open)
        if told or self.run is None or any(trace.damaged for trace in self.traces.values()):
            return
        expected = self._expected_status(session=session)
        if seal.status not in expected:
            what = "the status does not follow from how the traces ended"
            self._report(Problem("SEAL_STATUS", what, " or ".join(expected), seal.status))

    def _expected_status(self, *, session: bool) -> tuple[str, ...]:
        if self._cancelled:
            return ("cancelled",)
        if self._is_foreign:
            return ("failed",) if self._not_completed else ("completed",)
        if session:
            return ("completed",)  # its calls fail, and it goes on
        if self.plan is None and self._not_completed:
            return ("completed", "failed")  # only the plan says which steps end the run
        ended = any(self.plan is not None and aborts(self.plan, index) for index in self._not_completed)
        return ("failed",) if ended else ("completed",)

    def _seal_plan(self, seal: Seal, *, session: bool) -> Problem | None:
        if not session or self._is_foreign:
            named = None if self.run is None else self.run.plan_hash
            return first_difference("PLAN_MISMATCH", (("the seal's plan_hash", named, seal.plan_hash),))
        if self._assembled != self.commits:
            return Problem("PLAN_MISMATCH", "the session is sealed, and no finish event with the seal names its plan")
        if self.plan is None or self.run is None:
            return None
        return first_difference(
            "PLAN_MISMATCH",
            (
                ("the seal's plan_hash", plan_hash(self.plan_document), seal.plan_hash),
                ("the assembled plan's plan_id", self.run.run_id, self.plan.plan_id),
                ("the calls of the assembled plan", *self._calls.held_against(self.plan)),
            ),
        )

    def end(self) -> None:
        """Call once after the last line."""
        if not self.lines:
            self.findings.add(Problem("JOURNAL_EMPTY", "the journal has no line"), Where(file=self.file))
            return
        self._close_commit()
        for problem, where in self._rules.retries(self.run, self.plan):
            self.findings.add(problem, where)
        self._rules.note_times(self.findings)
