"""Derived tables, rebuilt from the commits and compared. Which tables are which: docs/spec/store_sqlite.md."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from msgspec import DecodeError
from msgspec.structs import replace

from reenact.errors import ReenactError
from reenact.journal.frontier import DECODE, Frontier, pack
from reenact.journal.run_fold import RunFold
from reenact.store.checks.rebuild import KeyedCall, Rebuilt
from reenact.store.naming import DIGEST
from reenact.store.signing import FRONTIER_HEAD, is_signed
from reenact.store.sqlite.appending import INDEXED_CONTENT
from reenact.store.sqlite.evidence import COMMITS_PER_RUN, Evidence, PayloadPlace, StoredEnvelopes
from reenact.values.canonical import canonicalize
from reenact.values.digest import ZERO_DIGEST, hmac_hex
from reenact.values.ids import project_uuid7

DEDUPE_KEY_BYTES = 32
NOT_ENDED = ("pending", "running", "waiting", "held")


@dataclass(frozen=True, slots=True)
class Difference:
    """A row of a derived table that is not what the commits say."""

    table: str
    row: str
    what: str
    expected: str | None = None
    got: str | None = None


def compare_derived(evidence: Evidence, run_no: int, rebuilt: Rebuilt, envelopes: StoredEnvelopes) -> list[Difference]:
    """Every derived table of one run against its commits; the first difference of each row is told."""
    plan = envelopes.value(rebuilt.run.get("plan")) if rebuilt.run is not None else None
    document: dict[str, Any] = plan if isinstance(plan, dict) else {}
    return [
        *runs(evidence, run_no, rebuilt, document),
        *traces(evidence, run_no, rebuilt),
        *shared_payloads(evidence, run_no, rebuilt, envelopes),
        *contents(evidence, run_no, rebuilt, envelopes),
        *idempotency(evidence, run_no, rebuilt, envelopes, document or opening(rebuilt, envelopes)),
        *seals(evidence, run_no, rebuilt),
        *run_checkpoints(evidence, run_no, rebuilt),
    ]


def opening(rebuilt: Rebuilt, envelopes: StoredEnvelopes) -> dict[str, Any]:
    """What a session knew when it began: its plan, before there were calls."""
    kept = envelopes.value(rebuilt.opening)
    return kept if isinstance(kept, dict) else {}


def first_difference(table: str, row: str, columns: Iterable[tuple[str, object, object]]) -> list[Difference]:
    """The first of (column, expected, got) whose sides differ."""
    for column, expected, got in columns:
        if expected != got:
            return [Difference(table, row, column, told(expected), told(got))]
    return []


def told(value: object) -> str:
    if isinstance(value, bytes):
        return value.hex()
    return "null" if value is None else printable(str(value))


def printable(text: str) -> str:
    """A text that stands for bytes which are no UTF-8 cannot be written anywhere."""
    return text.encode("utf-8", "backslashreplace").decode()


def runs(evidence: Evidence, run_no: int, rebuilt: Rebuilt, plan: dict[str, Any]) -> list[Difference]:
    row = f"run_no {run_no}"
    rows = evidence.query(
        "SELECT run_id, kind, mode, parent_run, started_at, plan_id, agent_id, status, token FROM runs "
        "WHERE run_no = ?",
        (run_no,),
    )
    record = rebuilt.run
    if record is None:
        return []
    if not rows:
        return [Difference("runs", row, "there is no such row", str(record.get("run_id")), None)]
    run_id, kind, mode, parent_run, started_at, plan_id, agent_id, status, token = rows[0]
    found = first_difference(
        "runs",
        row,
        [
            ("run_id", record.get("run_id"), run_id),
            ("kind", record.get("kind"), kind),
            ("mode", record.get("mode"), mode),
            ("parent_run", record.get("parent_run"), parent_run),
            ("started_at", record.get("started_at"), started_at),
            ("plan_id", plan.get("plan_id", projected(record, "plan_id", plan_id)), plan_id),
            ("agent_id", plan.get("agent_id", projected(record, "agent_id", agent_id)), agent_id),
        ],
    )
    if rebuilt.seal is not None:
        found += first_difference("runs", row, [("status", rebuilt.seal.get("status"), status)])
    elif status not in NOT_ENDED:
        found.append(Difference("runs", row, "status", f"without a seal one of {', '.join(NOT_ENDED)}", told(status)))
    if not isinstance(token, int) or token < rebuilt.highest_fence:
        found.append(Difference("runs", row, "token", f"at least {rebuilt.highest_fence}", told(token)))
    return found


def projected(record: Mapping[str, Any], name: str, stored: object) -> object:
    """The id in the row, where its projection is the one on record: without a plan that is all there is of it."""
    if isinstance(stored, str) and stored.isprintable() and project_uuid7(stored) == record.get(name):
        return stored
    return f"what {record.get(name)} stands for"


def traces(evidence: Evidence, run_no: int, rebuilt: Rebuilt) -> list[Difference]:
    low = run_no * COMMITS_PER_RUN
    rows = evidence.query(
        "SELECT id, trace_id, step_id, commit_n FROM traces WHERE id >= ? AND id < ?", (low, low + COMMITS_PER_RUN)
    )
    stored = {row[0] - low: (row[1], row[2], row[3]) for row in rows}
    return [
        Difference("traces", f"step {index}", "(trace_id, step_id, commit_n)", shown(expected), shown(got))
        for index in sorted({*stored, *rebuilt.traces})
        if (expected := rebuilt.traces.get(index)) != (got := stored.get(index))
    ]


def shown(row: tuple[object, ...] | None) -> str:
    return "no row" if row is None else ", ".join(told(value) for value in row)


def shared_payloads(evidence: Evidence, run_no: int, rebuilt: Rebuilt, envelopes: StoredEnvelopes) -> list[Difference]:
    """A payload that a later commit names again is found through its row here.

    A row more than needed is no fault. In a session a row less is none either: of two calls that run side by side and
    make the same payload, the second finds it in memory.
    """
    rows = evidence.query("SELECT commitment, payload_id FROM shared_payloads WHERE run_no = ?", (run_no,))
    stored = {in_hex(commitment): got for commitment, got in rows}
    found = []
    for commitment in sorted({*stored, *rebuilt.named_again}):
        expected = envelopes.places.get(commitment)
        if expected is None and commitment in rebuilt.named_in:
            continue  # erased or lost: the verifier tells which
        if commitment not in stored and rebuilt.is_session:
            continue
        found += first_difference(
            "shared_payloads", f"commitment {commitment}", [("payload_id", expected, stored.get(commitment))]
        )
    return found


def contents(evidence: Evidence, run_no: int, rebuilt: Rebuilt, envelopes: StoredEnvelopes) -> list[Difference]:
    """Where equal content is found again: every envelope from a certain size on, except outcomes, which are unique."""
    keys = evidence.query("SELECT dedupe_key FROM runs WHERE run_no = ?", (run_no,))
    if not keys or not isinstance(keys[0][0], bytes) or len(keys[0][0]) > 64:
        return (
            [Difference("runs", f"run_no {run_no}", "dedupe_key", "at most 64 bytes", "something else")] if keys else []
        )
    expected: dict[str, tuple[int, str]] = {}
    for commitment, payload_id in sorted(envelopes.places.items(), key=lambda item: item[1]):
        if commitment not in rebuilt.named_in and PayloadPlace(payload_id).n > rebuilt.last_commit:
            continue  # of a commit that is gone, which alone could say what it is
        envelope = b"" if commitment in rebuilt.outcomes else evidence.envelope(payload_id)[0]
        if len(envelope) >= INDEXED_CONTENT:
            content_key = blake2b(envelope[32:], key=keys[0][0], digest_size=16).hexdigest()
            expected.setdefault(content_key, (payload_id, commitment))
    rows = evidence.query("SELECT content_key, payload_id, commitment FROM contents WHERE run_no = ?", (run_no,))
    stored = {in_hex(row[0]): (row[1], in_hex(row[2])) for row in rows if not is_erased(row[2], rebuilt, envelopes)}
    return [
        Difference("contents", f"content_key {key}", "(payload_id, commitment)", shown(wanted), shown(got))
        for key in sorted({*stored, *expected})
        if (wanted := expected.get(key)) != (got := stored.get(key))
    ]


def in_hex(cell: object) -> str:
    """Bytes; what is no blob is none, whatever it spells."""
    return cell.hex() if isinstance(cell, bytes) else f"no blob: {told(cell)}"


def is_erased(commitment: object, rebuilt: Rebuilt, envelopes: StoredEnvelopes) -> bool:
    text = commitment.hex() if isinstance(commitment, bytes) else ""
    return text in rebuilt.named_in and text not in envelopes.places


def idempotency(
    evidence: Evidence, run_no: int, rebuilt: Rebuilt, envelopes: StoredEnvelopes, plan: dict[str, Any]
) -> list[Difference]:
    """Keys that callers gave. A key whose call failed or is in doubt may by now belong to another call."""
    columns = "server, tool, key, request_digest, agent_id, trace_id, run_no, state"
    found: list[Difference] = []
    owned: set[tuple[str, str, str]] = set()
    for call in rebuilt.keyed.values():
        place = (call.server, call.tool, call.key)
        row = key_row(call.server, call.tool, call.key)
        rows = evidence.query(f"SELECT {columns} FROM idempotency WHERE server = ? AND tool = ? AND key = ?", place)
        if not call.dispatched and not (rows and rows[0][5] == call.trace_id):
            continue  # refused; but one that was cancelled right before its dispatch held its key
        if not rows:
            found.append(Difference("idempotency", row, "there is no such row", call.trace_id, None))
            continue
        owned.add(place)
        if call.state in ("released", "in_doubt") and rows[0][5] != call.trace_id:
            continue
        found += first_difference(
            "idempotency",
            row,
            [
                ("request_digest", request_digest(call, envelopes, plan) or some_digest(rows[0][3]), rows[0][3]),
                ("agent_id", call.agent_id, rows[0][4]),
                ("trace_id", call.trace_id, rows[0][5]),
                ("run_no", run_no, rows[0][6]),
                ("state", call.state, rows[0][7]),
            ],
        )
    for row in evidence.query("SELECT server, tool, key FROM idempotency WHERE run_no = ?", (run_no,)):
        if tuple(row) not in owned:
            found.append(Difference("idempotency", key_row(*row), "no call of the run has this key"))
    return found


def key_row(server: object, tool: object, key: object) -> str:
    return printable(f"{server}.{tool} key {key}")


def request_digest(call: KeyedCall, envelopes: StoredEnvelopes, plan: dict[str, Any]) -> str | None:
    """None where the plan or the arguments were erased."""
    context = plan.get("context")
    pins = context.get("pins") if isinstance(context, dict) else None
    salt = pins.get("salt") if isinstance(pins, dict) else None
    arguments = envelopes.value(call.args)
    if not isinstance(salt, str) or not isinstance(arguments, dict):
        return None
    try:
        return hmac_hex(bytes.fromhex(salt), canonicalize([call.skill_id, arguments]))
    except ValueError:
        return None


def some_digest(stored: object) -> object:
    """The cell itself where it can be a digest: without plan and arguments that is all that can be asked."""
    return stored if isinstance(stored, str) and DIGEST.match(stored) else "64 hex digits"


def seals(evidence: Evidence, run_no: int, rebuilt: Rebuilt) -> list[Difference]:
    """The run's row, and that the seals beside it in the store's chain are those that the commits name."""
    rows = evidence.query("SELECT id, run_no, seal_digest FROM seals ORDER BY id")
    places = [number for number, row in enumerate(rows) if row[1] == run_no]
    seal = rebuilt.seal
    if seal is None:
        return []  # a row without a seal in the journal is a cut tail: completeness, not a derived table
    if not places:
        return [Difference("seals", f"run_no {run_no}", "there is no such row", str(seal.get("seal_digest")), None)]
    place = places[0]
    before = rows[place - 1][2] if place else ZERO_DIGEST
    found = first_difference(
        "seals",
        f"run_no {run_no}",
        [
            ("seal_digest", seal.get("seal_digest"), rows[place][2]),
            ("seal_digest of the row before it", seal.get("prev_store_seal"), before),
            ("id", place + 1, rows[place][0]),
        ],
    )
    if not found and place + 1 < len(rows):
        follower = prev_store_seal(evidence, rows[place + 1][1])
        if follower is not None:
            found = first_difference(
                "seals",
                f"run_no {rows[place + 1][1]}",
                [("its seal follows", follower, rows[place][2])],
            )
    return found


def prev_store_seal(evidence: Evidence, run_no: object) -> str | None:
    """The seal before it that a run's own seal names."""
    rebuilt = Rebuilt()
    last = evidence.last_commit(run_no) if isinstance(run_no, int) and evidence.has_run(run_no) else None
    if last is not None and last.body is not None:
        rebuilt.take(last.n, last.body)
    return str(rebuilt.seal.get("prev_store_seal")) if rebuilt.seal is not None else None


def run_checkpoints(evidence: Evidence, run_no: int, rebuilt: Rebuilt) -> list[Difference]:
    """What recovery starts from, beside each run checkpoint: the state that the lines before it fold to."""
    low = run_no * COMMITS_PER_RUN
    rows = evidence.query(
        "SELECT id, frontier FROM run_checkpoints WHERE id >= ? AND id < ? ORDER BY id", (low, low + COMMITS_PER_RUN)
    )
    stored = {row[0] - low: row[1] for row in rows}
    if not stored and not rebuilt.run_checkpoints:
        return []
    expected, keys = frontiers(evidence, run_no, rebuilt), evidence.keys()
    found = []
    for n in sorted({*stored, *expected}):
        row, got = f"commit {n}", stored.get(n)
        if got is None or expected.get(n) is None or without_kept(readable(got)) != expected[n]:
            wanted = frontier_text(expected.get(n))
            found.append(Difference("run_checkpoints", row, "frontier", wanted, frontier_text(got)))
        elif not is_signed(keys, low + n, got):
            found.append(Difference("run_checkpoints", row, "frontier", "signed by a key of the store", "not signed"))
    return found


def frontiers(evidence: Evidence, run_no: int, rebuilt: Rebuilt) -> dict[int, Frontier]:
    """By commit; as far as the lines fold. Where they do not, the verifier says why."""
    fold = RunFold(str(rebuilt.run.get("run_id")) if rebuilt.run is not None else "")
    found: dict[int, Frontier] = {}
    for row in evidence.commits(run_no):
        try:
            fold.apply_body(row.body or b"")
        except ReenactError:
            break
        if row.n in rebuilt.run_checkpoints:
            found[row.n] = DECODE(pack(fold))
    return found


def readable(stored: object) -> Frontier | None:
    try:
        return DECODE(stored[FRONTIER_HEAD:]) if isinstance(stored, bytes) else None
    except (DecodeError, UnicodeDecodeError):
        return None


def without_kept(frontier: Frontier | None) -> Frontier | None:
    """What needs the arguments of calls is confirmed by whoever has them; here it would only be believed."""
    return None if frontier is None else replace(frontier, kept=b"")


def frontier_text(value: object) -> str:
    if isinstance(value, bytes):
        value = readable(value) or "something that cannot be read"
    return "no row" if value is None else str(value)
