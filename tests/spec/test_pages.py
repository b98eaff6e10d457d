"""The pages of `docs/spec/`: every byte they print comes from the generator, every digest recomputes."""

from __future__ import annotations

import base64
import gzip
import hashlib
import hmac
import json
import re
from base64 import b64decode
from typing import Any

import rfc8785
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from tools.make_vectors import stale
from tools.vectors.scenarios import SKILLS, lost_answer, refusals, session, three_steps
from tools.vectors.writer import bundle_files, content

from reenact.verify import CODES
from tests.conftest import ROOT

SPEC = ROOT / "docs" / "spec"
DIGEST_KEYS = ("_digest", "digest", "entry_digest", "seal_digest")
HEX = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
PAGES = [
    "README", "attempts", "bundle", "checkpoints", "entry_and_artifacts", "outcome", "payloads", "plan", "run_chain",
    "seal", "skill_metadata",
]  # fmt: skip


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def blocks(language: str) -> list[tuple[str, str]]:
    """(page, text) of every fenced block of a language."""
    found = []
    for name in PAGES:
        text = (SPEC / f"{name}.md").read_text(encoding="utf-8")
        found += [(name, block) for block in re.findall(rf"```{language}\n(.*?)\n```", text, re.DOTALL)]
    return found


def test_generated_files_are_what_the_generator_makes() -> None:
    assert [str(path.relative_to(ROOT)) for path in stale()] == []


def test_every_printed_record_recomputes_to_the_digest_that_it_carries() -> None:
    checked = 0
    for page, text in blocks("json"):
        value: Any = json.loads(text)
        for record in (value, *(item for item in value.values() if isinstance(item, dict))):
            for key in DIGEST_KEYS:
                if key in record and not (key == "digest" and "_digest" in record):
                    covered = {name: item for name, item in record.items() if name != key}
                    assert sha(rfc8785.dumps(covered)) == record[key], (page, key)
                    checked += 1
    assert checked >= 10


def known_digests() -> set[str]:
    """Everything that a digest on a page may be: computed here from the runs' bytes, with no code of the verifier's."""
    known = {"0" * 64, sha(b"")}
    for run in (three_steps(), refusals(), session(), lost_answer()):
        known |= {sha(body) for body in run.bodies} | {sha(envelope) for envelope in run.payloads.values()}
        known |= {sha(data) for data in bundle_files(run).values()}
        known |= {sha(content(name, data)) for name, data in bundle_files(run, packed=True).items()}
        for body in run.bodies:
            known |= {sha(body[: body.index(line)]) for line in body.splitlines(keepends=True)[1:]}
            for line in map(json.loads, body.splitlines()):
                known |= line_digests(line)
    return known


def keys_of(text: str) -> set[str]:
    """The idempotency keys of the page, made here from what it prints above them."""
    lines = [line.split(None, 1) for line in text.replace("its key", "key").splitlines()]
    said = dict(lines)
    secret, salt = bytes.fromhex(said["key_secret"]), bytes.fromhex(said["salt"])
    arguments = hmac.digest(salt, said["arguments"].encode(), "sha256").hex()
    assert arguments in said["step"]
    made = [hmac.digest(secret, said[source].encode(), "sha256").hex() for source in ("step", "caller")]
    assert [line[1] for line in lines if line[0] == "key"] == [f"s:{made[0]}", f"k:{made[1]}"]
    return {said["key_secret"], said["salt"], arguments, *made}


def packed_on_the_page(text: str) -> set[str]:
    """The lines on the page are those in the file on the page; each names the digest of its envelope."""
    lines, _, file = text.removeprefix("lines\n").partition("file\n")
    lines = lines.removesuffix("\n")
    assert gzip.decompress(bytes.fromhex(file)).decode() == lines
    known = set()
    for line in map(json.loads, lines.splitlines()):
        assert sha(base64.b64decode(line["envelope"])) == line["commitment"]
        known.add(line["commitment"])
    return known


def heads_of(text: str) -> set[str]:
    """How the head on the page is authenticated, from its seed on."""
    said = dict(line.split(None, 1) for line in text.splitlines())
    seed = bytes.fromhex(said["seed"])
    key = HKDF(algorithm=SHA256(), length=32, salt=None, info=b"reenact head mac").derive(seed)
    assert said["key"] == key.hex()
    assert said["mac"] == hmac.digest(key, said["text"].encode(), "sha256").hex()
    return {said["seed"], said["key"], said["mac"]}


def bound_on_the_pages() -> str:
    """What the capability on the page is bound to, from the run, the request and the decision that stand there."""
    records = [json.loads(text) for _, text in blocks("json")]
    run = next(record["run"] for record in records if record.get("kind") == "run")
    request, decision = (
        next(record for record in records if record.get("schema_id") == f"talos.tga.{name}")
        for name in ("action_request", "supervisor_decision")
    )
    bindings = {
        "agent": run["agent_id"],
        "approver": decision["rationale"].removeprefix("Approved by "),
        "arguments": request["proposal"]["args"]["$commit"],
        "definition": request["meta"]["definition_digest"],
        "mode": run["mode"],
        "plan": run["plan_hash"],
        "request": request["_digest"],
        "run": run["run_id"],
        "vote": decision["meta"]["vote"],
    }
    return sha(rfc8785.dumps(bindings))


def line_digests(line: dict[str, Any]) -> set[str]:
    digests = set()
    for record in (item for item in line.values() if isinstance(item, dict)):
        for key in DIGEST_KEYS:
            digests.add(sha(rfc8785.dumps({name: item for name, item in record.items() if name != key})))
        digests.add(sha(rfc8785.dumps(record.get("checkpoint_state", {}))))
        digests.add(sha(str(record.get("minted_capability", "")).encode()))
        recorded = record["side_effects"] if record.get("schema") == "reenact.attempt.v1" else []
        effects = [[effect["type"], effect["target"]] for effect in recorded]
        digests |= {sha(rfc8785.dumps(effects * times)) for times in (0, 1, 2)}
    return digests


def test_every_digest_on_the_pages_recomputes_from_bytes() -> None:
    known = known_digests()
    # Printed with the value that they are digests of, or defined as random or as a root of the tree page.
    for page, text in blocks("text"):
        if page == "payloads" and text.startswith("salt"):
            fields = dict(line.split(None, 1) for line in text.splitlines())
            assert fields["envelope"] == fields["salt"] + fields["value"].encode().hex()
            known |= {fields["salt"], sha(bytes.fromhex(fields["envelope"]))}
        if page == "entry_and_artifacts" and text.startswith("key_secret"):
            known |= keys_of(text)
        if page == "bundle" and text.startswith("lines"):
            known |= packed_on_the_page(text)
        if page == "run_chain" and text.startswith("seed"):
            known |= heads_of(text)
    known.add(bound_on_the_pages())
    for page, text in blocks("json"):
        value = json.loads(text)
        known |= line_digests({"record": value})
        if page == "plan":
            known.add(value["context"]["pins"]["salt"])
            known.add(sha(rfc8785.dumps({key: item for key, item in value.items() if key != "created_at"})))
    known |= roots() | {sha(rfc8785.dumps(skill)) for skill in SKILLS}
    words = ("description", "name", "owner", "tags")
    known |= {sha(rfc8785.dumps({key: skill[key] for key in skill if key not in words})) for skill in SKILLS}
    unknown = {
        (name, digest)
        for name in PAGES
        for digest in HEX.findall((SPEC / f"{name}.md").read_text(encoding="utf-8"))
        if digest not in known
    }
    assert unknown == set()


def roots() -> set[str]:
    """Both trees of the printed seal, folded by hand: three leaves, then five."""
    run = three_steps()

    def leaf(data: bytes) -> bytes:
        return hashlib.sha256(b"\x00" + data).digest()

    def node(left: bytes, right: bytes) -> bytes:
        return hashlib.sha256(b"\x01" + left + right).digest()

    a, b, c = (leaf(trace.leaf) for trace in run.traces)
    keys = ("trace_id", "ordinal", "digest")
    p, q, r, s, t = (leaf(rfc8785.dumps({key: record[key] for key in keys})) for record in run.attempts)
    return {node(node(a, b), c).hex(), node(node(node(p, q), node(r, s)), t).hex()}


def test_the_pages_list_every_finding_and_every_step() -> None:
    page = (SPEC / "bundle.md").read_text(encoding="utf-8")
    assert all(f"| `{code}` |" in page for code in CODES)
    assert page.count("\n8. ") == 1


def test_links_between_pages_lead_somewhere() -> None:
    for name in PAGES:
        for target in re.findall(r"\]\(([a-z_]+\.md)\)", (SPEC / f"{name}.md").read_text(encoding="utf-8")):
            assert (SPEC / target).is_file(), (name, target)


def test_a_stranger_checks_the_printed_signature_with_the_printed_verifier_key() -> None:
    page = (SPEC / "seal.md").read_text(encoding="utf-8")

    def block(name: str) -> str:
        return page.split(f"<!-- bytes: {name} -->\n```text\n")[1].split("\n```")[0]

    name, key_id, encoded = block("vkey").split("+", 2)
    kind, public = b64decode(encoded)[:1], b64decode(encoded)[1:]
    assert hashlib.sha256(name.encode() + b"\n" + kind + public).hexdigest()[:8] == key_id
    text, line = block("signed-note").split("\n\n")
    dash, named, signature = line.split(" ")
    assert (dash, named, b64decode(signature)[:4].hex()) == ("\u2014", name, key_id)
    Ed25519PublicKey.from_public_bytes(public).verify(b64decode(signature)[4:], f"{text}\n".encode())
    assert text.splitlines()[2] == json.loads(block("note-line"))["digest"] == seal_digest_of(page)


def seal_digest_of(page: str) -> str:
    return str(
        json.loads(page.split("<!-- bytes: seal -->\n```json\n")[1].split("\n```", maxsplit=1)[0])["seal_digest"]
    )
