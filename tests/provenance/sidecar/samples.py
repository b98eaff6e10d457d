"""Sidecars to change one thing in."""

from __future__ import annotations

from typing import Any

SCHEMA_FILE = "src/reenact/provenance/replay.schema.json"
DIGEST = "ab" * 32
HASH = f"sha256:{DIGEST}"


def original(**changes: Any) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "kind": "eval-live",
        "ahd_version": "0.11.0",
        "ahd_commit": None,
        "git_dirty": None,
        "node_version": "v20.0.0",
        "platform": "linux-x64",
        "invoked_at": "2026-04-27T05:00:00.000Z",
        "argv": ["node", "ahd"],
        "token": {"path": "tokens/t.yml", "hash": HASH},
        "brief": {"path": "briefs/b.yml", "hash": HASH},
        "sampling": {"n": 2, "temperature": None, "seed": None},
        "models": [{"id": "m", "provider": "p", "provider_request_ids": ["r1"]}],
        "conditions": {"requested": ["raw"], "effective": ["raw"]},
        **changes,
    }


def own(**changes: Any) -> dict[str, Any]:
    return {
        "schema": "reenact.replay.v1",
        "kind": "nightly-eval",
        "program": "acme-evals",
        "version": "1.4.0",
        "reenact_version": "0.1.0",
        "commit": "c" * 40,
        "dirty": False,
        "runtime": "cpython-3.12.4",
        "platform": "linux-x64",
        "invoked_at": "2026-04-27T05:00:00.000Z",
        "argv": ["python", "eval.py"],
        "inputs": [
            {"name": "token", "path": "tokens/t.yml", "hash": HASH, "mode": "structured"},
            {"name": "corpus", "path": "data/corpus.bin", "hash": HASH, "mode": "raw"},
        ],
        "sampling": {"n": 2, "temperature": 0.7, "seed": None, "seeds": [11, None]},
        "models": [
            {"id": "m", "provider": "p", "requests": [{"id": "r1", "sample": 0, "condition": "raw"}]},
        ],
        "conditions": {"requested": ["raw", "compiled"], "effective": ["raw"]},
        "run": {"run_id": "019b76da-a800-7000-8000-000000000001", "seal_digest": DIGEST},
        **changes,
    }
