"""What is fuzzed: each parser, pattern and decoder that sees foreign bytes, with what must hold of its answer.

A target returns, or raises one of its declared errors. Where an answer can be said again, or read by another reader, it
is; an assertion that fails is a finding like a wrong exception.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from reenact.builtin.net.addresses import parse_address
from reenact.builtin.net.body import decode_body
from reenact.builtin.net.guard import Guard
from reenact.builtin.net.retry_after import retry_after_ms
from reenact.builtin.transform.paths import follow, read_path
from reenact.contracts.plan import parse_plan
from reenact.contracts.references import UnresolvedReference, has_references, references_in, resolve
from reenact.contracts.skill import version_key
from reenact.contracts.tool_registry import read_tool_registry
from reenact.errors import CanonicalizationError, ReceiptError, ReenactError, SkillError
from reenact.evals.patterns import Pattern, quoted
from reenact.evals.spec import read_spec
from reenact.policy.hosts import read_address
from reenact.provenance import hashing
from reenact.provenance.manifests import read_manifest
from reenact.provenance.sidecar.backfill_header import read_conditions, read_header
from reenact.provenance.sidecar.block import parse_block
from reenact.provenance.sidecar.sidecar import parse_sidecar, serialize_sidecar
from reenact.provenance.yaml import javascript
from reenact.replay.compare.sides import at
from reenact.replay.modes.changes import put
from reenact.runtime.session.arguments import Unbindable, bind_secret
from reenact.skills.schema.signature import SchemaCheck
from reenact.store.encryption import decrypt_text, encrypt_text, key_of
from reenact.store.owner import is_out_of_sight, owner_is_gone
from reenact.trace import ReplayReader, SessionReceipt, verify_replay
from reenact.trace.receipt import read_large
from reenact.values.bounds import place_in, whole_number
from reenact.values.canonical import canonicalize, parse_canonical, parse_json
from reenact.values.clock import parse_ts
from tests.fuzz import evidence, logs, talking

DECLARED: tuple[type[BaseException], ...] = (ReenactError, SkillError)
VECTORS = Path(__file__).parents[2] / "test_vectors"
PROVENANCE = Path(__file__).parents[1] / "provenance" / "vectors"


@dataclass(frozen=True)
class Target:
    """`corpus` gives the good inputs that bad ones are made of."""

    act: Callable[[bytes], object]
    corpus: Callable[[], Sequence[bytes]]
    errors: tuple[type[BaseException], ...] = ()


def text_of(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


# -- JSON --------------------------------------------------------------------------------------------------------------


def read_json(data: bytes) -> None:
    value = parse_json(data)
    assert value == json.loads(data), "another reader reads something else"
    again = canonicalize(value)
    assert canonicalize(parse_canonical(again)) == again, "what was written is not read back"


def read_canonical(data: bytes) -> None:
    assert canonicalize(parse_canonical(data)) == data, "not the canonical form that it was taken for"


def read_javascript_json(data: bytes) -> None:
    value = javascript.parse_json(text_of(data))
    javascript.parse_json(javascript.pretty(value))


# -- plans and what they name ------------------------------------------------------------------------------------------


def read_plan(data: bytes) -> None:
    from reenact.cli.commands.plans import plan_file

    try:
        _, document = parse_plan(data, source="plan")
    except ReenactError as error:
        text = data.decode("utf-8", "replace")
        if isinstance(json_or_none(data), dict):
            plan_file.with_place(str(error), text, Path("plan"))
        raise
    canonicalize(document)


def json_or_none(data: bytes) -> object:
    try:
        return parse_json(data)
    except ReenactError:
        return None


def expand_references(data: bytes) -> None:
    text = text_of(data)
    list(references_in({"a": [text]}))
    output = {"b": [1, {"c": "d"}], "text": "{{a.b}}"}
    found = resolve(text, {"a": 0, "a.b": 1}, lambda _: output)
    assert has_references(text) or found == text, "a text without references was changed"


def walk_pointers(data: bytes) -> None:
    text = text_of(data)
    value: dict[str, object] = {"a": {"b": [1, 2, {"c": 3}]}, "": [[]]}
    at(value, text)
    place_in([1, 2], text)
    for act in (
        lambda: follow(value, text, None),
        lambda: read_path(text),
        lambda: put(value, text[:500], 1, "it"),
        lambda: bind_secret(value, "/" + text[:500], "NAME"),
    ):
        quietly(act, Unbindable)


def read_names(data: bytes) -> None:
    """The many small texts: versions, times, hosts, addresses, headers, owners, encrypted values."""
    text = text_of(data)
    whole_number(text)
    read_address(text)
    owner_is_gone(text)
    is_out_of_sight(text)
    retry_after_ms(text, 0)
    key = key_of("a key that is long enough to be one")
    for act in (
        lambda: version_key(text),
        lambda: parse_ts(text),
        lambda: parse_address(text),
        lambda: Guard.of({"allow_hosts": [text]}, {}),
        lambda: decrypt_text(key, text),
        lambda: decrypt_text(key, encrypt_text(key, "secret")[:-1] + text[:9]),
        lambda: decrypt_text(key, f"v1.{encrypt_text(key, 1).split('.')[1]}.{text}"),
    ):
        quietly(act, ValueError if act.__code__.co_names == ("parse_address",) else ReenactError)


def quietly(act: Callable[[], object], *others: type[BaseException]) -> None:
    try:
        act()
    except (*DECLARED, *others):
        pass


def check_schema(data: bytes) -> None:
    """A JSON Schema that a tool server sends, and values held against it."""
    schema, value = json_or_none(data.partition(b"\n")[0]), json_or_none(data.partition(b"\n")[2])
    if isinstance(schema, dict):
        check = SchemaCheck(schema, "tool")
        for each in (value, "a" * 2000 + "!", {"a": ["a" * 300]}):
            assert check.fits(each) or check.problems(each) is not None


def read_registry(data: bytes) -> None:
    read_tool_registry(json_or_none(data))


# -- what people publish -----------------------------------------------------------------------------------------------


def read_yaml(data: bytes) -> None:
    text, _ = hashing.canonical_text(data)
    if text != "undefined":
        json.loads(text)


def read_block(data: bytes) -> None:
    text = text_of(data)
    read_header(text)
    read_conditions(text)
    parse_block(text)


def read_sidecar(data: bytes) -> None:
    sidecar = parse_sidecar(text_of(data))
    again = serialize_sidecar(sidecar)
    assert serialize_sidecar(parse_sidecar(again)) == again, "what was written is not read back"


def read_manifests(data: bytes) -> None:
    for file in ("package.json", "pyproject.toml"):
        assert isinstance(read_manifest(file, data), dict)


def lint(data: bytes) -> None:
    from reenact.lint.check import check

    file = evidence.scratch() / "linted.py"
    file.write_bytes(data)
    check([str(file)])


# -- what servers say --------------------------------------------------------------------------------------------------


def read_body(data: bytes) -> None:
    head, _, rest = data.partition(b"\n")
    form, body = decode_body(rest, head.decode("latin-1"))
    assert form in ("json", "text", "base64", "empty")
    canonicalize(body)


def hide_secrets(data: bytes) -> None:
    from reenact.policy.redaction import SecretRules

    rules = SecretRules(frozenset({"hunter2-hunter2"}), ("token",))
    text = data.decode("utf-8", "replace")
    shown = rules.apply_text(text + "hunter2-hunter2", lambda _: "*")
    assert "hunter2-hunter2" not in str(shown), "a secret of the host was let through"
    value = json_or_none(data)
    if value is not None:
        rules.apply(value, lambda _: "*")


# -- replay logs and receipts ------------------------------------------------------------------------------------------


def read_eval_spec(data: bytes) -> None:
    """A spec that is read puts together the call of every cell."""
    with tempfile.TemporaryDirectory(prefix="reenact-fuzz-") as folder:
        path = Path(folder, "spec.json")
        path.write_bytes(data)
        spec = read_spec(path)
        for cell, _ in zip(spec.cells(), range(20), strict=False):
            asked, _ = spec.parameters(cell)
            assert asked["seed"] == spec.seeds[cell.sample]
        assert spec.digest


def eval_specs() -> Sequence[bytes]:
    scores: list[dict[str, object]] = [{"exact": "4"}, {"contains": "4", "of": "x"}, {"regex": r"\b[0-9]{1,3}\b"}]
    spec = {
        "name": "sums", "models": ["stub", {"id": "m", "api_key": {"$secret": "KEY"}}], "n": 3, "seed": 7,
        "conditions": {"plain": {"prompt": "2 {{and}} 2?"}, "hot": {"prompt": "2+2?", "temperature": 1}},
        "parameters": {"max_tokens": 5}, "budget_cents": 4, "context": {}, "title": "Sums",
    }  # fmt: skip
    return [canonicalize({**spec, "score": score}) for score in scores]


def search_pattern(data: bytes) -> None:
    """A line of pattern, and a text: whatever they are, it is a matter of the text's length."""
    pattern, _, text = data.decode("utf-8", "surrogateescape").partition("\n")
    found = Pattern(pattern)
    assert found.search(text[:2000]) in (True, False)
    assert Pattern(quoted(text[:200])).search(text[:2000])


def searched_patterns() -> Sequence[bytes]:
    pairs = [("^(a|b)*c?$", "abac"), (r"[^\d\s]{2,4}|\bx+?y\b", "xx y"), ("(?:é+.)*$", "éaéb"), (r"\.\*[]a-c-]", ".*]")]
    return ["\n".join(pair).encode() for pair in pairs]


def read_replay_log(data: bytes) -> None:
    """Strictly and leniently; what is read is written again, and read again as the same."""
    data = b"".join(data.splitlines(keepends=True)[:5000])  # a line takes its time, however short it is
    lenient = ReplayReader.from_bytes(data, lenient=True)
    kept = [event.to_canonical_json() for event in writable(lenient.events)]
    reading = lenient.events.last
    assert reading is not None
    assert len(kept) + reading.skipped <= data.count(b"\n") + 1
    verify_replay(lenient, fuzzed_receipt())
    events = list(ReplayReader.from_bytes(data).events)
    assert not reading.problems, "what a lenient reader counts, a strict one refuses"
    again = "".join(event.to_canonical_json() + "\n" for event in writable(events)).encode()
    if again.count(b"\n") == len(events):
        assert [event.to_canonical_json() for event in ReplayReader.from_bytes(again).events] == kept


def writable(events: Any) -> Any:
    """Integers that no double is are read, and have no canonical form."""
    for event in events:
        try:
            event.to_canonical_json()
        except CanonicalizationError:
            continue
        yield event


def read_receipt(data: bytes) -> None:
    """Whole, and as a large one: both say the same, or both refuse."""
    file = evidence.scratch() / "RECEIPT.json"
    file.write_bytes(data)
    answers = []
    for act in (lambda: SessionReceipt.from_json(data), lambda: read_large(file)):
        try:
            answers.append(act().to_canonical_json())
        except ReceiptError:
            answers.append("refused")
        except CanonicalizationError:
            answers.append("no canonical form")
    assert answers[0] == answers[1]
    if answers[0].startswith("{"):
        again = SessionReceipt.from_json(answers[0].encode())
        assert again.to_canonical_json() == answers[0], "what was written is not read back"


@cache
def fuzzed_receipt() -> SessionReceipt:
    return SessionReceipt.from_json(receipts()[0])


@cache
def replay_logs() -> tuple[bytes, ...]:
    vectors = json.loads((VECTORS / "replay_log.json").read_bytes())
    return (vectors["log"].encode(), *(bytes.fromhex(case["log"]) for case in vectors["bad"]))


@cache
def receipts() -> tuple[bytes, ...]:
    receipt = json.loads((VECTORS / "replay_log.json").read_bytes())["receipt"]
    older = {key: value for key, value in receipt.items() if key not in ("ended_at", "policy_bundle_id", "costs")}
    return json.dumps(receipt).encode(), json.dumps(older, indent=2).encode()


# -- the table ---------------------------------------------------------------------------------------------------------


@cache
def of_vectors() -> tuple[bytes, ...]:
    """Records, plans and manifests as they stand in the test vectors."""
    files = [file for file in sorted(VECTORS.rglob("*")) if file.is_file() and file.stat().st_size < 60_000]
    return tuple(file.read_bytes() for file in files)


@cache
def strings_in_provenance() -> tuple[bytes, ...]:
    """YAML, markdown and sidecars: every longer text in the vectors of the format."""
    found: dict[bytes, None] = {}
    for file in sorted(PROVENANCE.rglob("*.json")):
        collect(json.loads(file.read_bytes()), found)
    return tuple(found)[:3000]


def collect(value: Any, found: dict[bytes, None]) -> None:
    if isinstance(value, str) and 3 < len(value) < 20_000:
        found[value.encode("utf-8", "surrogatepass")] = None
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        collect(item, found)


def sidecars() -> Sequence[bytes]:
    """Those of the vectors that are read, so that what is made of them is not refused at its first byte."""
    found = [text for text in strings_in_provenance() if text.startswith(b"{")]
    return [text for text in found if b'"schema"' in text or b'"$schema"' in text] or found


def registries() -> Sequence[bytes]:
    spec = {"content_encoding": "utf8", "max_read_bytes": 1, "max_write_bytes": 1, "max_batch_bytes": 1}
    tools = [
        {"tool_name": "look", "tool_class": "read", "is_document_op": False},
        {
            "tool_name": "put", "tool_class": "write", "is_document_op": True,
            "document_spec": {**spec, "read_content_pointers": ["/a"]},
        },
    ]  # fmt: skip
    about = {"schema_id": "talos.mcp.tool_registry", "schema_version": "v1", "server_id": "shop"}
    return (json.dumps({**about, "server_version": "1.0.0", "tools": tools}).encode(),)


def words(*texts: str) -> Callable[[], Sequence[bytes]]:
    return lambda: tuple(text.encode() for text in texts)


PLAN = json.dumps(
    {
        "plan_id": "p", "agent_id": "a", "created_at": "2026-01-31T12:00:00Z",
        "steps": [
            {"step_id": "s1", "skill_id": "http_call", "skill_version": "1.2.0", "parameters": {"url": "{{s0.a}}"},
             "retry": {"max_retries": 3, "backoff_multiplier": 1.5}, "on_error": "continue"},
        ],
        "context": {"budget": {"per_model_cents": {"m": 5}}, "supervisor": "module:function", "allow_hosts": ["a:1"]},
    }
)  # fmt: skip
SCHEMA = json.dumps(
    {
        "type": "object", "required": ["a"], "additionalProperties": False, "$defs": {"b": {"$ref": "#/$defs/b"}},
        "properties": {"a": {"type": "array", "items": {"pattern": "^(a+)+$", "maxLength": 9}}, "c": {"$ref": "#"}},
        "patternProperties": {"^x(y|yy)*$": {"anyOf": [{"const": 1}, {"enum": [1, 2.5]}]}}, "format": "uri",
    }
)  # fmt: skip
TOML = '[project]\nname = "a"\nversion = "1.0.0"\n[tool.a.b]\nc = [1, 2.5, {d = "e"}, 2026-01-01T00:00:00Z]\n'
PYTHON = """from reenact import skill
@skill("a", version="1.0.0")
def a(x: int) -> dict:  # reenact: ignore[RN101] - why
    result = session.call("b", {"x": [i for i in range(x)]})
    if result.status == "ok" and result.output["a"]:
        return {**result.details}
    match x:
        case {"a": [1, *rest]}: print(f"{x!r:>{x}}")
    return lambda: x
"""
NAMES = words(
    "1.2.3-rc.1+build", "2026-01-31T12:00:00.000Z", "[::1]:443", "localhost:80", "Wed, 21 Oct 2026 07:28:00 GMT", "120",
    "http://user@host:80/a?b#c", "host:1:2:3", "v1.deadbeef.QUJD", "fe80::1%eth0", "xn--nxasmq6b", "1" * 5000,
)  # fmt: skip

TARGETS: dict[str, Target] = {
    "json": Target(read_json, of_vectors),
    "checkpoint": Target(logs.read_head, lambda: logs.of_page("checkpoint", "cosignature")),
    "log_proof": Target(logs.judge_proof, lambda: logs.of_page("proof")),
    "witness_request": Target(logs.read_asking, lambda: logs.of_page("request")),
    "witness_policy": Target(logs.read_rules, logs.policies),
    "time_stamp": Target(logs.read_stamp, logs.stamps),
    "canonical": Target(read_canonical, lambda: [line.rstrip() for line in evidence.lines()]),
    "javascript_json": Target(read_javascript_json, of_vectors, (javascript.JsonSyntaxError,)),
    "plan": Target(read_plan, words(PLAN)),
    "references": Target(
        expand_references, words("{{ a.b.0 }}", "x {{a.text}} y {{ a.b.1.c }}", "{{"), (UnresolvedReference,)
    ),
    "pointers": Target(walk_pointers, words("/a/b/0", "a.b[2].c", "a.b.2", "/~01/~1", "$")),
    "names": Target(read_names, NAMES),
    "schema": Target(check_schema, words(SCHEMA + '\n{"a":["aaa"]}', '{"$ref":"#"}\n1')),
    "registry": Target(read_registry, registries),
    "yaml": Target(read_yaml, strings_in_provenance),
    "block": Target(read_block, strings_in_provenance),
    "sidecar": Target(read_sidecar, sidecars),
    "manifests": Target(read_manifests, words(TOML, '{"name":"a","version":"1.0.0"}')),
    "lint": Target(lint, words(PYTHON)),
    "body": Target(
        read_body,
        words('application/json\n{"a":1}', "text/html; charset=shift_jis\nabc", "text/plain;charset=punycode\na"),
    ),
    "answer": Target(talking.read_answer, talking.answers),
    "completion": Target(talking.read_completion, talking.completions),
    "translation": Target(talking.translate, talking.conversations),
    "planner": Target(talking.read_proposal, talking.proposals),
    "mail": Target(talking.read_replies, talking.replies, (OSError,)),
    "line": Target(evidence.read_lines, evidence.lines),
    "journal": Target(evidence.fold_journal, evidence.journals),
    "token": Target(evidence.read_token, evidence.tokens),
    "signed_note": Target(evidence.read_signed_note, evidence.signed_notes),
    "trusted_keys": Target(evidence.read_trusted_keys, evidence.trusted_keys),
    "frontier": Target(evidence.read_frontier, evidence.frontiers, (msgspec.DecodeError, ValueError, RecursionError)),
    "frame": Target(evidence.unpack, evidence.frames),
    "delta": Target(evidence.put_together, evidence.deltas),
    "bundle": Target(evidence.verify_bundle, evidence.bundles),
    "zip": Target(evidence.verify_zip, evidence.zips),
    "repair": Target(evidence.repair_file, evidence.torn_files),
    "packed": Target(evidence.read_packed, evidence.packed_files),
    "store": Target(evidence.verify_store, evidence.cells),
    "replay_log": Target(read_replay_log, replay_logs),
    "eval_spec": Target(read_eval_spec, eval_specs),
    "eval_pattern": Target(search_pattern, searched_patterns),
    "receipt": Target(read_receipt, receipts),
    "redaction": Target(hide_secrets, of_vectors),
}
"""By name. Everything that reads foreign bytes stands here; `docs/reference/limits.md` says where they come from."""
