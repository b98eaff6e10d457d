"""Policy is pure: the same answers in processes with another hash seed, time zone, locale and optimization."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import reenact.policy

QUESTIONS = """
import json, locale, socket, sys
# Python itself takes over the encoding alone; a program that embeds it may take over all of it.
where = locale.setlocale(locale.LC_ALL, "" if sys.argv[1:] == ["there"] else "C")
print(where, locale.localeconv()["decimal_point"], file=sys.stderr)
from reenact.contracts.facts import Facts
from reenact.policy.budget import BudgetPolicy, Spent, check_budget, check_ledger
from reenact.policy.classify import classify, facts_of, map_exception_to_code
from reenact.policy.cost import DEFAULT_PRICES, calculate_cost, cost_exact
from reenact.policy.retry import RetryPolicy, calculate_backoff_ms, policy_to_dict, should_retry
from reenact.policy.taxonomy import RETRYABLE_CODES, TAXONOMY
from reenact.values.canonical import canonicalize
from reenact.values.clock import format_ts, keyed_random, parse_ts
from reenact.values.digest import digest, sha256_hex
from reenact.values.ids import project_uuid7
from tools.taxonomy_page import render

jitter = RetryPolicy(jitter_enabled=True, jitter_max_ms=997, backoff_multiplier=1.3, max_backoff_ms=10**6)
answers = [
    [calculate_backoff_ms(n, jitter, run, step_id=step) for n in range(12) for run in "ab" for step in ("", "s")],
    [should_retry(code, n, jitter) for code in TAXONOMY for n in range(5)],
    [calculate_cost(skill_id="llm_invoke", model=m, input_tokens=777, output_tokens=n) for m in DEFAULT_PRICES.models
     for n in range(50)],
    [str(cost_exact(m, 10**9, 7)) for m in DEFAULT_PRICES.models],
    [classify(Facts(http_status=status)) for status in range(100, 620)],
    [map_exception_to_code(error) for error in (TimeoutError(), socket.gaierror(), ValueError(), OSError(28, ""))],
    canonicalize(facts_of(ConnectionRefusedError(111, "x"))).decode(),
    repr(check_budget(3, 4)), repr(check_ledger(BudgetPolicy(per_day_cents=3), 10**11, day=Spent(1, 2))),
    digest(policy_to_dict(RetryPolicy())), digest(DEFAULT_PRICES.to_dict()), sorted(RETRYABLE_CODES),
    sha256_hex(render().encode()), project_uuid7("plan"),
    format_ts(1_735_689_600_123), parse_ts("2025-06-01T00:00:00.000Z"),
    [keyed_random("k", n).random() for n in range(20)], canonicalize({"i": 1.5, "I": 1e21, "ı": 0.1}).hex(),
]
print(json.dumps(answers))
"""

WORLDS = [
    {"PYTHONHASHSEED": "0", "TZ": "UTC", "LC_ALL": "C"},
    {"PYTHONHASHSEED": "1", "TZ": "Pacific/Kiritimati", "LC_ALL": "C.UTF-8"},
    {"PYTHONHASHSEED": "4294967295", "TZ": "America/St_Johns", "LC_ALL": "tr_TR.UTF-8", "LANG": "tr_TR.UTF-8"},
    {"PYTHONHASHSEED": "77", "TZ": "Asia/Kathmandu", "LC_ALL": "de_DE.UTF-8", "PYTHONOPTIMIZE": "2"},
]


def made_locales(folder: Path) -> set[str]:
    """Made from the system's own sources, where it has them: few machines have these two installed."""
    maker = shutil.which("localedef")
    for name in ("tr_TR", "de_DE"):
        if maker is not None:
            subprocess.run([maker, "-i", name, "-f", "UTF-8", folder / f"{name}.UTF-8"], check=False, timeout=60)
    return {"C", "C.UTF-8", *(path.name for path in folder.iterdir())}


def test_every_process_gives_the_same_answers(root: Path, tmp_path: Path) -> None:
    made = made_locales(tmp_path)
    answers, spoken = [], []
    for world in WORLDS:
        env = {**os.environ, **world, "LOCPATH": str(tmp_path)}
        there = ["there"] if world["LC_ALL"] in made else []
        done = subprocess.run(
            [sys.executable, "-c", QUESTIONS, *there],
            cwd=root,
            env=env,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        answers.append(done.stdout)
        spoken.append(done.stderr.strip())
    assert len(answers[0]) > 1000
    assert set(answers) == {answers[0]}
    assert ("de_DE.UTF-8 ," in spoken) == ("de_DE.UTF-8" in made), "a number has a comma there"


IMPURE = {
    "asyncio",
    "io",
    "locale",
    "logging",
    "os",
    "pathlib",
    "random",
    "secrets",
    "socket",
    "sys",
    "time",
    "uuid",
}


def test_policy_reaches_for_no_clock_no_randomness_and_no_input_or_output() -> None:
    (folder,) = reenact.policy.__path__
    for path in sorted(Path(folder).glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {name.partition(".")[0] for name in names} & IMPURE, f"{path.name}:{node.lineno}"
            assert "reenact.values.clock" not in names, f"{path.name}:{node.lineno}"
