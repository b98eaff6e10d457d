"""The schemas: valid, closed, matched whole, and of one mind with the locked ones and with the verifier."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest

from reenact.verify import shapes
from reenact.verify.calls.attempts import form_problem
from reenact.verify.lines import fit
from reenact.verify.payloads import Removal
from reenact.verify.report import Problem
from tests.conftest import ROOT
from tests.spec.corpus import mutations, own_records, schema

NAMES = sorted(
    str(path.relative_to(ROOT / "schemas")).removesuffix(".schema.json")
    for path in (ROOT / "schemas").rglob("*.schema.json")
)
EXPECTED = {
    *(f"tga/v1/execution_{name}" for name in ("state", "log_entry", "checkpoint")),
    *(f"tga/v1/{name}" for name in ("action_request", "supervisor_decision", "tool_call", "tool_effect")),
    *("plan", "attempt", "seal", "run_checkpoint", "run", "event", "vote", "erasure", "erasure_v2"),
    *("bundle_manifest", "structured_outcome", "skill_metadata"),
}


def validator(document: dict[str, Any]) -> jsonschema_rs.Draft202012Validator:
    def refuse(uri: str) -> Any:
        raise LookupError(uri)

    return jsonschema_rs.Draft202012Validator(document, retriever=refuse)


def nodes(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for item in value.values():
            yield from nodes(item)
    elif isinstance(value, list):
        for item in value:
            yield from nodes(item)


def test_every_format_has_its_schema() -> None:
    assert set(NAMES) == EXPECTED


@pytest.mark.parametrize("name", NAMES)
def test_each_schema_is_valid_2020_12_and_refers_to_nothing_outside(name: str) -> None:
    document = schema(ROOT, name)
    jsonschema_rs.meta.validate(document)
    assert document["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert document["$id"] == f"https://reenact.invalid/schemas/{name}.schema.json"
    assert document["additionalProperties"] is False
    assert all(str(node["$ref"]).startswith("#/$defs/") for node in nodes(document) if "$ref" in node)
    assert set(document.get("$defs", {})) == {
        str(node["$ref"]).removeprefix("#/$defs/") for node in nodes(document) if "$ref" in node
    }
    validator(document)


@pytest.mark.parametrize("name", NAMES)
def test_no_pattern_lets_a_final_newline_through_in_any_engine(name: str) -> None:
    for node in nodes(schema(ROOT, name)):
        pattern = node.get("pattern")
        if not isinstance(pattern, str) or not pattern.startswith("^") or pattern == "^/":
            continue
        bounded = "maxLength" in node and node["maxLength"] == node.get("minLength")
        assert bounded or pattern.endswith(r"$(?!\n)"), pattern
        if not bounded:  # Python's $ is the one that lets a newline through
            samples = [
                "A",
                "a",
                "0",
                "1.0.0",
                "ab",
                "plan.json",
                "OK",
                "a.b",
                "auto",
                "a@1.0.0",
                "2026-01-01T00:00:00Z",
            ]
            assert any(re.search(pattern, sample) for sample in samples), pattern
            assert not any(re.search(pattern, sample + "\n") for sample in samples), pattern


def test_every_record_of_the_example_runs_fits_its_schema() -> None:
    validators = {name: validator(schema(ROOT, name)) for name in NAMES}
    seen = set()
    for name, record in own_records():
        validators[name].validate(record)
        seen.add(name)
    assert seen == EXPECTED - {"tga/v1/execution_state"}


def test_our_log_schemas_say_the_same_as_the_locked_ones(shared: Path) -> None:
    locked = shared / "vectors" / "tga"
    golden = json.loads((locked / "derived" / "locked_profile_chain.json").read_text(encoding="utf-8"))
    documents: list[tuple[str, Any]] = [(kind, artifact) for kind, artifact in golden["artifacts"].items()]
    for link in golden["chain"]:
        documents += [("execution_log_entry", link["entry"]), ("execution_state", link["state_after"])]
        documents.append(("execution_checkpoint", link["checkpoint_after"]))
    adversarial = json.loads((locked / "locked" / "adversarial_vectors.json").read_text(encoding="utf-8"))
    documents += [("action_request", case["input"]) for cases in adversarial.values() for case in cases]
    documents += [(name.removeprefix("tga/v1/"), record) for name, record in own_records() if "tga/" in name][:30]
    pairs = {
        name: (
            validator(schema(ROOT, f"tga/v1/{name}")),
            validator(json.loads((locked / "schemas" / f"{name}.schema.json").read_text(encoding="utf-8"))),
        )
        for name in {name for name, _ in documents}
    }
    refused = compared = 0
    for name, document in documents:
        ours, theirs = pairs[name]
        for what, mutant in [("as it is", document), *mutations(document)]:
            assert ours.is_valid(mutant) == theirs.is_valid(mutant), (name, what)
            compared += 1
            refused += not ours.is_valid(mutant)
    assert compared > 5000
    assert refused > 3000


def test_the_adversarial_vectors_are_refused(shared: Path) -> None:
    path = shared / "vectors" / "tga" / "locked" / "adversarial_vectors.json"
    ours = validator(schema(ROOT, "tga/v1/action_request"))
    cases = [case for group in json.loads(path.read_text(encoding="utf-8")).values() for case in group]
    assert len(cases) == 3
    assert not any(ours.is_valid(case["input"]) for case in cases)


SHAPES: dict[str, Any] = {
    "run": shapes.Run,
    "event": shapes.Event,
    "vote": shapes.Vote,
    "attempt": shapes.Attempt,
    "seal": shapes.Seal,
    "run_checkpoint": shapes.RunCheckpoint,
    "erasure": shapes.Erasure,
    "erasure_v2": Removal,
    "bundle_manifest": shapes.Manifest,
}


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_the_verifier_reads_each_record_of_ours_as_its_schema_says(name: str) -> None:
    valid = validator(schema(ROOT, name))
    documents = {json.dumps(record): record for kind, record in own_records() if kind == name}
    for document in list(documents.values())[:4]:
        for what, mutant in mutations(document):
            record = fit(mutant, SHAPES[name], "LINE_MALFORMED")
            fits = not isinstance(record, Problem)
            if fits and name == "attempt":
                fits = form_problem(record) is None
            if name == "run" and fits:
                continue  # which keys are null in which kind of run is checked against the plan, later
            if name == "bundle_manifest" and fits and "journal.jsonl" not in mutant["files"]:
                continue
            assert fits == valid.is_valid(mutant), what


def test_the_verifier_refuses_every_artifact_that_the_schema_refuses() -> None:
    """The other way round it is stricter: it also wants what our own writer always fills in."""
    seen = {}
    for name, record in own_records():
        if name.startswith("tga/v1/") and name not in seen:
            seen[name] = record
    for name, document in seen.items():
        valid = validator(schema(ROOT, name))
        kind = (
            shapes.AnyArtifact
            if "schema_id" in document and name.endswith(("request", "decision", "call", "effect"))
            else None
        )
        if kind is None:
            kind = shapes.Entry if name.endswith("entry") else shapes.Checkpoint
        for what, mutant in mutations(document):
            if not isinstance(fit(mutant, kind, "LINE_MALFORMED"), Problem):
                conditional = "minted_capability" in what or "decision =" in what
                assert valid.is_valid(mutant) or conditional, (name, what)


def fields(kind: type[msgspec.Struct]) -> set[str]:
    return set(kind.__struct_encode_fields__)


def test_schemas_and_contracts_name_the_same_fields() -> None:
    from reenact.contracts import artifacts, outcome, plan, plan_rules, records, skill

    pairs: dict[str, type[msgspec.Struct]] = {
        "tga/v1/action_request": artifacts.ActionRequest,
        "tga/v1/supervisor_decision": artifacts.SupervisorDecision,
        "tga/v1/tool_call": artifacts.ToolCall,
        "tga/v1/tool_effect": artifacts.ToolEffect,
        "tga/v1/execution_log_entry": artifacts.LogEntry,
        "tga/v1/execution_state": artifacts.ExecutionState,
        "tga/v1/execution_checkpoint": artifacts.ExecutionCheckpoint,
        "run": records.RunRecord,
        "event": records.Event,
        "vote": records.Vote,
        "attempt": records.Attempt,
        "seal": records.Seal,
        "run_checkpoint": records.RunCheckpoint,
        "erasure": records.Erasure,
        "erasure_v2": records.Removal,
        "structured_outcome": outcome.StructuredOutcome,
        "skill_metadata": skill.SkillMetadata,
        "plan": plan.Plan,
    }
    for name, kind in pairs.items():
        assert set(schema(ROOT, name)["properties"]) == fields(kind), name
    definitions = schema(ROOT, "plan")["$defs"]
    parts: dict[str, type[msgspec.Struct]] = {
        "step": plan.Step,
        "context": plan.Context,
        "pins": plan_rules.Pins,
        "retry": plan_rules.RetryRules,
        "pinned_retry": plan_rules.PinnedRetry,
        "token_price": plan_rules.TokenPrice,
        "prices": plan_rules.PriceList,
        "skill_price": plan_rules.SkillPrice,
        "pinned_prices": plan_rules.PinnedPrices,
        "rate_limit": plan_rules.RateLimit,
        "rate_limits": plan_rules.RateLimits,
        "shell": plan_rules.ShellRules,
    }
    for part, kind in parts.items():
        assert set(definitions[part]["properties"]) == fields(kind), part
        assert definitions[part]["additionalProperties"] is False, part
