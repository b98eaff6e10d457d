"""Derived tables, rebuilt from the commits and compared. Which tables are which: docs/spec/store_sqlite.md."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from msgspec import DecodeError
from msgspec.structs import replace

from reenact.contracts.records import UNFINISHED
from reenact.contracts.references import has_encrypted
from reenact.errors import ReenactError
from reenact.journal.chain import encode
from reenact.journal.frontier import DECODE, Frontier, pack
from reenact.journal.run_fold import RunFold
from reenact.store.base import INDEXED_CONTENT
from reenact.store.checks.rebuild import KeyedCall, Rebuilt
from reenact.store.copying.views import There
from reenact.store.envelopes import StoredEnvelopes
from reenact.store.evidence import CheckpointCells, Evidence, KeyCells, RunEvidence
from reenact.store.naming import DIGEST
from reenact.store.signing import FRONTIER_HEAD, MAC_BYTES, KeyOf, frontier_mac, is_signed, with_kid
from reenact.values.canonical import canonicalize
from reenact.values.digest import ZERO_DIGEST, hmac_hex
from reenact.values.ids import project_uuid7

DEDUPE_KEY_BYTES = 32


@dataclass(frozen=True, slots=True)
class Difference:
    """A row of a derived table that is not what the commits say."""

    table: str
    row: str
    what: str
    expected: str | None = None
    got: str | None = None


def compare_derived(
    evidence: Evidence, run: RunEvidence, rebuilt: Rebuilt, envelopes: StoredEnvelopes
) -> list[Difference]:
    """Every derived table of one run against its commits; the first difference of each row is told."""
    plan = envelopes.value(rebuilt.run.get("plan")) if rebuilt.run is not None else None
    document: dict[str, Any] = plan if isinstance(plan, dict) else {}
    return [
        *runs(run, rebuilt, document),
        *session(run, rebuilt, opening(rebuilt, envelopes)),
        *traces(run, rebuilt),
        *shared_payloads(run, rebuilt, envelopes),
        *contents(run, rebuilt, envelopes),
        *(
            []  # they stayed where the run began
            if isinstance(evidence, There)
            else idempotency(evidence, run, rebuilt, envelopes, document or opening(rebuilt, envelopes))
        ),
        *seals(evidence, run, rebuilt),
        *run_checkpoints(run, rebuilt, evidence, erased=is_erased_whole(rebuilt, envelopes)),
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


def session(run: RunEvidence, rebuilt: Rebuilt, opening: dict[str, Any]) -> list[Difference]:
    """The id of a session, where what it began with was not erased; a plan has none."""
    said, row, record = opening.get("session"), run.run_row(), rebuilt.run
    if row is None or record is None or (record.get("kind") == "session" and not opening):
        return []
    expected = said.get("id") if isinstance(said, dict) else None
    return first_difference("runs", f"run_no {run.number}", [("session", expected, row.session)])


def runs(run: RunEvidence, rebuilt: Rebuilt, plan: dict[str, Any]) -> list[Difference]:
    name, row, record = f"run_no {run.number}", run.run_row(), rebuilt.run
    if record is None:
        return []
    if row is None:
        return [Difference("runs", name, "there is no such row", str(record.get("run_id")), None)]
    found = first_difference(
        "runs",
        name,
        [
            ("run_id", record.get("run_id"), row.run_id),
            ("kind", record.get("kind"), row.kind),
            ("mode", record.get("mode"), row.mode),
            ("parent_run", record.get("parent_run"), row.parent_run),
            ("started_at", record.get("started_at"), row.started_at),
            ("plan_id", plan.get("plan_id", projected(record, "plan_id", row.plan_id)), row.plan_id),
            ("agent_id", plan.get("agent_id", projected(record, "agent_id", row.agent_id)), row.agent_id),
        ],
    )
    if rebuilt.seal is not None:
        found += first_difference("runs", name, [("status", rebuilt.seal.get("status"), row.status)])
    elif row.status not in UNFINISHED:
        open_ones = f"without a seal one of {', '.join(UNFINISHED)}"
        found.append(Difference("runs", name, "status", open_ones, told(row.status)))
    if not isinstance(row.token, int) or row.token < rebuilt.highest_fence:
        found.append(Difference("runs", name, "token", f"at least {rebuilt.highest_fence}", told(row.token)))
    return found


def projected(record: Mapping[str, Any], name: str, stored: object) -> object:
    """The id in the row, where its projection is the one on record: without a plan that is all there is of it."""
    if isinstance(stored, str) and stored.isprintable() and project_uuid7(stored) == record.get(name):
        return stored
    return f"what {record.get(name)} stands for"


def traces(run: RunEvidence, rebuilt: Rebuilt) -> list[Difference]:
    stored = {row.step_index: (row.trace_id, row.step_id, row.commit_n) for row in run.traces()}
    return [
        Difference("traces", f"step {index}", "(trace_id, step_id, commit_n)", shown(expected), shown(got))
        for index in sorted({*stored, *rebuilt.traces})
        if (expected := rebuilt.traces.get(index)) != (got := stored.get(index))
    ]


def shown(row: tuple[object, ...] | None) -> str:
    return "no row" if row is None else ", ".join(told(value) for value in row)


def shared_payloads(run: RunEvidence, rebuilt: Rebuilt, envelopes: StoredEnvelopes) -> list[Difference]:
    """A payload that a later commit names again is found through its row here.

    A row more than needed is no fault. In a session a row less is none either: of two calls that run side by side and
    make the same payload, the second finds it in memory.
    """
    stored = {in_hex(row.commitment): row.payload_id for row in run.shared_payloads()}
    found = []
    for commitment in sorted({*stored, *rebuilt.named_again}):
        place = envelopes.places.get(commitment)
        if place is None and commitment in rebuilt.named_in:
            continue  # erased or lost: the verifier tells which
        if commitment not in stored and rebuilt.is_session:
            continue
        expected = None if place is None else place.payload_id
        found += first_difference(
            "shared_payloads", f"commitment {commitment}", [("payload_id", expected, stored.get(commitment))]
        )
    return found


def contents(run: RunEvidence, rebuilt: Rebuilt, envelopes: StoredEnvelopes) -> list[Difference]:
    """Where equal content is found again: every envelope from a certain size on, except outcomes, which are unique."""
    row = run.run_row()
    if row is None:
        return []
    if not isinstance(row.dedupe_key, bytes) or len(row.dedupe_key) > 64:
        return [Difference("runs", f"run_no {run.number}", "dedupe_key", "at most 64 bytes", "something else")]
    expected: dict[str, tuple[int, str]] = {}
    for commitment, place in sorted(envelopes.places.items(), key=lambda item: item[1].payload_id):
        if commitment not in rebuilt.named_in and place.n > rebuilt.last_commit:
            continue  # of a commit that is gone, which alone could say what it is
        envelope = b"" if commitment in rebuilt.outcomes else envelopes.at(place)
        if len(envelope) >= INDEXED_CONTENT:
            content_key = blake2b(envelope[32:], key=row.dedupe_key, digest_size=16).hexdigest()
            expected.setdefault(content_key, (place.payload_id, commitment))
    stored = {
        in_hex(kept.content_key): (kept.payload_id, in_hex(kept.commitment))
        for kept in run.contents()
        if not is_erased(kept.commitment, rebuilt, envelopes)
    }
    return [
        Difference("contents", f"content_key {key}", "(payload_id, commitment)", shown(wanted), shown(got))
        for key in sorted({*stored, *expected})
        if (wanted := expected.get(key)) != (got := stored.get(key))
    ]


def in_hex(cell: object) -> str:
    """Bytes; what is no blob is none, whatever it spells."""
    return cell.hex() if isinstance(cell, bytes) else f"no blob: {told(cell)}"


def is_erased(commitment: object, rebuilt: Rebuilt, envelopes: StoredEnvelopes) -> bool:
    return isinstance(commitment, bytes) and is_gone(commitment.hex(), rebuilt, envelopes)


def idempotency(
    evidence: Evidence, run: RunEvidence, rebuilt: Rebuilt, envelopes: StoredEnvelopes, plan: dict[str, Any]
) -> list[Difference]:
    """Keys that callers gave. A key whose call failed or is in doubt may by now belong to another call."""
    found: list[Difference] = []
    owned: set[tuple[object, object, object]] = set()
    secret = evidence.key_secret()
    for call in rebuilt.keyed.values():
        if call.request is not None:
            call.key = foreign_key(call, secret)
        name = key_row(call.server, call.tool, call.key)
        row = evidence.keyed_call(call.server, call.tool, call.key)
        if not call.dispatched and not (row is not None and row.trace_id == call.trace_id):
            continue  # refused; but one that was cancelled right before its dispatch held its key
        if row is None:
            found.append(Difference("idempotency", name, "there is no such row", call.trace_id, None))
            continue
        owned.add((call.server, call.tool, call.key))
        if call.state in ("released", "in_doubt") and row.trace_id != call.trace_id:
            continue
        found += first_difference(
            "idempotency",
            name,
            [
                (
                    "request_digest",
                    request_digest(call, rebuilt, envelopes, plan, secret)
                    or some_digest(row.request_digest, erased=is_gone(call.args, rebuilt, envelopes)),
                    row.request_digest,
                ),
                ("agent_id", call.agent_id, row.agent_id),
                ("trace_id", call.trace_id, row.trace_id),
                ("run_no", run.number, row.run_no),
                ("state", call.state, row.state),
            ],
        )
    rows = run.keyed_calls()
    for row in rows:
        name = key_row(row.server, row.tool, row.key)
        if (row.server, row.tool) == ("reenact", "session") and rebuilt.run is not None:
            found += first_difference("idempotency", name, [("trace_id", rebuilt.run.get("run_id"), row.trace_id)])
        elif (row.server, row.tool, row.key) not in owned:
            found.append(Difference("idempotency", name, "no call of the run has this key"))
    if (rebuilt.keyed or rows) and not found:
        found += unvouched_keys(evidence, rows)
    return found


def unvouched_keys(evidence: Evidence, rows: list[KeyCells]) -> list[Difference]:
    """Rows that a key of the store did not vouch for, the first of all among them; none in a store of before."""
    first, keys, store_id = evidence.keyed_call("", "", ""), evidence.keys(), evidence.store_id()
    if first is None:
        linked = any(row.mac is not None for row in rows)
        return [Difference("idempotency", "the first", "there is no such row")] if linked else []
    found = []
    for row in (first, *rows):
        kid = row.mac[:8].hex() if isinstance(row.mac, bytes) and len(row.mac) == MAC_BYTES else ""
        key = evidence.key_of(kid) if kid else None
        text = encode(["reenact.key.v1", *map(plain, (store_id, *row[:9]))])
        if kid not in keys or (key is not None and with_kid(key, text) != row.mac):
            found.append(Difference("idempotency", key_row(row.server, row.tool, row.key), "mac", *SIGNED))
    return found


def plain(cell: object) -> object:
    """As it is vouched for; what no row of ours holds is none of it."""
    if isinstance(cell, str):
        return cell.encode("utf-8", "replace").decode()
    return cell if cell is None or isinstance(cell, int) else [told(cell)]


def key_row(server: object, tool: object, key: object) -> str:
    return printable(f"{server}.{tool} key {key}")


def request_digest(
    call: KeyedCall, rebuilt: Rebuilt, envelopes: StoredEnvelopes, plan: dict[str, Any], secret: bytes | None
) -> str | None:
    """None where what it covers was erased or encrypted, or where there is no secret to compute it with."""
    if call.request is not None and secret is not None:
        return hmac_hex(secret, canonicalize(["request", call.server, call.tool, call.request.get("args")]))
    arguments = envelopes.value(call.args)
    if not isinstance(arguments, dict) or has_encrypted(arguments):
        return None
    if rebuilt.run is not None and "key_run" in rebuilt.run:
        covered = canonicalize(["request", call.server, call.tool, arguments])
        return None if secret is None else hmac_hex(secret, covered)
    context = plan.get("context")
    pins = context.get("pins") if isinstance(context, dict) else None
    salt = pins.get("salt") if isinstance(pins, dict) else None
    try:
        return hmac_hex(bytes.fromhex(str(salt)), canonicalize([call.skill_id, arguments]))
    except ValueError:
        return None


def foreign_key(call: KeyedCall, secret: bytes | None) -> str:
    """The key that a trace of another runtime names, as it stands in the store."""
    return "k:" + hmac_hex(secret or b"", canonicalize(["caller", call.server, call.tool, call.key]))


def is_gone(commitment: str | None, rebuilt: Rebuilt, envelopes: StoredEnvelopes) -> bool:
    return commitment in rebuilt.named_in and commitment not in envelopes.places


def some_digest(stored: object, *, erased: bool) -> object:
    """The cell itself where it can be right: a digest, or nothing where what it covered was erased."""
    if stored is None and erased:
        return None
    return stored if isinstance(stored, str) and DIGEST.match(stored) else "64 hex digits"


def seals(evidence: Evidence, run: RunEvidence, rebuilt: Rebuilt) -> list[Difference]:
    """The run's row, and that the seals beside it in the store's chain are those that the commits name."""
    seal, place, name = rebuilt.seal, run.seal_place(), f"run_no {run.number}"
    if seal is None:
        return []  # a row without a seal in the journal is a cut tail: completeness, not a derived table
    if place is None:
        return [Difference("seals", name, "there is no such row", str(seal.get("seal_digest")), None)]
    before = ZERO_DIGEST if place.before is None else place.before.seal_digest
    found = first_difference(
        "seals",
        name,
        [
            ("seal_digest", seal.get("seal_digest"), place.own.seal_digest),
            ("seal_digest of the row before it", seal.get("prev_store_seal"), before),
            ("id", place.position, place.own.number),
        ],
    )
    if not found and place.after is not None:
        follower = prev_store_seal(evidence, place.after.run_no)
        if follower is not None:
            found = first_difference(
                "seals",
                f"run_no {place.after.run_no}",
                [("its seal follows", follower, place.own.seal_digest)],
            )
    return found


def prev_store_seal(evidence: Evidence, run_no: object) -> str | None:
    """The seal before it that a run's own seal names."""
    rebuilt = Rebuilt()
    run = evidence.run(run_no) if isinstance(run_no, int) else None
    last = run.last_commit() if run is not None and run.is_there() else None
    if last is not None and last.body is not None:
        rebuilt.take(last.n, last.body)
    return str(rebuilt.seal.get("prev_store_seal")) if rebuilt.seal is not None else None


def is_erased_whole(rebuilt: Rebuilt, envelopes: StoredEnvelopes) -> bool:
    """Whether what the run began with is gone: its plan, or a session's opening, goes with the whole run alone."""
    began_with = (rebuilt.run or {}).get("plan") or rebuilt.opening
    return isinstance(began_with, str) and is_gone(began_with, rebuilt, envelopes)


def run_checkpoints(run: RunEvidence, rebuilt: Rebuilt, evidence: Evidence, *, erased: bool) -> list[Difference]:
    """What recovery starts from, beside each run checkpoint: the state that the lines before it fold to."""
    keys, store_id = evidence.keys(), str(evidence.store_id())
    run_id = str(rebuilt.run.get("run_id")) if rebuilt.run is not None else ""
    stored = {row.n: row for row in run.run_checkpoints()}
    if not stored and (erased or not rebuilt.run_checkpoints):
        return []
    expected = frontiers(run, rebuilt)
    found = []
    for n in sorted({*stored, *expected}):
        row, cells = f"commit {n}", stored.get(n)
        got = None if cells is None else bare(cells)
        if cells is None or got is None or expected.get(n) is None or without_kept(readable(got)) != expected[n]:
            wanted = frontier_text(expected.get(n))
            found.append(Difference("run_checkpoints", row, "frontier", wanted, frontier_text(got)))
        elif cells.mac is None:
            if not is_signed(keys, cells.signed_for, bytes(cells.frontier)):  # type: ignore[call-overload]
                found.append(Difference("run_checkpoints", row, "frontier", *SIGNED))
        elif not is_vouched_for(cells.mac, evidence.key_of, keys, (store_id, run_id, n), got):
            found.append(Difference("run_checkpoints", row, "mac", *SIGNED))
    return found


SIGNED = ("of a key of the store", "not of one")


def bare(cells: CheckpointCells) -> bytes | None:
    """The frontier itself, which those of before have behind a signature."""
    if not isinstance(cells.frontier, bytes):
        return None
    return cells.frontier if cells.mac is not None else cells.frontier[FRONTIER_HEAD:]


def is_vouched_for(
    mac: object, key_of: KeyOf, keys: Mapping[str, str], place: tuple[str, str, int], frontier: bytes
) -> bool:
    """By a key that the store has had; one that is not here is not asked."""
    if not isinstance(mac, bytes) or len(mac) != MAC_BYTES:
        return False
    kid = mac[:8].hex()
    key = key_of(kid)
    return kid in keys if key is None else mac == frontier_mac(key, *place, frontier)


def frontiers(run: RunEvidence, rebuilt: Rebuilt) -> dict[int, Frontier]:
    """By commit; as far as the lines fold. Where they do not, the verifier says why."""
    fold = RunFold(str(rebuilt.run.get("run_id")) if rebuilt.run is not None else "")
    found: dict[int, Frontier] = {}
    for row in run.commits():
        try:
            fold.apply_body(row.body or b"")
        except ReenactError:
            break
        if row.n in rebuilt.run_checkpoints:
            found[row.n] = DECODE(pack(fold))
    return found


def readable(stored: object) -> Frontier | None:
    try:
        return DECODE(stored) if isinstance(stored, bytes) else None
    except (DecodeError, UnicodeDecodeError, RecursionError):
        return None


def without_kept(frontier: Frontier | None) -> Frontier | None:
    """What needs the arguments of calls is confirmed by whoever has them; here it would only be believed."""
    return None if frontier is None else replace(frontier, kept=b"")


def frontier_text(value: object) -> str:
    if isinstance(value, bytes):
        value = readable(value) or "something that cannot be read"
    return "no row" if value is None else str(value)
