"""How sidecars are read: versions, unknown fields, JavaScript's JSON."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest

from reenact.provenance import (
    ReenactSidecar,
    Sidecar,
    SidecarError,
    SidecarVersionError,
    parse_sidecar,
    serialize_sidecar,
    sidecar_path,
)
from reenact.provenance.sidecar.sidecar import VerifiableInput, is_utc_instant, validate_sidecar
from reenact.provenance.yaml.javascript import pretty
from tests.provenance.sidecar.samples import DIGEST, HASH, SCHEMA_FILE, original, own


def test_both_versions_read_back_byte_for_byte() -> None:
    for fields, kind in ((original(), Sidecar), (original(backfilled=True), Sidecar), (own(), ReenactSidecar)):
        text = pretty(fields) + "\n"
        sidecar = parse_sidecar(text)
        assert isinstance(sidecar, kind)
        assert serialize_sidecar(sidecar) == text
        validate_sidecar(sidecar)


def test_a_verifier_sees_the_inputs_of_both_versions_alike() -> None:
    assert parse_sidecar(json.dumps(original())).verifiable_inputs == (
        VerifiableInput("token", "tokens/t.yml", HASH, "structured"),
        VerifiableInput("brief", "briefs/b.yml", HASH, "either"),
    )
    assert parse_sidecar(json.dumps(own())).verifiable_inputs == (
        VerifiableInput("token", "tokens/t.yml", HASH, "structured"),
        VerifiableInput("corpus", "data/corpus.bin", HASH, "raw"),
    )


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        (original(schema_version=2), "schema_version 2"),
        (original(schema_version=17, surplus=1), "schema_version 17"),
        ({"schema_version": 3}, "schema_version 3"),
        (own(schema="reenact.replay.v2"), "schema reenact.replay.v2"),
        ({"schema": "reenact.replay.v10"}, "schema reenact.replay.v10"),
    ],
)
@pytest.mark.parametrize("unknown", ["refuse", "ignore"])
def test_a_newer_version_is_refused_by_name(fields: dict[str, Any], named: str, unknown: Any) -> None:
    with pytest.raises(SidecarVersionError, match=named):
        parse_sidecar(json.dumps(fields), unknown=unknown)


@pytest.mark.parametrize("schema", ["other.schema.v1", "reenact.replay.v0", 5, None])
def test_a_schema_that_is_none_of_ours_is_no_newer_version(schema: Any) -> None:
    with pytest.raises(SidecarError) as caught:
        parse_sidecar(json.dumps(own(schema=schema)))
    assert not isinstance(caught.value, SidecarVersionError)


def test_unknown_fields_are_refused_or_ignored_with_a_warning_at_every_level() -> None:
    fields = original(surplus=1, sampling={"n": 1, "temperature": None, "seed": None, "extra": 2})
    fields["models"][0]["third"] = 3
    with pytest.raises(SidecarError, match=r"surplus|extra|third"):
        parse_sidecar(json.dumps(fields))
    sidecar = parse_sidecar(json.dumps(fields), unknown="ignore")
    assert set(sidecar.warnings) == {
        "unknown field surplus is ignored",
        "unknown field sampling.extra is ignored",
        "unknown field models[0].third is ignored",
    }
    assert "surplus" not in serialize_sidecar(sidecar)


def test_ignoring_unknown_fields_forgives_nothing_else() -> None:
    with pytest.raises(SidecarError, match=r"token\.hash"):
        parse_sidecar(json.dumps(original(surplus=1, token={"path": "t", "hash": "x"})), unknown="ignore")


def test_the_last_of_equal_keys_wins() -> None:
    text = json.dumps(original())[:-1] + ', "kind": "critique"}'
    assert parse_sidecar(text).kind == "critique"


@pytest.mark.parametrize(
    "text", ["", "{", "\ufeff{}", "NaN", '{"a": NaN}', "{} x", "// c\n{}", "[" * 100_000, '"\t"', "01"]
)
def test_what_is_no_json_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(SidecarError, match="not JSON") as caught:
        parse_sidecar(text)
    assert caught.value.issues == ()
    assert len(str(caught.value)) < 120


@pytest.mark.parametrize("depth", [101, 900, 5000, 100_000])
def test_deep_nesting_is_refused_wherever_it_stands(depth: int) -> None:
    nested = "[" * depth + "]" * depth
    for field in ("schema_version", "kind", "surplus", "argv"):
        text = json.dumps(original(**{field: "HERE"})).replace('"HERE"', nested)
        with pytest.raises(SidecarError, match="not JSON that is read: nested"):
            parse_sidecar(text, unknown="ignore")


def test_numbers_are_doubles() -> None:
    sampling = {"n": 9007199254740993, "temperature": 1, "seed": 10**21}
    sidecar = parse_sidecar(json.dumps(original(sampling=sampling)))
    assert '"n": 9007199254740992,' in serialize_sidecar(sidecar)
    assert '"seed": 1e+21' in serialize_sidecar(sidecar)


def test_a_hostile_key_cannot_forge_a_line_of_the_message() -> None:
    with pytest.raises(SidecarError) as caught:
        parse_sidecar(json.dumps(original(**{"x\nerror: fine\x1b[2K\u202e": 1})))
    assert str(caught.value).isprintable()
    with pytest.raises(SidecarError) as caught:
        parse_sidecar(json.dumps(original(kind="x" * 100_000, **{"y" * 100_000: 1})))
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "Upper"},
        {"kind": ""},
        {"kind": "line\nbreak"},
        {"program": ""},
        {"commit": "abc"},
        {"commit": None},
        {"dirty": None},
        {"commit": "C" * 40},
        {"invoked_at": "2026-02-30T00:00:00Z"},
        {"inputs": [{"name": "a b", "path": "x", "hash": HASH, "mode": "raw"}]},
        {"inputs": [{"name": "a", "path": "/x", "hash": HASH, "mode": "raw"}]},
        {"inputs": [{"name": "a", "path": "../x", "hash": HASH, "mode": "raw"}]},
        {"inputs": [{"name": "a", "path": "x/./y", "hash": HASH, "mode": "raw"}]},
        {"inputs": [{"name": "a", "path": "x//y", "hash": HASH, "mode": "raw"}]},
        {"inputs": [{"name": "a", "path": "c:/x", "hash": HASH, "mode": "raw"}]},
        {"inputs": [{"name": "a", "path": "x\\y", "hash": HASH, "mode": "raw"}]},
        {"inputs": [{"name": "a", "path": "x\ny", "hash": HASH, "mode": "raw"}]},
        {"inputs": [{"name": "a", "path": "x", "hash": HASH.upper(), "mode": "raw"}]},
        {"inputs": [{"name": "a", "path": "x", "hash": HASH, "mode": "either"}]},
        {"sampling": {"n": 0, "temperature": None, "seed": None, "seeds": []}},
        {"sampling": {"n": 1, "temperature": None, "seed": None}},
        {"models": [{"id": "m", "provider": "p", "requests": [{"id": "r", "sample": -1, "condition": None}]}]},
        {"models": [{"id": "m", "provider": "p", "requests": [{"id": "", "sample": 0, "condition": None}]}]},
        {"run": {"run_id": "r", "seal_digest": "x"}},
        {"run": "r"},
    ],
)
def test_our_own_version_is_strict_and_its_schema_says_the_same(changes: dict[str, Any], root: Any) -> None:
    fields = own(**changes)
    with pytest.raises(SidecarError):
        parse_sidecar(json.dumps(fields))
    schema = json.loads((root / SCHEMA_FILE).read_text(encoding="utf-8"))
    validator = jsonschema_rs.Draft202012Validator(schema)
    assert validator.is_valid(own())
    assert not validator.is_valid(fields)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"inputs": [{"name": "a", "path": path, "hash": HASH, "mode": "raw"} for path in "xy"]}, r"inputs\[1\]\.name"),
        ({"sampling": {"n": 3, "temperature": None, "seed": None, "seeds": [1]}}, r"sampling\.seeds"),
    ],
)
def test_what_no_schema_can_say_is_checked_too(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(SidecarError, match=field):
        parse_sidecar(json.dumps(own(**changes)))


def test_a_sidecar_may_record_no_commit_no_run_and_no_seeds() -> None:
    sampling = {"n": 5, "temperature": None, "seed": 1, "seeds": []}
    sidecar = parse_sidecar(json.dumps(own(commit=None, dirty=None, run=None, sampling=sampling, inputs=[], models=[])))
    assert sidecar.commit is None
    assert sidecar.dirty is None


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        ("docs/r.md", "docs/r.replay.json"),
        ("docs/r", "docs/r.replay.json"),
        ("r.MD", "r.MD.replay.json"),
        ("r.md.md", "r.md.replay.json"),
        ("r.mdx", "r.mdx.replay.json"),
        (".md", ".replay.json"),
    ],
)
def test_the_sidecar_lies_beside_its_report(report: str, expected: str) -> None:
    assert sidecar_path(report) == expected


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("0000-02-29T00:00:00Z", True),
        ("1900-02-29T00:00:00Z", False),
        ("2024-02-29T23:59Z", True),
        ("2026-01-01T00:00:00.123456789Z", True),
        ("2026-01-01T24:00:00Z", False),
        ("2026-00-10T00:00:00Z", False),
        ("2026-01-00T00:00:00Z", False),
        ("2026-01-01T00:00:00z", False),
        ("2026-01-01T00:00:00Z\n", False),
        ("02026-01-01T00:00:00Z", False),
    ],
)
def test_a_time_is_utc_on_a_real_day(text: str, holds: bool) -> None:
    assert is_utc_instant(text) is holds


def test_a_digest_of_a_seal_is_bare() -> None:
    sidecar = parse_sidecar(json.dumps(own()))
    assert isinstance(sidecar, ReenactSidecar)
    assert sidecar.run is not None
    assert sidecar.run.seal_digest == DIGEST
