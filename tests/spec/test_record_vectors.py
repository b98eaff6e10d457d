"""Payloads, attempts, seals and the run chain: every vector, through the verifier and another implementation."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import msgspec
import pytest
import rfc8785
from tools.vectors.pieces import b64, key_of, kid_of, public_bytes

from reenact.verify import shapes, verify_lines
from reenact.verify.calls.attempts import AttemptChain
from reenact.verify.payloads import Value, check_erasures, open_envelope
from reenact.verify.report import Findings, Problem
from reenact.verify.tree import Tree
from tests.conftest import ROOT
from tests.verify.changing import changed_bodies


def load(name: str) -> Any:
    return json.loads((ROOT / "test_vectors" / name).read_text(encoding="utf-8"))


PAYLOADS, ATTEMPTS, SEALS, CHAIN = (load(f"{n}.json") for n in ("payloads", "attempts", "seals", "run_chain"))
name_of = lambda case: case.get("name")  # noqa: E731 - a name for parametrized cases


def test_good_envelopes_are_salt_and_canonical_json_under_their_digest() -> None:
    for case in PAYLOADS["good"]:
        envelope = bytes.fromhex(case["envelope"])
        assert envelope == bytes.fromhex(case["salt"]) + rfc8785.dumps(case["value"])
        assert hashlib.sha256(envelope).hexdigest() == case["commitment"]
        assert open_envelope(envelope, case["commitment"]) == Value(case["value"])


@pytest.mark.parametrize("case", PAYLOADS["bad"], ids=name_of)
def test_bad_envelopes_are_refused(case: dict[str, Any]) -> None:
    refused = open_envelope(bytes.fromhex(case["envelope"]), case["commitment"])
    assert isinstance(refused, Problem)
    assert refused.code == case["code"]


def erasures(records: list[Any], *, whole: bool) -> Findings:
    findings = Findings()
    erased = check_erasures([rfc8785.dumps(record) for record in records], findings, whole=whole)
    assert findings.total or erased.keys() == {record["commitment"] for record in records}
    return findings


def test_erasure_chains_are_followed_whole_and_in_excerpts() -> None:
    vectors = PAYLOADS["erasures"]
    assert erasures(vectors["whole"], whole=True).total == 0
    for excerpt in vectors["excerpts"]:
        assert erasures(excerpt, whole=False).total == 0
        assert erasures(excerpt, whole=True).total > 0


@pytest.mark.parametrize(
    ("case", "whole"),
    [(case, True) for case in PAYLOADS["erasures"]["bad_whole"]]
    + [(case, False) for case in PAYLOADS["erasures"]["bad_excerpts"]],
    ids=lambda value: value["name"] if isinstance(value, dict) else "",
)
def test_broken_erasure_chains_are_found_at_their_record(case: dict[str, Any], whole: bool) -> None:
    first = erasures(case["records"], whole=whole).kept[0]
    assert (first.code, first.where.line) == ("ERASURE_CHAIN", case["bad_record"])


def attempt_chain(case: dict[str, Any]) -> tuple[AttemptChain, tuple[int, str] | None]:
    records = case["records"]
    chain = AttemptChain(case["tool_call_digest"])
    for number, record in enumerate(records, start=1):
        problem = chain.append(msgspec.convert(record, shapes.Attempt), record)
        if problem is not None:
            return chain, (number, problem.code)
    return chain, None


@pytest.mark.parametrize("case", ATTEMPTS["good"], ids=name_of)
def test_good_attempts_chain_and_add_up_to_the_effect(case: dict[str, Any]) -> None:
    chain, refused = attempt_chain(case)
    assert refused is None
    assert chain.summary_problem(msgspec.convert(case["effect_meta"], shapes.EffectMeta)) is None
    for record in case["records"]:
        covered = {key: value for key, value in record.items() if key != "digest"}
        assert hashlib.sha256(rfc8785.dumps(covered)).hexdigest() == record["digest"]


@pytest.mark.parametrize("case", ATTEMPTS["bad"], ids=name_of)
def test_bad_attempts_are_refused_at_their_record(case: dict[str, Any]) -> None:
    assert attempt_chain(case)[1] == (case["bad_record"], case["code"])


@pytest.mark.parametrize("case", ATTEMPTS["bad_sums"], ids=name_of)
def test_an_effect_that_does_not_add_up_is_refused(case: dict[str, Any]) -> None:
    chain, refused = attempt_chain(case)
    problem = chain.summary_problem(msgspec.convert(case["effect_meta"], shapes.EffectMeta))
    assert refused is None
    assert problem is not None
    assert problem.code == case["code"]


def root(leaves: list[str]) -> str:
    tree = Tree()
    for leaf in leaves:
        tree.append(leaf.encode())
    return tree.root()


def test_trees_have_the_roots_of_rfc_6962() -> None:
    for count, expected in enumerate(SEALS["roots"]):
        assert root(SEALS["leaves"][:count]) == expected
        half = count // 2
        tree = Tree()
        for leaf in SEALS["leaves"][:half]:
            tree.append(leaf.encode())
        assert tree.root(leaf.encode() for leaf in SEALS["leaves"][half:count]) == expected
    # RFC 9162, section 2.1.5, and the test tree of certificate transparency: two leaves, the first one empty.
    assert root([""]) == "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"


@pytest.mark.parametrize("case", SEALS["seals"], ids=name_of)
def test_seals_are_the_digest_of_their_leaves(case: dict[str, Any]) -> None:
    seal = case["seal"]
    covered = {key: value for key, value in seal.items() if key != "seal_digest"}
    assert hashlib.sha256(rfc8785.dumps(covered)).hexdigest() == seal["seal_digest"]
    assert root(case["trace_leaves"]) == seal["root"]
    assert root(case["attempt_leaves"]) == seal["attempts_root"]
    assert len(case["trace_leaves"]) == seal["traces"]


def keys() -> dict[str, str]:
    return {kid_of(key_of("store")): b64(public_bytes(key_of("store")))}


@pytest.mark.parametrize("case", SEALS["bad_seals"], ids=name_of)
def test_a_seal_over_something_else_is_found(case: dict[str, Any]) -> None:
    bodies = [body.encode() for body in CHAIN["bodies"]]
    lines = bodies[-1].splitlines(keepends=True)
    lines[-1] = rfc8785.dumps({"kind": "seal", "seal": case["seal"]}) + b"\n"
    report = verify_lines([*bodies[:-1], b"".join(lines)], None, keys=keys())
    assert report.exit_code == 1
    assert report.first_break is not None
    assert report.first_break.code == case["code"]
    assert report.first_break.where.commit == len(bodies)


def test_the_run_chain_holds_as_it_is() -> None:
    bodies = [body.encode() for body in CHAIN["bodies"]]
    assert [hashlib.sha256(body).hexdigest() for body in bodies] == CHAIN["heads"]
    report = verify_lines(bodies, None, keys=keys(), expect_head=CHAIN["heads"][-1])
    assert (report.exit_code, report.findings) == (0, ())
    assert report.head == CHAIN["heads"][-1]


@pytest.mark.parametrize("case", CHAIN["bad"], ids=name_of)
def test_a_changed_run_chain_is_found_at_its_place(case: dict[str, Any]) -> None:
    bodies = changed_bodies([body.encode() for body in CHAIN["bodies"]], case["change"])
    report = verify_lines(bodies, None, keys=keys())
    assert report.exit_code == 1
    first = report.first_break
    assert first is not None
    assert (first.code, first.where.commit) == (case["code"], case["commit"])
    if case["line"] is not None:
        assert first.where.line == case["line"]


def test_records_of_the_second_version_are_judged_as_their_vectors_say() -> None:
    second = PAYLOADS["erasures"]["second_version"]
    for count, expected in ((3, 0), (4, 1), (5, 1), (6, 0)):
        findings = Findings()
        taken = check_erasures([rfc8785.dumps(each) for each in second["records"][:count]], findings, whole=True)
        assert findings.kept == []
        assert len(taken.archived) == expected
    for case in second["bad"]:
        findings = Findings()
        check_erasures([rfc8785.dumps(each) for each in case["records"]], findings, whole=True)
        (found,) = findings.kept
        assert (found.code, found.where.line) == ("ERASURE_CHAIN", len(case["records"])), case["name"]
