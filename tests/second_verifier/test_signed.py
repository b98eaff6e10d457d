"""Who signed what: keys that are trusted for one thing and not another, rotated, replaced; values that are archived."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import msgspec
import pytest
from tools.vectors.pieces import b64, key_of, public_bytes
from tools.vectors.scenarios import three_steps
from tools.vectors.writer import bundle_files, note

from reenact import Registry, Runtime
from reenact.store.keys.trusted import named_trust
from reenact.values.canonical import canonicalize
from reenact.values.digest import ZERO_DIGEST, digest
from reenact.verify import verify_bundle
from reenact.verify.signed.trust import verifier_key
from tests.cli.harness import Command
from tests.record.test_kinds_of_runs import SEND, plan, send
from tests.second_verifier.both import comparable, differences, first, second
from tests.second_verifier.bundles import VECTORS, exported
from tests.second_verifier.tampering import PACKED, fitted
from tests.verify.changing import read_folder, remade, write_folder

OTHER = b64(public_bytes(key_of("somebody else")))


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("signed")
    runtime = Runtime(str(folder / "store.db"), skills=Registry([send]))
    run = runtime.run(plan(SEND)).run_id
    runtime.close()
    exported(folder / "store.db", run, folder / "bundle")
    return folder / "bundle"


@pytest.mark.parametrize(
    ("lines", "verdict", "by"),
    [
        ("acme billing  seals,capabilities,log  VKEY", "holds", "trusted_key"),
        ("acme billing  seals,capabilities  KEY", "holds", "trusted_key"),
        ("# nobody\n\nacme\tcapabilities\tVKEY", "absent", "untrusted_key"),
        ("acme  seals  VKEY", "absent", "trusted_key"),
        ("acme  seals,capabilities  FOREIGN", "absent", "untrusted_key"),
        ("other  seals  OTHER", "absent", "untrusted_key"),
        ('{"KID": "KEY"}', "holds", "trusted_key"),
        ("{}", "absent", "untrusted_key"),
    ],
)
def test_a_list_of_trusted_keys_says_the_same_to_both(
    lines: str, verdict: str, by: str, bundle: Path, tmp_path: Path
) -> None:
    ((kid, key),) = json.loads((bundle / "keys.json").read_bytes()).items()
    store = verify_bundle(bundle).issuers[0].removeprefix("reenact:")
    given = {"FOREIGN": verifier_key("another", key), "VKEY": verifier_key(store, key), "OTHER": OTHER}
    for word, text in {**given, "KEY": key, "KID": kid}.items():
        lines = lines.replace(word, str(text))
    trusted = tmp_path / "trusted"
    trusted.write_text(f"{lines}\n")
    report = verify_bundle(bundle, keys=named_trust(trusted))
    (theirs,) = second([bundle], "--keys", str(trusted))
    theirs.pop("exit_code")
    assert comparable(msgspec.json.decode(msgspec.json.encode(report))) == comparable(theirs)
    assert (theirs["authenticity"], theirs["signature"]["by"]) == (verdict, by)


def alike(folder: Path) -> dict[str, object]:
    """Both judge it alike; what ours says."""
    ours = first(folder)
    (theirs,) = second([folder])
    assert differences(ours, theirs) == {}
    return ours


def test_a_rotated_key_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    runtime = Runtime(str(path), skills=Registry([send]))
    before = runtime.run(plan(SEND)).run_id
    runtime.close()
    rotate(path)
    runtime = Runtime(str(path), skills=Registry([send]))
    after = runtime.run(plan(SEND)).run_id
    runtime.close()
    for number, run in enumerate((before, after)):
        exported(path, run, tmp_path / str(number))
        assert alike(tmp_path / str(number))["exit_code"] == 0


def rotate(path: Path) -> None:
    done = Command(path.parent)("keys", "rotate", "--store", str(path))
    assert done.code == 0, done


@pytest.mark.parametrize(
    "kind", ["archived", "erased", "archived nowhere", "archived after it was erased", "a third version"]
)
def test_what_was_moved_to_another_bundle_is_not_lost(kind: str, tmp_path: Path) -> None:
    run = three_steps()
    gone = run.traces[0].artifacts["action_request"]["proposal"]["args"]["$commit"]
    record = {
        "schema": "reenact.erasure.v3" if "third" in kind else "reenact.erasure.v2",
        "commitment": gone, "run_id": run.run_id, "who": "ann", "reason": "old", "prev": ZERO_DIGEST,
        "type": kind.split(" ", maxsplit=1)[0] if "third" not in kind else "archived",
        "bundle": None if kind in ("erased", "archived nowhere") else "a" * 64, "ts": "2026-01-02T00:00:00.000Z",
    }  # fmt: skip
    records = [record | {"digest": digest(record)}]
    if "after" in kind:
        first_one = {**record, "type": "erased", "bundle": None}
        records = [first_one | {"digest": digest(first_one)}]
        second_one = {**record, "prev": records[0]["digest"]}
        records.append(second_one | {"digest": digest(second_one)})
    files = bundle_files(run)
    del files[f"payloads/{gone}"]
    files["erasures.jsonl"] = b"".join(canonicalize(each) + b"\n" for each in records)
    notes = [note(run.key, each["schema"], each["digest"]) for each in records]
    files["notes.jsonl"] = files.get("notes.jsonl", b"") + b"".join(canonicalize(each) + b"\n" for each in notes)
    report = alike(write_folder(tmp_path / "bundle", remade(files)))
    counts = report["counts"]
    assert isinstance(counts, dict)
    if kind in ("archived", "erased"):
        assert (report["findings"], counts[kind]) == ([], 1)
    else:
        assert report["exit_code"] == 1


@pytest.mark.parametrize("cut", [1, 4000])
def test_nothing_counts_of_a_file_that_cannot_be_unpacked(cut: int, tmp_path: Path) -> None:
    """However far somebody reads before he notices: so every verifier misses the same payloads."""
    path = tmp_path / "store.db"
    runtime = Runtime(str(path), skills=Registry([send]))
    steps = [{"skill_id": "send", "parameters": {"text": f"{number} " * 9000}} for number in range(12)]
    run = runtime.run(plan(*steps)).run_id
    runtime.close()
    files = exported(path, run, tmp_path / "whole")
    assert len(gzip.decompress(files[PACKED])) > 200_000
    files[PACKED] = files[PACKED][: -8 - cut]
    report = alike(write_folder(tmp_path / "cut", fitted(files, files["manifest.json"])))
    counts = report["counts"]
    assert isinstance(counts, dict)
    assert counts["present"] == 0
    assert read_folder(tmp_path / "cut")[PACKED] == files[PACKED]


def test_bombs_and_deep_nesting_are_judged_alike(tmp_path: Path) -> None:
    single, packed = (read_folder(VECTORS / name) for name in ("three_steps", "three_steps_packed"))
    changed = [{**packed, PACKED: gzip.compress(lines, 1, mtime=0)} for lines in (bytes(1 << 27), b"x", b"x\n", b"")]
    for name in ("journal.jsonl", "manifest.json", "notes.jsonl", "keys.json", "seal.json"):
        changed += [{**single, name: b"[" * 300_000 + end} for end in (b"", b"\n", b"]" * 300_000 + b"\n")]
    folders = [write_folder(tmp_path / str(number), files) for number, files in enumerate(changed)]
    for folder, theirs in zip(folders, second(folders), strict=True):
        assert differences(first(folder), theirs) == {}
        assert theirs["exit_code"] == 1
