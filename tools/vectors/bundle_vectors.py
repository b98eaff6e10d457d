"""Bundles: good ones as folders, bad ones as changes to them with what must be found."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

from reenact.values.canonical import canonicalize
from reenact.values.digest import ZERO_DIGEST, sha256_hex
from reenact.verify.views import Views
from tools.vectors.anchoring_vectors import NAME as WITNESSED
from tools.vectors.anchoring_vectors import witnessed
from tools.vectors.pieces import Json, b64, key_of, kid_of, public_bytes, uid
from tools.vectors.scenarios import refusals, session, three_steps
from tools.vectors.writer import Run, bundle_files, content, note, packed_lines, with_manifest

PACKED = "three_steps_packed"
FILE = "payloads.jsonl.gz"


def good_bundles() -> dict[str, Run]:
    return {
        "three_steps": three_steps(),
        "refusals": refusals(),
        "session": session(),
        "session_repeated": session(named=False),
    }


WITH_VIEWS = {"three_steps_with_views": "three_steps", "session_with_views": "session"}
"""The same runs again, with their replay logs and receipts."""


class Envelopes:
    """The payloads of a bundle."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.get: Callable[[str], bytes | None] = lambda commitment: files.get(f"payloads/{commitment}")


def with_views(files: dict[str, bytes], run_id: str) -> dict[str, bytes]:
    """Made by the one function that makes them, and kept as they are: a change of what it gives shows."""
    taken = {
        each["commitment"]: each.get("type") for each in map(json.loads, files.get("erasures.jsonl", b"").splitlines())
    }
    moved = {commitment for commitment, kind in taken.items() if kind == "archived"}
    views = Views(files["journal.jsonl"].splitlines(keepends=True), Envelopes(files), moved)
    replay = b"".join(views.replay())
    return with_manifest({**files, "REPLAY.jsonl": replay, "RECEIPT.json": b"".join(views.receipt())}, run_id)


def bundle_folders(there: Path) -> dict[str, bytes]:
    """Good bundles, one of them packed. What is `there` with the same lines stays: packers differ, lines do not."""
    runs = good_bundles()
    bundles = {name: bundle_files(run) for name, run in runs.items()}
    bundles |= {name: with_views(bundles[of], runs[of].run_id) for name, of in WITH_VIEWS.items()}
    files = {f"{name}/{file}": data for name, found in bundles.items() for file, data in found.items()}
    files |= {f"{WITNESSED}/{file}": data for file, data in witnessed().items()}
    for file, data in bundle_files(three_steps(), packed=True).items():
        name = f"{PACKED}/{file}"
        kept = (there / name).read_bytes() if (there / name).is_file() else b""
        files[name] = kept if file.endswith(".gz") and content(file, kept) == content(file, data) else data
    return files


def packed_cases() -> list[Json]:
    """Of a bundle whose payloads are packed. The bytes are written out, so that no packer stands between."""
    run = three_steps()
    args = run.traces[0].artifacts["action_request"]["proposal"]["args"]["$commit"]
    lines = packed_lines(run.payloads)
    first, second, *rest = lines.splitlines(keepends=True)
    less = packed_lines({name: data for name, data in run.payloads.items() if name != args})
    more = packed_lines({**run.payloads, sha256_hex(b"x"): b"x"})
    flipped = {**run.payloads, args: run.payloads[args][:-1] + b"?"}
    whole = stored(lines)

    def packed(name: str, data: bytes, code: str, **expected: object) -> Json:
        return case(name, [{"write_file": [FILE, data.hex()]}], code, bundle=PACKED, **expected)

    return [
        packed("packed in another way", whole, "", exit_code=0),
        packed("a packed payload changed", stored(packed_lines(flipped)), "PAYLOAD_CHANGED", step_id="fetch"),
        packed("a packed payload removed", stored(less), "PAYLOAD_LOST", step_id="fetch"),
        packed("a packed payload added", stored(more), "FILE_EXTRA"),
        packed("packed payloads, manifest as it was", stored(less), "PAYLOAD_LOST", manifest=False),
        packed("packed payloads out of order", stored(b"".join([second, first, *rest])), "FILE_MALFORMED", line=2),
        packed("a packed payload twice", stored(b"".join([first, first, second, *rest])), "FILE_MALFORMED", line=2),
        packed("a packed line that is not one", stored(lines.replace(b'":"', b'": "', 1)), "FILE_MALFORMED", line=1),
        packed("packed payloads cut", whole[:-9], "FILE_MALFORMED"),
        packed("bytes after packed payloads", whole + b"x", "FILE_MALFORMED"),
        packed("packed payloads with a time", whole[:4] + b"\x01" + whole[5:], "FILE_MALFORMED"),
        packed("packed payloads with a wrong sum", whole[:-8] + bytes(4) + whole[-4:], "FILE_MALFORMED"),
        packed("the last packed line cut", stored(lines[:-1]), "FILE_MALFORMED"),
        case("packed payloads removed", [{"delete_file": FILE}], "PAYLOAD_LOST", bundle=PACKED, manifest=False),
    ]


def stored(lines: bytes) -> bytes:
    """Gzip of blocks that are not compressed."""
    blocks = [lines[at : at + 65535] for at in range(0, len(lines), 65535)] or [b""]
    body = b"".join(
        struct.pack("<BHH", number == len(blocks), len(block), len(block) ^ 0xFFFF) + block
        for number, block in enumerate(blocks, start=1)
    )
    sums = struct.pack("<II", zlib.crc32(lines), len(lines))
    return b"\x1f\x8b\x08" + bytes(6) + b"\xff" + body + sums


def case(name: str, changes: list[Json], code: str, **expected: object) -> Json:
    """`manifest`: whether the manifest is made anew after the changes, as an attacker would."""
    return {
        "name": name,
        "bundle": expected.pop("bundle", "three_steps"),
        "changes": changes,
        "manifest": expected.pop("manifest", True),
        "exit_code": expected.pop("exit_code", 1),
        "code": code,
        "where": expected,
    }


def mutations() -> Json:
    run = three_steps()
    args = run.traces[0].artifacts["action_request"]["proposal"]["args"]["$commit"]
    outcome = run.traces[2].artifacts["tool_effect"]["document_hashes"][1]["hash"]
    other = key_of("somebody else")
    stranger = canonicalize({kid_of(other): b64(public_bytes(other))}) + b"\n"
    forged = canonicalize({kid_of(run.key): b64(public_bytes(other))}) + b"\n"
    journal, notes, seal_digest = "journal.jsonl", "notes.jsonl", run.seal_record["seal_digest"]
    signed = note(run.key, "reenact.seal.v1", seal_digest)
    by_other = note(other, "reenact.seal.v1", seal_digest)
    forged_note = canonicalize({**signed, "signature": by_other["signature"]}) + b"\n"
    text = f"reenact.seal.v1\n{uid(0x99)}\n{seal_digest}\n".encode()
    elsewhere = canonicalize({**signed, "signature": b64(run.key.sign(text)), "store_id": uid(0x99)}) + b"\n"
    of_another_run = canonicalize(note(run.key, "reenact.seal.v1", refusals().seal_record["seal_digest"])) + b"\n"
    return {
        "description": "Each case changes a copy of a good bundle. `code` is the first finding, `where` where it is; "
        "`manifest` says that manifest.json is then made anew, so that only the evidence itself can tell.",
        "cases": [
            case("nothing changed", [], "", exit_code=0),
            case("one byte of the journal, manifest as it was",
                 [{"replace": [journal, "http_call@0.9.0 for", "http_call@0.9.1 for"]}],
                 "ARTIFACT_DIGEST", manifest=False, file=journal, commit=1, line=3),
            case("one byte of the journal",
                 [{"replace": [journal, "http_call@0.9.0 for", "http_call@0.9.1 for"]}],
                 "ARTIFACT_DIGEST", file=journal, commit=1, line=3, step_id="fetch"),
            case("an attempt's code", [{"replace": [journal, '"code":"ERR_HTTP_503"', '"code":"ERR_HTTP_500"']}],
                 "ATTEMPT_DIGEST", file=journal, commit=2, line=7, step_id="fetch"),
            case("the last commit removed", [{"delete_commit": 6}], "SEAL_MISSING", file="seal.json"),
            case("the last commit and the seal removed", [{"delete_commit": 6}, {"delete_file": "seal.json"},
                 {"delete_file": "notes.jsonl"}, {"delete_file": "seal.note"}, {"prune_payloads": True}], "",
                 exit_code=4),
            case("the last commit and the seal removed, and not the note about it", [{"delete_commit": 6},
                 {"delete_file": "seal.json"}, {"delete_file": "seal.note"}, {"prune_payloads": True}],
                 "SEAL_MISSING", file=notes),
            case("the note about the seal removed", [{"delete_file": notes}, {"delete_file": "seal.note"}],
                 "SEAL_NOT_SIGNED", file=notes, commit=6),
            case("the note about another seal", [{"replace": [notes, seal_digest[:8], "00000000"]},
                 {"delete_file": "seal.note"}], "SEAL_NOT_SIGNED", file=notes, commit=6),
            case("the note of another key", [{"replace": [notes, kid_of(run.key), kid_of(other)]},
                 {"delete_file": "seal.note"}], "SEAL_NOT_SIGNED", file=notes, commit=6),
            case("the note signed by another key", [{"write_file": [notes, forged_note.hex()]},
                 {"delete_file": "seal.note"}], "NOTE_SIGNATURE", file=notes, line=1),
            case("the note signed for another store", [{"write_file": [notes, elsewhere.hex()]},
                 {"delete_file": "seal.note"}], "SEAL_NOT_SIGNED", file=notes, commit=6),
            case("the note of another run of the store", [{"write_file": [notes, of_another_run.hex()]},
                 {"delete_file": "seal.note"}], "SEAL_NOT_SIGNED", file=notes, commit=6),
            case("the note's copy for other programs changed", [{"replace": ["seal.note", "seal.v1", "seal.v2"]}],
                 "NOTE_MALFORMED", file="seal.note"),
            case("the note's copy for other programs removed", [{"delete_file": "seal.note"}], "", exit_code=0),
            case("a commit in the middle removed", [{"delete_commit": 2}], "COMMIT_NUMBER", file=journal, commit=3),
            case("an attempt after its effect", [{"swap_lines": [9, 10]}], "EFFECT_MISMATCH", file=journal, commit=3,
                 line=9, step_id="fetch"),
            case("a request before the effect of the step before it", [{"swap_lines": [10, 11]}], "LINE_ORDER",
                 file=journal, commit=3, line=10),
            case("the tail torn", [{"cut_bytes": 5}], "EVIDENCE_TORN_TAIL", file=journal, commit=6),
            case("a payload changed", [{"flip_byte": [f"payloads/{args}", 40]}],
                 "PAYLOAD_CHANGED", file=journal, commit=1, line=3),
            case("a payload removed", [{"delete_file": f"payloads/{args}"}],
                 "PAYLOAD_LOST", file=journal, commit=1, line=3),
            case("a payload removed, manifest as it was", [{"delete_file": f"payloads/{outcome}"}],
                 "PAYLOAD_LOST", manifest=False, file=journal, commit=6),
            case("a payload added", [{"write_file": [f"payloads/{sha256_hex(b'x')}", "78"]}], "FILE_EXTRA"),
            case("a file added", [{"write_file": ["notes.txt", "78"]}], "FILE_EXTRA", manifest=False, file="notes.txt"),
            case("a key that signed nothing", [{"write_file": ["keys.json", stranger.hex()]}], "", exit_code=0),
            case("another key under the same name", [{"write_file": ["keys.json", forged.hex()]}], "KEY_INVALID"),
            case("the plan's copy changed", [{"replace": ["plan.json", "Tell the team", "Tell my team"]}],
                 "PLAN_MISMATCH", file="plan.json"),
            case("the seal's copy changed", [{"replace": ["seal.json", '"completed"', '"failed"']}],
                 "SEAL_MISSING", file="seal.json"),
            case("the seal's copy removed", [{"delete_file": "seal.json"}], "FILE_MISSING", file="seal.json"),
            case("the manifest removed", [{"delete_file": "manifest.json"}], "MANIFEST_MISSING", manifest=False),
            case("a digest in the manifest", [{"replace_digest": ["plan.json", ZERO_DIGEST]}], "FILE_CHANGED",
                 manifest=False, file="plan.json"),
            case("the version in the manifest", [{"replace": ["manifest.json", '_version":"', '_version":"9']}],
                 "MANIFEST_DIGEST", manifest=False, file="manifest.json"),
            case("a name that leads elsewhere", [{"replace": ["manifest.json", "plan.json", "../plan.j"]}],
                 "MANIFEST_MALFORMED", manifest=False),
            case("a vote removed", [{"delete_line_with": '"kind":"vote"'}], "COMMIT_EMPTY", bundle="session"),
            case("a vote's answer", [{"replace": [journal, '"decision":"APPROVE","digest"',
                 '"decision":"DENY","digest"']}], "VOTE_MISMATCH", bundle="session"),
            case("an event removed", [{"delete_line_with": '"type":"turn"'}], "ARTIFACT_CONTENT", bundle="session"),
            case("an argument in the copy of a session's plan", [{"replace": ["plan.json", "127.0.0.1", "127.0.0.2"]}],
                 "PLAN_MISMATCH", bundle="session", file="plan.json"),
            case("a key in the copy of a session's plan", [{"replace": ["plan.json", "hello-1", "hello-2"]}],
                 "PLAN_MISMATCH", bundle="session", file="plan.json"),
            case("a refusal's reason", [{"replace": [journal, '"required_exact":"10000000000001"',
                 '"required_exact":"10000000000009"']}], "ARTIFACT_DIGEST", bundle="refusals"),
            *packed_cases(),
            case("a denial turned around", [{"replace": [journal, '"to_state":"DENIED"', '"to_state":"AUTHORIZED"']}],
                 "STATE_CHECKSUM_MISMATCH", bundle="refusals", commit=2),
            case("the replay log and the receipt as they are", [], "", exit_code=0, bundle="session_with_views"),
            case("a utility in the replay log",
                 [{"replace": ["REPLAY.jsonl", '"step_utility":0.2', '"step_utility":1']}],
                 "REPLAY_MISMATCH", bundle="three_steps_with_views", file="REPLAY.jsonl", line=5),
            case("garbage for a replay log", [{"write_file": ["REPLAY.jsonl", "78"]}], "REPLAY_MISMATCH",
                 bundle="session_with_views", file="REPLAY.jsonl"),
            case("a confidence in the receipt",
                 [{"replace": ["RECEIPT.json", '"final_confidence":', '"final_confidence":1']}], "RECEIPT_MISMATCH",
                 bundle="session_with_views", file="RECEIPT.json"),
            case("garbage for a receipt", [{"write_file": ["RECEIPT.json", "78"]}], "RECEIPT_MISMATCH",
                 bundle="three_steps_with_views", file="RECEIPT.json"),
            case("the receipt alone", [{"delete_file": "REPLAY.jsonl"}], "", exit_code=0,
                 bundle="three_steps_with_views"),
        ],
    }  # fmt: skip
