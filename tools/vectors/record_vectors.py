"""Vectors of our own records: payloads, attempts, seals and the run chain."""

from __future__ import annotations

from typing import Any

import msgspec

from reenact.values.canonical import canonicalize
from reenact.values.digest import ZERO_DIGEST, digest, sha256_hex
from reenact.values.envelope import make_envelope
from tools.vectors.pieces import DROP, Json, changed, salt, tree_root, uid, with_digest
from tools.vectors.scenarios import lost_answer, refusals, session, three_steps
from tools.vectors.writer import Run, erasure, removal

VALUES: list[Any] = [
    None,
    True,
    0,
    -1.5,
    1e21,
    "",
    "Grüße 🔐\n",
    [],
    {},
    {"b": 1, "a": [1, {"é": None, "z": "\u2028"}]},
    {"$$secret": "not a reference any more"},
]


def payload_vectors() -> Json:
    good = []
    for number, value in enumerate(VALUES):
        commitment, envelope = make_envelope(value, salt(f"payload:{number}"))
        good.append({"value": value, "salt": envelope[:32].hex(), "envelope": envelope.hex(), "commitment": commitment})
    spaced = salt("spaced") + b'{"a": 1}'
    short = salt("short")
    whole = salt("whole") + b'{"a":1}'
    bad = [
        {"name": "a byte changed", "envelope": (whole[:-2] + b"2}").hex(), "commitment": sha256_hex(whole)},
        {"name": "nothing after the salt", "envelope": short.hex(), "commitment": sha256_hex(short)},
        {"name": "not canonical", "envelope": spaced.hex(), "commitment": sha256_hex(spaced)},
        {"name": "not JSON", "envelope": (short + b"{").hex(), "commitment": sha256_hex(short + b"{")},
        {
            "name": "a key twice",
            "envelope": (short + b'{"a":1,"a":1}').hex(),
            "commitment": sha256_hex(short + b'{"a":1,"a":1}'),
        },
    ]
    codes = ["PAYLOAD_CHANGED", *["PAYLOAD_MALFORMED"] * 4]
    return {
        "description": "An envelope is 32 bytes of salt and the canonical JSON of the value, here in hex.",
        "good": good,
        "bad": [{**case, "code": code} for case, code in zip(bad, codes, strict=True)],
        "erasures": erasure_vectors(),
    }


def erasure_vectors() -> Json:
    chain: list[Json] = []
    for number in range(3):
        prev = chain[-1]["digest"] if chain else ZERO_DIGEST
        chain.append(
            erasure(digest(number), uid(1), prev, who="privacy@example.com", reason=f"request {number}", ms=number)
        )
    changed_record = {**chain[1], "reason": "request 7"}
    forked = erasure(digest(9), uid(1), chain[0]["digest"], who="x", reason="", ms=9)
    bundle, value = digest("a bundle"), chain[0]["commitment"]
    archived = removal(digest("other"), chain[2], "archived", bundle)
    again = removal(archived["commitment"], archived, "archived", bundle)
    gone = removal(archived["commitment"], again, "erased", bundle)
    return {
        "second_version": {
            "records": [*chain, archived, again, gone],
            "archived": {"after 4 records": archived["commitment"], "after 5 records": archived["commitment"]},
            "bad": [
                {
                    "name": "archived after it was erased",
                    "records": [*chain, removal(value, chain[2], "archived", bundle)],
                },
                {
                    "name": "archived after that",
                    "records": [*chain, archived, again, gone, removal(gone["commitment"], gone, "archived", bundle)],
                },
                {"name": "archived nowhere", "records": [*chain, removal(digest("x"), chain[2], "archived", None)]},
                {"name": "another type", "records": [*chain, removal(digest("x"), chain[2], "moved", bundle)]},
            ],
        },
        "whole": chain,
        "bad_whole": [
            {"name": "a record changed", "records": [chain[0], changed_record, chain[2]], "bad_record": 2},
            {"name": "a record removed", "records": [chain[0], chain[2]], "bad_record": 2},
            {"name": "the first record removed", "records": chain[1:], "bad_record": 1},
            {"name": "records swapped", "records": [chain[0], chain[2], chain[1]], "bad_record": 2},
        ],
        "excerpts": [chain[1:], [chain[0], chain[2]], [chain[2]]],
        "bad_excerpts": [
            {"name": "a record changed", "records": [changed_record], "bad_record": 1},
            {"name": "a record after its successor", "records": [chain[2], chain[1]], "bad_record": 2},
            {"name": "two records after the same one", "records": [chain[1], forked], "bad_record": 2},
            {"name": "the store's first record in second place", "records": [chain[1], chain[0]], "bad_record": 2},
        ],
    }


def records(run: Run, kind: str) -> list[Json]:
    lines = [msgspec.json.decode(line) for line in b"".join(run.bodies).splitlines()]
    return [line[kind] for line in lines if line["kind"] == kind]


def attempt_vectors() -> Json:
    good = []
    for name, run in (("three_steps", three_steps()), ("refusals", refusals()), ("lost_answer", lost_answer())):
        for trace in run.traces:
            effect = trace.artifacts.get("tool_effect")
            if effect is not None:
                good.append(
                    {
                        "name": f"{name}: {trace.step['step_id']}",
                        "tool_call_digest": trace.artifacts["tool_call"]["_digest"],
                        "records": trace.attempts,
                        "effect_meta": effect["meta"],
                    }
                )
    return {
        "description": "Attempts of one trace and what the effect's meta says of them. `bad_record` counts from 1.",
        "good": good,
        "bad": bad_attempts(good[0]),
        "bad_sums": bad_sums(good[0]),
    }


def bad_attempts(base: Json) -> list[Json]:
    first, second = base["records"]

    def again(record: Json, change: Json) -> Json:
        return with_digest(changed(record, {**change, "digest": DROP}))

    served = again(
        first,
        {"kind": "served", "facts": None, "backoff_ms": None, "side_effects": [], "code": "OK", "cost_exact": "0"},
    )
    lost = again(
        first,
        {
            "kind": "lost",
            "backoff_ms": None,
            "side_effects": [],
            "code": "ERR_IN_DOUBT",
            "cost_exact": "0",
            "response": digest("told"),
        },
    )
    cases: list[tuple[str, list[Json], int, str]] = [
        ("a digest that is not the record's", [{**first, "cost_exact": "1"}], 1, "ATTEMPT_DIGEST"),
        ("a first record that does not follow the call", [again(first, {"prev": ZERO_DIGEST})], 1, "ATTEMPT_CHAIN"),
        ("the first record missing", [second], 1, "ATTEMPT_CHAIN"),
        ("records swapped", [second, first], 1, "ATTEMPT_CHAIN"),
        ("an ordinal skipped", [first, again(second, {"ordinal": 2})], 2, "ATTEMPT_CHAIN"),
        ("an attempt number repeated", [first, again(second, {"attempt": 0})], 2, "ATTEMPT_CHAIN"),
        ("a side effect of another attempt", [again(first, {"side_effects": [other_effect()]})], 1, "ATTEMPT_CHAIN"),
        ("an attempt without facts", [again(first, {"facts": None})], 1, "LINE_MALFORMED"),
        ("an attempt without a code", [again(first, {"code": None})], 1, "LINE_MALFORMED"),
        ("a redispatch with a result", [again(first, {"kind": "redispatch"})], 1, "LINE_MALFORMED"),
        ("something after a served record", [served, again(second, {"prev": served["digest"]})], 2, "ATTEMPT_CHAIN"),
        ("a served record with a cost", [again(served, {"cost_exact": "1"})], 1, "LINE_MALFORMED"),
        ("a lost record without facts", [again(lost, {"facts": None})], 1, "LINE_MALFORMED"),
        ("a lost record with a cost", [again(lost, {"cost_exact": "1"})], 1, "LINE_MALFORMED"),
        ("a lost record with another code", [again(lost, {"code": "ERR_TIMEOUT"})], 1, "LINE_MALFORMED"),
        ("a lost record that says nothing to the caller", [again(lost, {"response": None})], 1, "LINE_MALFORMED"),
        (
            "an answer that is lost twice",
            [lost, again(lost, {"ordinal": 1, "prev": lost["digest"]})],
            2,
            "ATTEMPT_CHAIN",
        ),
    ]
    return [
        {
            "name": name,
            "tool_call_digest": base["tool_call_digest"],
            "records": chain,
            "bad_record": at,
            "code": code,
        }
        for name, chain, at, code in cases
    ]


def other_effect() -> Json:
    return {"type": "http_request", "target": "127.0.0.1:8080", "attempt": 7}


def bad_sums(base: Json) -> list[Json]:
    wrong = {
        "attempts": 1,
        "retries": 2,
        "cost_exact": "1",
        "cost_cents": 1,
        "attempts_head": ZERO_DIGEST,
        "side_effects": digest([]),
        "served_from": uid(9),
    }
    return [
        {**base, "name": f"wrong {key}", "effect_meta": {**base["effect_meta"], key: value}, "code": "EFFECT_MISMATCH"}
        for key, value in wrong.items()
    ]


def seal_vectors() -> Json:
    leaves = [canonicalize({"leaf": number}).decode() for number in range(9)]
    runs = {"three_steps": three_steps(), "refusals": refusals(), "session": session()}
    return {
        "description": "RFC 6962 trees over the first n leaves, and seals with the leaves of both their trees.",
        "leaves": leaves,
        "roots": [tree_root([leaf.encode() for leaf in leaves[:count]]) for count in range(len(leaves) + 1)],
        "seals": [
            {
                "name": name,
                "seal": run.seal_record,
                "trace_leaves": [trace.leaf.decode() for trace in run.traces],
                "attempt_leaves": [
                    canonicalize({key: record[key] for key in ("trace_id", "ordinal", "digest")}).decode()
                    for record in run.attempts
                ],
            }
            for name, run in runs.items()
        ],
        "bad_seals": bad_seals(runs["three_steps"]),
    }


def bad_seals(run: Run) -> list[Json]:
    """Seals whose digest recomputes, over something that the run is not."""
    seal = run.seal_record or {}
    changes: list[tuple[str, Json, str]] = [
        ("another status", {"status": "failed"}, "SEAL_DIGEST"),
        ("one trace less", {"traces": 2}, "SEAL_COUNT"),
        ("one commit less", {"commits": 5}, "SEAL_COUNT"),
        ("another number of steps", {"steps_planned": 4}, "SEAL_COUNT"),
        ("another head", {"run_head": ZERO_DIGEST}, "SEAL_HEAD"),
        ("another root", {"root": tree_root([])}, "SEAL_ROOT"),
        ("another attempts_root", {"attempts_root": tree_root([])}, "SEAL_ROOT"),
        ("another plan", {"plan_hash": "sha256:" + ZERO_DIGEST}, "PLAN_MISMATCH"),
        ("another run", {"run_id": uid(2)}, "RUN_MISMATCH"),
    ]
    cases = []
    for name, change, code in changes:
        digest_of = {} if code == "SEAL_DIGEST" else {"seal_digest": DROP}
        cases.append(
            {"name": name, "seal": with_digest(changed(seal, {**change, **digest_of}), "seal_digest"), "code": code}
        )
    return cases


def run_chain_vectors() -> Json:
    run = three_steps()
    last = len(run.bodies)
    ops: list[tuple[str, Json, str, int | None, int | None]] = [
        ("a commit removed", {"delete_commit": 3}, "COMMIT_NUMBER", 4, None),
        ("the first commit removed", {"delete_commit": 1}, "COMMIT_NUMBER", 2, 1),
        ("two commits swapped", {"swap_commits": [2, 3]}, "COMMIT_NUMBER", 3, None),
        ("a commit twice", {"repeat_commit": 2}, "COMMIT_NUMBER", 2, None),
        ("a commit emptied", {"delete_line": 7}, "COMMIT_EMPTY", 2, None),
        ("an entry removed", {"delete_line": 4}, "STATE_SEQUENCE_GAP", 1, 4),
        ("an attempt removed", {"delete_line": 9}, "EFFECT_MISMATCH", 3, 9),
        ("the run record changed", {"replace": [2, '"mode":"live"', '"mode":"dry_run"']}, "CAPABILITY_MISMATCH", 1, 4),
        ("a space added", {"replace": [2, '"kind":"run"', '"kind": "run"']}, "LINE_NOT_CANONICAL", 1, 2),
        ("a key twice", {"replace": [2, '"kind":"run"', '"kind":"run","kind":"run"']}, "LINE_NOT_CANONICAL", 1, 2),
        ("a key added", {"replace": [1, '"n":1,', '"n":1,"note":"",']}, "LINE_MALFORMED", 1, 1),
        ("another version", {"replace": [2, "reenact.run.v1", "reenact.run.v2"]}, "EVIDENCE_VERSION_UNKNOWN", 1, 2),
        ("the end cut in the middle of a line", {"cut_bytes": 10}, "EVIDENCE_TORN_TAIL", last, None),
        ("another run's commit line", {"replace": [1, run.run_id, uid(9)]}, "RUN_MISMATCH", 1, 2),
    ]
    return {
        "description": "A sealed run's bodies in order, and what is found after one change. Lines are those of all "
        "bodies together, counted from 1; `commit` and `line` say where the first finding is.",
        "bodies": [body.decode() for body in run.bodies],
        "heads": [sha256_hex(body) for body in run.bodies],
        "bad": [
            {"name": name, "change": change, "code": code, "commit": commit, "line": line}
            for name, change, code, commit, line in ops
        ],
    }
