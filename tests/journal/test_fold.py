"""From lines to state: what was written is read back, and whatever was changed, moved, cut or put in is noticed."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from reenact import Runtime, SkillContext, skill
from reenact.contracts.artifacts import Artifact
from reenact.errors import ChecksumMismatch, DamagedRecord, InvalidTransition, ReenactError, SequenceGap, TornTail
from reenact.journal.lines import decode_artifact, decode_line, split_body
from reenact.journal.run_fold import RunFold
from tests.runtime.running import plan, step


@skill("fetch", version="1.0.0", tool_class="read", retry={"max_retries": 2, "backoff_base_ms": 0})
async def fetch(ctx: SkillContext, n: int) -> dict[str, int]:
    """Fails once, when asked for an odd number."""
    ctx.side_effect("read", str(n))
    if n % 2 and ctx.attempt == 0:
        raise ConnectionRefusedError(111, "once")
    return {"n": n}


@dataclass(frozen=True)
class Recorded:
    run_id: str
    bodies: tuple[bytes, ...]

    def fold(self, bodies: list[bytes] | None = None) -> RunFold:
        return RunFold(self.run_id).apply_bodies(self.bodies if bodies is None else bodies)


def record_plan() -> Recorded:
    runtime = Runtime("sqlite://:memory:", skills=[fetch])
    steps = [step(fetch, {"n": n}) for n in range(4)]
    steps.insert(2, step("nobody", skill_version="1.0.0", on_error="continue"))
    run = runtime.run(plan(*steps))
    assert run.status == "completed"
    return Recorded(run.run_id, tuple(runtime.store.bodies(run.run_id)))


def record_session() -> Recorded:
    runtime = Runtime("sqlite://:memory:", skills=[fetch])

    async def work() -> str:
        async with runtime.session(goal="read") as s:
            await asyncio.gather(*(s.call("fetch", {"n": n}) for n in range(3)))
            await s.turn()
            await s.call("fetch", {"n": 3})
        return s.run_id

    run_id = asyncio.run(work())
    return Recorded(run_id, tuple(runtime.store.bodies(run_id)))


def entries(run: Recorded) -> list[Artifact]:
    """The artifacts of a run in order, without their digests."""
    lines = [decode_line(raw, where="here") for body in run.bodies for raw in split_body(body, where="here")]
    found = [decode_artifact(line, where="here") for line in lines if line.entry is not None]
    return [replace(artifact, digest=msgspec.UNSET) for artifact in found]


RUNS = {"plan": record_plan(), "session": record_session()}
kinds = pytest.mark.parametrize("kind", RUNS)


@kinds
def test_what_was_written_folds_to_a_sealed_run_with_nothing_open(kind: str) -> None:
    run = RUNS[kind]
    fold = run.fold()
    assert fold.seal is not None
    assert fold.open == {}
    assert fold.commits == fold.seal.commits == len(run.bodies)
    assert fold.requested == fold.done == fold.seal.traces


@kinds
def test_logging_the_same_artifacts_and_attempts_again_writes_the_same_lines(kind: str) -> None:
    run = RUNS[kind]
    fold = RunFold(run.run_id)
    for body in run.bodies:
        for raw in split_body(body, where="here"):
            line = decode_line(raw, where="here")
            if line.entry is not None:
                artifact = replace(decode_artifact(line, where="here"), digest=msgspec.UNSET)
                trace, written = fold.log(artifact)
                assert (trace.sequence, trace.state) == (line.entry.sequence_number, line.entry.to_state)
            elif line.attempt is not None:
                trace, written, leaf = fold.log_attempt(replace(line.attempt, digest=msgspec.UNSET))
                fold.attempts_tree.append(leaf)
                assert trace.attempts[-1] == line.attempt
            else:
                continue
            assert written == raw + b"\n"
    seal = run.fold().seal
    assert seal is not None
    assert (fold.full_root(), fold.attempts_tree.root(), fold.open) == (seal.root, seal.attempts_root, {})


def test_what_the_machine_does_not_allow_is_not_logged() -> None:
    request, decision, call = entries(RUNS["plan"])[:3]
    fold = RunFold(RUNS["plan"].run_id)
    with pytest.raises(InvalidTransition):
        fold.log(decision)
    fold.log(request)
    with pytest.raises(InvalidTransition):
        fold.log(call)
    fold.log(decision)
    assert [trace.state for trace in fold.open.values()] == ["AUTHORIZED"]


@kinds
def test_every_prefix_folds_and_is_the_beginning_of_the_same_chain(kind: str) -> None:
    run = RUNS[kind]
    done = 0
    for length in range(len(run.bodies)):
        fold = run.fold(list(run.bodies[:length]))
        assert fold.seal is None
        assert fold.commits == length
        assert fold.done >= done
        done = fold.done


@kinds
def test_any_changed_byte_is_noticed(kind: str) -> None:
    """In a sealed run every line is pinned: by the next commit, or by the seal."""
    run = RUNS[kind]
    whole = b"".join(run.bodies)
    starts = [sum(map(len, run.bodies[:n])) for n in range(len(run.bodies))]

    @settings(max_examples=300)
    @given(st.integers(0, len(whole) - 1), st.integers(1, 255))
    def check(place: int, change: int) -> None:
        n = max(index for index, start in enumerate(starts) if start <= place)
        body = bytearray(run.bodies[n])
        body[place - starts[n]] ^= change
        changed = [*run.bodies[:n], bytes(body), *run.bodies[n + 1 :]]
        with pytest.raises(ReenactError):
            run.fold(changed)

    check()


@kinds
def test_a_removed_swapped_or_repeated_commit_is_noticed(kind: str) -> None:
    run = RUNS[kind]
    bodies = list(run.bodies)
    for n in range(len(bodies) - 1):
        with pytest.raises((SequenceGap, ChecksumMismatch)):
            run.fold(bodies[:n] + bodies[n + 1 :])
        with pytest.raises((SequenceGap, ChecksumMismatch)):
            run.fold([*bodies[:n], bodies[n + 1], bodies[n], *bodies[n + 2 :]])
        with pytest.raises((SequenceGap, ChecksumMismatch)):
            run.fold([*bodies[: n + 1], bodies[n], *bodies[n + 1 :]])


@kinds
def test_a_removed_swapped_or_repeated_line_is_noticed(kind: str) -> None:
    run = RUNS[kind]
    for n, body in enumerate(run.bodies):
        lines = body.splitlines(keepends=True)
        for at in range(len(lines)):
            variants = [lines[:at] + lines[at + 1 :], lines[: at + 1] + lines[at:]]
            if at + 1 < len(lines):
                variants.append([*lines[:at], lines[at + 1], lines[at], *lines[at + 2 :]])
            for variant in variants:
                if n + 1 == len(run.bodies) and variant == lines[:-1]:
                    continue  # the seal itself cut off: the run is merely open again
                with pytest.raises(ReenactError):
                    run.fold([*run.bodies[:n], b"".join(variant), *run.bodies[n + 1 :]])


@kinds
def test_a_torn_tail_is_told_from_damage_in_the_middle(kind: str) -> None:
    run = RUNS[kind]
    with pytest.raises(TornTail):
        run.fold([*run.bodies[:-1], run.bodies[-1][:-1]])
    middle = run.bodies[0].replace(b'{"kind":"run"', b'{"kind":"r\xff"', 1)
    with pytest.raises(DamagedRecord):
        run.fold([middle, *run.bodies[1:]])


def test_a_commit_of_another_run_is_noticed() -> None:
    first, second = RUNS["plan"], RUNS["session"]
    with pytest.raises(ChecksumMismatch, match="belongs to run"):
        first.fold([second.bodies[0]])


ORDER = ["commit", "run", "event", "vote", "unit", "checkpoint", "run_checkpoint", "seal"]


@kinds
def test_lines_stand_in_the_order_of_the_format(kind: str) -> None:
    """docs/spec/run_chain.md, written down again: kinds in order, traces whole, old ones before new, by step."""
    for body in RUNS[kind].bodies:
        lines = [msgspec.json.decode(raw) for raw in split_body(body, where="here")]
        ranks = [ORDER.index("unit" if line["kind"] in ("entry", "attempt") else line["kind"]) for line in lines]
        assert ranks == sorted(ranks)
        assert len(lines) > 1
        units = traces_in(lines)
        assert len(set(units)) == len(units), "the lines of one trace stand together"
        keys = [unit_key(lines, trace_id) for trace_id in units]
        assert keys == sorted(keys)
        stamps = [line["event"]["ts"] for line in lines if line["kind"] == "event"]
        assert stamps == sorted(stamps)


def traces_in(lines: list[Any]) -> list[str]:
    """Trace ids in the order of their first line; one that comes back stands twice."""
    found: list[str] = []
    for line in lines:
        trace_id = (line.get("entry") or line.get("attempt") or {}).get("trace_id")
        if trace_id is not None and (not found or found[-1] != trace_id):
            found.append(trace_id)
    return found


INDEX: dict[str, int] = {}


def unit_key(lines: list[Any], trace_id: str) -> tuple[bool, int]:
    begins = False
    for line in lines:
        if line["kind"] == "entry" and line["entry"]["trace_id"] == trace_id and line["entry"]["sequence_number"] == 1:
            begins = True
            INDEX[trace_id] = line["artifact"]["meta"]["step_index"]
    return begins, INDEX[trace_id]
