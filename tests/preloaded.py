"""Loaded by the fork server alone: what a command loads on its way, and what the tests run in a process of its own.

A name that is loaded in each child instead costs more than all that the child then does.
"""

from __future__ import annotations

import gc
import importlib
import pkgutil

import reenact.cli

NAMES = (
    "encodings.ascii",
    "importlib.metadata",
    "importlib.readers",
    "pydantic.plugin._loader",
    "reenact.builtin.catalogue",
    "reenact.builtin.http_call",
    "reenact.builtin.llm_invoke",
    "reenact.lint.check",
    "reenact.lint.output",
    "reenact.record.bundle",
    "reenact.record.export",
    "reenact.replay.api",
    "reenact.replay.runtime",
    "reenact.skills.load",
    "reenact.store.checks.verification",
    "reenact.store.doctor.examine",
    "reenact.store.keys.trusted",
    "reenact.store.log.past",
    "reenact.store.postgres.doctor.examination",
    "reenact.store.postgres.store",
    "reenact.store.sqlite.doctor.examination",
    "reenact.store.sqlite.store",
    "reenact.verify.verifier",
    "tests.cli.harness",
    "tests.record.archive.killing",
    "tests.record.repair.killing",
    "typer._adapters",
)

for name in (*NAMES, *(module.name for module in pkgutil.walk_packages(reenact.cli.__path__, "reenact.cli."))):
    importlib.import_module(name)
gc.collect()
gc.freeze()  # no child looks through what is here already: its pages stay shared
