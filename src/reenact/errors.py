"""Every exception that Reenact raises, in one tree. A tool's failure is never one of them: that is an outcome.

ReenactError                     has .code (stable) and .exit_code (the CLI's)
├── UsageError                   the caller's mistake                                     exit 2
│   ├── CanonicalizationError    a value that canonical JSON cannot express, with its path
│   ├── JsonSyntaxError          a text that is no strict JSON, with line and column
│   ├── PlanError                a plan that cannot be run, with path, line and column
│   │   ├── BeyondPolicy         it asks for more than the host's policy allows
│   │   └── UntrustedPlan        of a folder that would run live: its reader has not said that it is trusted
│   ├── PolicyError              a host's policy that cannot be read or used
│   ├── EvalSpecError            the spec of an evaluation that cannot be run
│   ├── SkillDeclarationError    a skill that cannot be declared or loaded
│   ├── SkillNotFound            no such id@version
│   ├── RunNotFound              no such run, or an ambiguous prefix
│   ├── RunEnded                 a sealed run: nothing is appended to it any more
│   ├── PolicyInputError         a policy function was given what it cannot decide on
│   │   └── UnknownPrice         a model without a price: its cost is not zero
│   ├── ToolCallError            arguments a tool call cannot have
│   ├── HashingError             an input that has no structured hash
│   │   ├── Unparseable          no YAML and no JSON: the tool that defined the hash refuses it too
│   │   └── Undecidable          what our reader does not decide: better no hash than a wrong one
│   └── SidecarError             a replay sidecar that is none, with the path of each field that is wrong
│       └── SidecarVersionError  written for a newer schema version
├── StoreError                   the store cannot be used                                 exit 3
│   ├── StoreUnavailable         missing, unreadable, full, read-only, not a database
│   │   ├── UnusableZip          a zip that is damaged, hostile, or not of one bundle
│   │   ├── postgres: Lost       its server fell silent, or the connection broke
│   │   ├── StoreGone            its files were moved, replaced or deleted while it was in use
│   │   └── TooManyFiles         this process has as many files open as it may
│   ├── StoreBusy                somebody else is writing; try again
│   │   └── postgres: Again      its server undid what two did at once; nothing was done
│   └── StoreVersionError        written by a newer version
├── StateError                   the log's stable codes (STATE_…)                         exit 1
│   ├── InvalidTransition        STATE_INVALID_TRANSITION
│   ├── SequenceGap              STATE_SEQUENCE_GAP
│   ├── ChecksumMismatch         STATE_CHECKSUM_MISMATCH
│   ├── MissingToolCallId        MISSING_TOOL_CALL_ID
│   ├── ConcurrentExecution      STATE_CONCURRENT_EXECUTION
│   ├── LockAcquireFailed        STATE_LOCK_ACQUIRE_FAILED
│   ├── KeyTaken                 IDEMPOTENCY_IN_FLIGHT: another call reserved the key first
│   ├── FundsTaken               ERR_BUDGET_EXCEEDED: other calls reserved the money first
│   ├── RecoveryFailed           STATE_RECOVERY_FAILED: what a run needs to go on cannot be read, or its code raised
│   └── RecoveryUnfinished       STATE_RECOVERY_UNFINISHED: nothing of the run moves; it is left        exit 4
├── EvidenceError                a recording that cannot be read as what it claims to be   exit 1
│   ├── TornTail                 the last line was cut
│   ├── DamagedRecord            damage in the middle
│   ├── NotAuthentic             what the store's key did not vouch for, or not for this: nothing goes on with it
│   ├── UnknownVersion           written by a newer version
│   ├── ReplayLogError           a replay log that is none, with line and byte; its codes: REPLAY_…
│   ├── ReceiptError             a receipt that is none
│   └── UnsealedRecording        a run without its seal: its end is not known              exit 4
├── KeyUnavailable               the signing key that a run began with is not here          exit 4
├── SecretError                  a secret is missing, or stands where none may stand       exit 4
├── WaitingForPerson             a session's call needs a person first                     exit 4
├── Draining                     the runtime is to end: it begins nothing new              exit 0
├── Diverged                     a program that was started again asks for something else   exit 1
├── DeterminismBroken            something changed since the recording: nothing is replayed live  exit 1
└── DeterminismViolation         decision code asked for a field that may differ           exit 1
SkillError.<CODE>                what a skill raises to name its failure; becomes an outcome
"""

from __future__ import annotations

import errno
import re
from collections.abc import Sequence
from typing import ClassVar, Self

_CODE = re.compile(r"[A-Z0-9_]{1,64}")


class ReenactError(Exception):
    """Base of all. `code` is stable across releases, the message is not."""

    code: str = "REENACT_ERROR"
    exit_code: int = 1

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code


class UsageError(ReenactError):
    code = "USAGE"
    exit_code = 2


class CanonicalizationError(UsageError):
    """A value that canonical JSON cannot express. `path` is a JSON Pointer to it."""

    code = "ERR_SERIALIZATION_FAILED"

    def __init__(self, message: str, *, path: str = "") -> None:
        super().__init__(f"{message} at {path or 'the top level'}")
        self.path = path


class JsonSyntaxError(UsageError):
    """A text that is no strict JSON. `line` and `column` count from 1, columns in characters."""

    code = "ERR_JSON_INVALID"

    def __init__(self, message: str, *, line: int, column: int) -> None:
        super().__init__(f"{message} (line {line}, column {column})")
        self.line = line
        self.column = column


class PlanError(UsageError):
    code = "PLAN_INVALID"


class BeyondPolicy(PlanError):
    """A plan, or a session, asks for what the host's policy does not allow. `key` is the policy's."""

    code = "POLICY_EXCEEDED"

    def __init__(self, message: str, *, key: str = "") -> None:
        super().__init__(message)
        self.key = key


class UntrustedPlan(PlanError):
    """What an exported folder recorded would be run live. `would` says what that comes to, by kind."""

    code = "PLAN_UNTRUSTED"

    def __init__(self, message: str, would: dict[str, list[str]]) -> None:
        super().__init__(message)
        self.would = would


class PolicyError(UsageError):
    """A host's policy that cannot be read or used. `key` is the one at fault, `shell.allow`."""

    code = "POLICY_INVALID"

    def __init__(self, message: str, *, key: str = "") -> None:
        super().__init__(message)
        self.key = key


class EvalSpecError(UsageError):
    """The spec of an evaluation that cannot be run."""

    code = "EVAL_INVALID"


class SkillDeclarationError(UsageError):
    code = "SKILL_DECLARATION_INVALID"


class SkillNotFound(UsageError):
    code = "ERR_SKILL_NOT_FOUND"


class RunNotFound(UsageError):
    code = "RUN_NOT_FOUND"

    @classmethod
    def several(cls, name: str, run_ids: Sequence[str]) -> Self:
        """The beginning of two ids, or a session's id that more than one agent has."""
        if not all(run_id.startswith(name) for run_id in run_ids):
            return cls(f"several runs have the session id {name!r}: name one by its own, {' or '.join(run_ids)}")
        return cls(f"{name!r} names several runs; give more of the run id")


class RunEnded(UsageError):
    code = "RUN_ENDED"


class PolicyInputError(UsageError):
    code = "POLICY_INPUT_INVALID"


class UnknownPrice(PolicyInputError):
    """`model` stands in no price table that was asked."""

    code = "PRICE_UNKNOWN"

    def __init__(self, message: str, *, model: str) -> None:
        super().__init__(message)
        self.model = model


class ToolCallError(UsageError):
    code = "TOOL_CALL_INVALID"


class HashingError(UsageError):
    """An input without a structured hash. `line` counts from 1, 0 where no line can be named.

    The message never holds any of the input's own text, so that it may be printed in a public log.
    """

    code = "HASH_IMPOSSIBLE"

    def __init__(self, message: str, *, line: int = 0) -> None:
        super().__init__(f"line {line}: {message}" if line else message)
        self.line = line


class Unparseable(HashingError):
    code = "HASH_UNPARSEABLE"


class Undecidable(HashingError):
    code = "HASH_UNDECIDABLE"


class SidecarError(UsageError):
    """A text that is no replay sidecar. `issues` has a mapping for each field that is wrong; it is empty when the
    text is not even JSON."""

    code = "SIDECAR_INVALID"

    def __init__(self, message: str, *, issues: tuple[dict[str, object], ...] = ()) -> None:
        super().__init__(message)
        self.issues = issues


class SidecarVersionError(SidecarError):
    code = "SIDECAR_VERSION_UNKNOWN"


class StoreError(ReenactError):
    code = "STORE_ERROR"
    exit_code = 3


class StoreUnavailable(StoreError):
    code = "STORE_UNAVAILABLE"


class UnusableZip(StoreUnavailable):
    code = "ZIP_UNUSABLE"


class StoreGone(StoreUnavailable):
    code = "STORE_GONE"


class TooManyFiles(StoreUnavailable):
    code = "STORE_TOO_MANY_FILES"
    numbers = (errno.EMFILE, errno.ENFILE)
    """What the system says then."""

    def __init__(self, place: str) -> None:
        super().__init__(
            f"{place}: this process has as many files open as it may: raise its limit (`ulimit -n`), or close sessions "
            "and runtimes that are not needed any more"
        )


class StoreBusy(StoreError):
    code = "STORE_BUSY"


class StoreVersionError(StoreError):
    code = "STORE_VERSION_UNKNOWN"


class StateError(ReenactError):
    code = "STATE_ERROR"


class InvalidTransition(StateError):
    code = "STATE_INVALID_TRANSITION"


class SequenceGap(StateError):
    code = "STATE_SEQUENCE_GAP"


class ChecksumMismatch(StateError):
    code = "STATE_CHECKSUM_MISMATCH"


class MissingToolCallId(StateError):
    code = "MISSING_TOOL_CALL_ID"


class ConcurrentExecution(StateError):
    code = "STATE_CONCURRENT_EXECUTION"
    exit_code = 3


class LockAcquireFailed(StateError):
    """Somebody works on the run, or seems to.

    `free_in_s` is set where nobody here can see whether the holder lives: if it does not, its lease ends by then.
    """

    code = "STATE_LOCK_ACQUIRE_FAILED"
    exit_code = 3

    def __init__(self, message: str, *, free_in_s: float | None = None) -> None:
        super().__init__(message)
        self.free_in_s = free_in_s


class KeyTaken(StateError):
    """Nothing was written: another call holds the idempotency key."""

    code = "IDEMPOTENCY_IN_FLIGHT"


class FundsTaken(StateError):
    """Nothing was written: what is spent and set apart leaves too little of a day's or a model's budget."""

    code = "ERR_BUDGET_EXCEEDED"


class RecoveryFailed(StateError):
    """A run cannot go on: what it needs, its plan above all, is lost, erased or unreadable, and nothing was done. In
    `recover`, also what its code raised that is no outcome."""

    code = "STATE_RECOVERY_FAILED"


class RecoveryUnfinished(StateError):
    """A run that was taken up, and in which nothing moves any more: others do not wait for it."""

    code = "STATE_RECOVERY_UNFINISHED"
    exit_code = 4


class EvidenceError(ReenactError):
    code = "EVIDENCE_INVALID"


class TornTail(EvidenceError):
    code = "EVIDENCE_TORN_TAIL"


class DamagedRecord(EvidenceError):
    code = "EVIDENCE_DAMAGED"


class NotAuthentic(EvidenceError):
    """What lies in the store was not written by whoever has its key, or is not what was approved: nothing is sent."""

    code = "EVIDENCE_NOT_AUTHENTIC"


class UnknownVersion(EvidenceError):
    code = "EVIDENCE_VERSION_UNKNOWN"


class ReplayLogError(EvidenceError):
    """A line of a REPLAY.jsonl that cannot stand there. `line` counts from 1, `offset` is the byte where it begins.

    `code` says what is wrong with it; docs/spec/replay_jsonl.md lists them.
    """

    code = "REPLAY_LOG_INVALID"

    def __init__(self, message: str, *, code: str, line: int, offset: int) -> None:
        super().__init__(message, code=code)
        self.line = line
        self.offset = offset


class ReceiptError(EvidenceError):
    code = "RECEIPT_INVALID"


class UnsealedRecording(EvidenceError):
    """Nothing is replayed of a run whose end is not known."""

    code = "EVIDENCE_UNSEALED"
    exit_code = 4


class KeyUnavailable(ReenactError):
    """The signing key that a run began with is not here; `kid` names it. The run is left as it is."""

    code = "SIGNING_KEY_UNAVAILABLE"
    exit_code = 4

    def __init__(self, message: str, *, kid: str) -> None:
        super().__init__(message)
        self.kid = kid


class SecretError(ReenactError):
    code = "ERR_SECRET_UNAVAILABLE"
    exit_code = 4


class Draining(ReenactError):
    """The process is to end: nothing new begins in this runtime, and whoever is started next goes on with its runs."""

    code = "DRAINING"
    exit_code = 0


class WaitingForPerson(ReenactError):
    """A call cannot go on before a person has spoken; `status` is `waiting` or `held`.

    `run_id` and `step_id` are what a person is to be asked about; the step is None where a session was not opened again
    for it.
    """

    code = "WAITING_FOR_PERSON"
    exit_code = 4

    def __init__(
        self, message: str, *, status: str = "waiting", run_id: str | None = None, step_id: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.run_id = run_id
        self.step_id = step_id


class Diverged(ReenactError):
    """A program that was started again asks for something else than it did before; nothing was sent.

    `kind` is `another_call`, `other_arguments`, `unaccounted_write` or `not_asked`; in a replay also `new_call`,
    `changed_tool` or, of a tool whose code was run, `other_result`. `lane` and `place` say where, `recorded` and
    `asked` what, `pointer` where they first differ; `nearest` names the recorded call that is most like the one asked
    for, `unaccounted` the calls that were not asked for.
    """

    code = "SESSION_DIVERGED"

    def __init__(
        self,
        message: str,
        *,
        kind: str,
        lane: str,
        place: int | None = None,
        recorded: dict[str, object] | None = None,
        asked: dict[str, object] | None = None,
        pointer: str | None = None,
        nearest: str | None = None,
        unaccounted: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.lane = lane
        self.place = place
        self.recorded = recorded
        self.asked = asked
        self.pointer = pointer
        self.nearest = nearest
        self.unaccounted = unaccounted


class DeterminismBroken(ReenactError):
    """What behaviour depends on is not what it was when the run was recorded. `breakers` names every change."""

    code = "DETERMINISM_BROKEN"

    def __init__(self, first: str, breakers: list[str]) -> None:
        more = f" (and {len(breakers) - 1} more)" if len(breakers) > 1 else ""
        super().__init__(f"{first}{more}; nothing was run. Put it back, or allow it with --allow-breakers")
        self.breakers = breakers


class DeterminismViolation(ReenactError):
    code = "DETERMINISM_VIOLATION"


class SkillError(Exception):
    """A skill's own word for its failure: `raise SkillError.of("ERR_JSON_INVALID", "no such path", hint="…")`.

    Each code is a class of its own, `reenact.errors.SkillError.<CODE>`, so that a failure is classified by
    its type alone, in a live run and in a replay alike.
    """

    code: ClassVar[str] = "ERR_INTERNAL"
    _by_code: ClassVar[dict[str, type[SkillError]]] = {}

    def __init__(self, message: str = "", **details: object) -> None:
        super().__init__(message)
        self.details = details

    @classmethod
    def of(cls, code: str, message: str = "", **details: object) -> SkillError:
        """An instance of the class that stands for `code`: one of the taxonomy, or one of your own."""
        if not _CODE.fullmatch(code) or code == "OK" or code.startswith("OK_"):
            raise UsageError(f"{code!r} is no code of a failure: that is 1 to 64 of A-Z 0-9 _, and not OK")
        kind = cls._by_code.get(code)
        if kind is None:
            kind = type(
                code,
                (SkillError,),
                {"code": code, "__qualname__": f"SkillError.{code}", "__module__": __name__},
            )
            cls._by_code[code] = kind
        return kind(message, **details)
