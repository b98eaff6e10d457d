"""He has the folder that was sent, knows the format, and has no key: the answer that is on record becomes another."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from reenact.store.keys.notes import sign_note
from reenact.store.signing import SigningKey, key_in_memory
from reenact.values.canonical import canonicalize
from reenact.verify import Report, verify_bundle
from reenact.verify.signed.trust import Trust, TrustedKey
from tests.attacks.refunds import Files, Json, exported, forged, remake
from tests.cli.harness import Command


@cache
def sent() -> Files:
    return exported(Path(mkdtemp()))


@cache
def of_another_store() -> Files:
    return exported(Path(mkdtemp()))


def notes_in(files: Files) -> list[Json]:
    return [json.loads(line) for line in files["notes.jsonl"].splitlines()]


def with_notes(files: Files, notes: list[Json]) -> Files:
    lines = b"".join(canonicalize(note) + b"\n" for note in notes)
    return {name: data for name, data in files.items() if name != "seal.note"} | {"notes.jsonl": lines}


def about_the_seal(files: Files, **other: Any) -> Json:
    (note,) = (note for note in notes_in(files) if note["schema"] == "reenact.seal.v1")
    return {**note, **other}


def besides(files: Files) -> list[Json]:
    return [note for note in notes_in(files) if note["schema"] != "reenact.seal.v1"]


def seal_in(files: Files) -> str:
    return str(json.loads(files["seal.json"])["seal_digest"])


def signed_anew(key: SigningKey, files: Files) -> Json:
    note = sign_note(key, "reenact.seal.v1", about_the_seal(sent())["store_id"], seal_in(files))
    signature = urlsafe_b64encode(note.signature).rstrip(b"=").decode()
    return about_the_seal(sent(), digest=note.digest, kid=key.kid, signature=signature)


# -- what he can do about the note ---------------------------------------------------------------------------------


def leave_it(files: Files) -> Files:
    return files


def drop_it(files: Files) -> Files:
    return with_notes(files, besides(files))


def drop_all_notes(files: Files) -> Files:
    return {name: data for name, data in files.items() if name not in ("notes.jsonl", "seal.note")}


def name_the_new_seal(files: Files) -> Files:
    return with_notes(files, [*besides(files), about_the_seal(files, digest=seal_in(files))])


def take_another_stores(files: Files) -> Files:
    other = about_the_seal(of_another_store())
    return with_notes(files, [*besides(files), other])


def take_another_stores_for_this_seal(files: Files) -> Files:
    other = about_the_seal(of_another_store(), digest=seal_in(files))
    return with_notes(files, [*besides(files), other])


def sign_with_his_own_key(files: Files) -> Files:
    return with_notes(files, [*besides(files), signed_anew(key_in_memory(), files)])


def add_his_key(files: Files) -> Files:
    own = key_in_memory()
    files = with_notes(files, [*besides(files), signed_anew(own, files)])
    return {**files, "keys.json": canonicalize({**json.loads(files["keys.json"]), own.kid: own.public_key}) + b"\n"}


def sign_in_the_stores_name(files: Files) -> Files:
    note = signed_anew(key_in_memory(), files)
    return with_notes(files, [*besides(files), {**note, "kid": about_the_seal(sent())["kid"]}])


WAYS: list[Callable[[Files], Files]] = [
    leave_it, drop_it, drop_all_notes, name_the_new_seal, take_another_stores, take_another_stores_for_this_seal,
    sign_with_his_own_key, add_his_key, sign_in_the_stores_name,
]  # fmt: skip


@pytest.mark.parametrize("about_the_note", WAYS, ids=lambda way: way.__name__)
def test_another_answer_is_found_whatever_is_done_about_the_note(
    about_the_note: Callable[[Files], Files], tmp_path: Path
) -> None:
    folder = remake(tmp_path / "fake", about_the_note(forged(sent())))
    own = verify_bundle(folder)
    assert (own.exit_code, own.authenticity) == (1, "broken"), own.findings
    trusting = verify_bundle(folder, keys=json.loads(sent()["keys.json"]))
    assert (trusting.exit_code, trusting.authenticity) == (1, "broken"), trusting.findings
    codes = {finding.code for finding in trusting.findings}
    assert codes & {"SEAL_NOT_SIGNED", "NOTE_SIGNATURE"}, codes


def test_the_command_fails_for_it(tmp_path: Path) -> None:
    reenact = Command(tmp_path)
    trusted = tmp_path / "trusted.json"
    trusted.write_bytes(sent()["keys.json"])
    fake = remake(tmp_path / "fake", drop_all_notes(forged(sent())))
    told = reenact("verify", fake, "--keys", trusted, "--json").json
    assert told["integrity"] == told["completeness"] == "holds", "nothing else is wrong with it"
    assert told["first_break"]["code"] == "SEAL_NOT_SIGNED"
    for options in (["--require", "signature"], ["--keys", trusted], []):
        assert reenact("verify", fake, *options).code == 1, options


# -- it is made to look like a run of before seals were signed --------------------------------------------------------


def unbound(line: Json) -> None:
    """Capabilities of before had no bounds; whoever takes them out cannot sign what is left."""
    artifact = line.get("artifact", {})
    if artifact.get("minted_capability"):
        header, claims, signature = artifact["minted_capability"].split(".")
        value = json.loads(urlsafe_b64decode(claims + "=="))
        del value["constraints"]["arg_constraints"]["$bounds"]
        claims = urlsafe_b64encode(canonicalize(value)).rstrip(b"=").decode()
        artifact["minted_capability"] = f"{header}.{claims}.{signature}"


def test_it_cannot_be_made_to_look_like_a_run_of_before(tmp_path: Path) -> None:
    report = verify_bundle(remake(tmp_path / "old", drop_all_notes(forged(sent(), unbound))))
    assert (report.exit_code, report.authenticity) == (1, "broken")
    assert "CAPABILITY_SIGNATURE" in {finding.code for finding in report.findings}


def test_without_keys_nothing_is_said_to_hold(tmp_path: Path) -> None:
    files = {name: data for name, data in drop_all_notes(forged(sent())).items() if name != "keys.json"}
    report = verify_bundle(remake(tmp_path / "bare", files))
    assert report.authenticity == "absent"
    assert report.signature.covers == "nothing"


# -- all of it is signed anew --------------------------------------------------------------------------------------


def all_his_own(files: Files) -> tuple[Files, SigningKey]:
    """Run record, capabilities and seal under a key of his."""
    own, minted = key_in_memory(), [""]

    def sign(line: Json) -> None:
        if line["kind"] == "run":
            line["run"]["capability_key"] = own.kid
        artifact = line.get("artifact", {})
        if artifact.get("minted_capability"):
            _, claims, _ = artifact["minted_capability"].split(".")
            header = canonicalize({"alg": "EdDSA", "kid": own.kid, "typ": "JWT"})
            said = urlsafe_b64encode(header).rstrip(b"=").decode() + "." + claims
            signature = urlsafe_b64encode(own.sign(said.encode())).rstrip(b"=").decode()
            minted[0] = artifact["minted_capability"] = f"{said}.{signature}"
        if artifact.get("capability_digest"):
            artifact["capability_digest"] = sha256(minted[0].encode()).hexdigest()

    made = forged(files, sign)
    made = with_notes(made, [signed_anew(own, made)])
    return {**made, "keys.json": canonicalize({own.kid: own.public_key}) + b"\n"}, own


def word(report: Report) -> tuple[str, str | None, str | None]:
    return report.authenticity, report.signature.by, report.signature.trusted_as


def test_what_he_signs_himself_is_nobodys_word(tmp_path: Path) -> None:
    files, own = all_his_own(sent())
    folder = remake(tmp_path / "his", files)
    assert word(verify_bundle(folder)) == ("holds", "own_key", None)
    right = json.loads(sent()["keys.json"])
    assert word(verify_bundle(folder, keys=right)) == ("absent", "untrusted_key", None)
    (key,) = right.values()
    acme = Trust((TrustedKey(key, "acme billing"),))
    assert word(verify_bundle(folder, keys=acme)) == ("holds", "own_key", None), "and not acme's"
    assert word(verify_bundle(remake(tmp_path / "right", sent()), keys=acme)) == (
        "holds",
        "trusted_key",
        "acme billing",
    )
    assert own.kid != acme.keys[0].kid
    reenact = Command(tmp_path)
    told = reenact("verify", folder)
    assert (told.code, f"by the folder's own key {own.kid}, which nobody vouched for" in told.out) == (0, True)
    assert reenact("verify", folder, "--require", "trust").code == 1
