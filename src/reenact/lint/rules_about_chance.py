"""Rules about chance: what a program reads that is neither in its plan nor in a recorded response."""

from __future__ import annotations

from typing import Final

from reenact.lint.findings import Severity
from reenact.lint.rule import Rule

CHANCE_RULES: Final = (
    Rule(
        "RN201",
        "unseeded-random",
        Severity.ERROR,
        "Code draws random numbers that no seed repeats.",
        "A skill has `ctx.random`, which is keyed by run, step and attempt; other code takes a seeded generator.",
        bad="""\
import random


def pick(mirrors):
    return random.choice(mirrors)
""",
        good="""\
def pick(ctx, mirrors):
    return ctx.random.choice(mirrors)
""",
    ),
    Rule(
        "RN202",
        "random-id",
        Severity.ERROR,
        "Code draws bytes or ids from the operating system.",
        "An id that differs on every run cannot be found again. Derive it: `uuid.uuid5` from what it names.",
        bad="""\
import uuid


def request_id():
    return str(uuid.uuid4())
""",
        good="""\
import uuid


def request_id(run_id, step_id):
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{run_id}/{step_id}"))
""",
    ),
    Rule(
        "RN203",
        "wall-clock",
        Severity.ERROR,
        "Code reads the wall clock.",
        "Time is an input: take it as a parameter, so that it is recorded. Time-outs use the monotonic clock.",
        bad="""\
from datetime import datetime


def greeting():
    return "Good morning" if datetime.now().hour < 12 else "Good day"
""",
        good="""\
def greeting(hour):
    return "Good morning" if hour < 12 else "Good day"
""",
    ),
    Rule(
        "RN204",
        "salted-hash",
        Severity.ERROR,
        "Code uses `hash()`.",
        "Python salts the hash of text in each process. Use a digest: `hashlib.sha256`.",
        bad="""\
def shard(key, shards):
    return hash(key) % shards
""",
        good="""\
import hashlib


def shard(key, shards):
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") % shards
""",
    ),
    Rule(
        "RN205",
        "object-identity",
        Severity.WARNING,
        "Code uses `id()`.",
        "It is an address, another one in each process, and reused within one.",
        bad="""\
def by_identity(plans):
    return sorted(plans, key=id)
""",
        good="""\
def by_identity(plans):
    return sorted(plans, key=lambda plan: plan.plan_id)
""",
    ),
    Rule(
        "RN206",
        "set-order",
        Severity.ERROR,
        "Code depends on the order of a set.",
        "It changes with the hash seed. Sort, or keep a list or a dict, which remember the order of insertion.",
        bad="""\
def steps_for(hosts):
    return [{"skill_id": "http_call", "url": host} for host in set(hosts)]
""",
        good="""\
def steps_for(hosts):
    return [{"skill_id": "http_call", "url": host} for host in sorted(set(hosts))]
""",
    ),
    Rule(
        "RN207",
        "directory-order",
        Severity.WARNING,
        "Code depends on the order in which a directory lists its files.",
        "File systems promise none. Sort what they list.",
        bad="""\
import os


def inputs(folder):
    return [name for name in os.listdir(folder) if name.endswith(".json")]
""",
        good="""\
import os


def inputs(folder):
    return sorted(name for name in os.listdir(folder) if name.endswith(".json"))
""",
    ),
    Rule(
        "RN208",
        "completion-order",
        Severity.WARNING,
        "Code depends on which of several calls completes first.",
        "The order of results becomes the order of what follows. Gather them in the order in which they were started.",
        bad="""\
import asyncio


async def collect(calls):
    results = []
    for call in asyncio.as_completed(calls):
        results.append(await call)
    return results
""",
        good="""\
import asyncio


async def collect(calls):
    return await asyncio.gather(*calls)
""",
    ),
    Rule(
        "RN209",
        "environment",
        Severity.WARNING,
        "Code reads an environment variable.",
        "It is no part of the plan, and another machine has another. Take a parameter; for a secret, a reference.",
        bad="""\
import os


def endpoint():
    return os.environ.get("API_URL", "https://api.example.com")
""",
        good="""\
def endpoint(parameters):
    return parameters.get("api_url", "https://api.example.com")
""",
    ),
    Rule(
        "RN210",
        "machine-state",
        Severity.WARNING,
        "Code reads what belongs to this process, machine or user.",
        "A replay runs in another process, and maybe on another machine.",
        bad="""\
import os


def workers():
    return os.cpu_count()
""",
        good="""\
def workers(parameters):
    return parameters["workers"]
""",
    ),
)
