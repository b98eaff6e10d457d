"""The vectors about anchoring, read by both verifiers: each says what stands there, and the same as the other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.second_verifier.test_log import PROOF, judged
from tests.verify.changing import read_folder

VECTORS: dict[str, Any] = json.loads((ROOT / "test_vectors" / "anchoring.json").read_bytes())


@pytest.mark.parametrize("case", VECTORS["cases"], ids=lambda case: case["name"])
def test_both_say_what_the_vectors_say(case: dict[str, Any], tmp_path: Path) -> None:
    files = read_folder(ROOT / "test_vectors" / VECTORS["bundle"])
    if case["proof"] is not None:
        files[PROOF] = case["proof"].encode()
    given: dict[str, Path | None] = {"policy": None, "checkpoint": None}
    for name in given:
        if case[name] is not None:
            given[name] = tmp_path / name
            (tmp_path / name).write_text(case[name])
    verdict, codes = judged(files, tmp_path, given["policy"], given["checkpoint"])
    assert (verdict, codes) == (case["anchoring"], [] if case["code"] is None else [case["code"]])


def test_each_verdict_and_each_code_is_among_them() -> None:
    assert {case["anchoring"] for case in VECTORS["cases"]} == {"holds", "absent", "contradicted"}
    assert {case["code"] for case in VECTORS["cases"]} == {None, "LOG_PROOF", "LOG_SIGNATURE", "LOG_CONTRADICTED"}
