"""A run as a document: its keys are the ones that its shape names, whatever has happened to the run."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, NotRequired, get_origin, get_type_hints

import pytest

from reenact import Runtime, SkillContext, skill
from reenact.errors import WaitingForPerson
from reenact.record import document_shape as shape
from reenact.record.document import DocumentReader, read_bundle_document, read_document
from reenact.record.erase import erase
from reenact.record.export import export_run
from reenact.runtime.people import decisions as people
from tests.engines.places import store_at
from tests.runtime.running import plan, step

VALUES = set(shape.StepValues.__annotations__)


@skill("flaky", version="1.0.0", tool_class="read")
def flaky(ctx: SkillContext) -> str:
    if ctx.attempt == 0:
        raise TimeoutError
    return "well"


@skill("broken", version="1.0.0", tool_class="read")
def broken() -> str:
    raise ValueError("never")


@skill("pay", version="1.0.0", tool_class="write", high_risk=True)
def pay() -> str:
    return "paid"


@pytest.fixture
def runtime(tmp_path: Path) -> Runtime:
    return Runtime(store_at(tmp_path / "store.db"), skills=[flaky, broken, pay])


def keys(kind: type) -> tuple[set[str], set[str]]:
    """(those that are always there, those that may be)."""
    hints = get_type_hints(kind, include_extras=True)
    optional = {name for name, hint in hints.items() if get_origin(hint) is NotRequired}
    return set(hints) - optional, set(hints)


def check(document: shape.RunDocument, *, values: bool) -> None:
    assert set(document) == keys(shape.RunDocument)[0]
    for one in document["steps"]:
        assert set(one) == keys(shape.StepDocument)[0] - (set() if values else VALUES)
        assert one["decision"] is None or set(one["decision"]) == keys(shape.DecisionDocument)[0]
        assert all(set(attempt) == keys(shape.AttemptDocument)[0] for attempt in one["attempts"])
    needed, known = keys(shape.EventDocument)
    for event in document["events"]:
        assert needed <= set(event) <= known


@pytest.mark.parametrize("values", [False, True])
def test_a_run_that_ended_has_the_keys_of_the_shape(runtime: Runtime, *, values: bool) -> None:
    run_id = runtime.run(plan(step(flaky), step(broken))).run_id
    document = read_document(runtime.store, "last", values=values)
    check(document, values=values)

    assert (document["run_id"], document["status"]) == (run_id, "failed")
    assert [(one["code"], one["retries"]) for one in document["steps"]] == [("OK", 1), ("ERR_INTERNAL", 3)]


def test_a_run_that_people_spoke_about_has_them(runtime: Runtime) -> None:
    async def talk() -> str:
        async with runtime.session(context={"supervisor": "ask"}) as session:
            with pytest.raises(WaitingForPerson):
                await session.call("pay", {})
            return session.run_id

    run_id = asyncio.run(talk())
    asyncio.run(people.vote(runtime, run_id, None, approve=True, reason="a good cause", who="anna"))
    check(read_document(runtime.store, run_id), values=False)
    asyncio.run(people.cancel(runtime, run_id, reason="too late", who="bert"))
    document = read_document(runtime.store, run_id, values=True)
    check(document, values=True)

    assert {event["type"] for event in document["events"]} >= {"vote", "cancel"}
    assert document["steps"][0]["vote"] in document["events"]


def test_an_exported_folder_gives_the_same_document(runtime: Runtime, tmp_path: Path) -> None:
    run_id = runtime.run(plan(step(flaky))).run_id
    export_run(runtime.store.url, run_id, tmp_path / "bundle")

    assert read_bundle_document(tmp_path / "bundle", values=True) == read_document(runtime.store, run_id, values=True)


def test_erased_values_are_absent(runtime: Runtime) -> None:
    run_id = runtime.run(plan(step(flaky))).run_id
    erase(runtime.store, run_id, None, who="anna", reason="asked for")
    (one,) = read_document(runtime.store, run_id, values=True)["steps"]

    assert (one["parameters"], one["output"], one["absent"]) == (None, None, ["parameters", "output"])


def test_a_reader_that_is_asked_again_gives_what_a_new_one_gives(runtime: Runtime) -> None:
    async def talk() -> None:
        async with runtime.session() as session:
            reader = DocumentReader(runtime.store, session.run_id)
            for number in range(3):
                await session.call("flaky", {})
                document = reader.read(runtime.store.find_run(session.run_id))
                assert len(document["steps"]) == number + 1
                assert document == read_document(runtime.store, session.run_id)

    asyncio.run(talk())


def test_every_key_stands_on_its_page(root: Path) -> None:
    page = (root / "docs/reference/run_document.md").read_text(encoding="utf-8")
    kinds: list[Any] = [
        shape.RunDocument, shape.StepDocument, shape.DecisionDocument, shape.AttemptDocument, shape.EventDocument,
    ]  # fmt: skip
    known = set().union(*(keys(kind)[1] for kind in kinds))
    assert {name for name in known if f"`{name}`" not in page and f'"{name}"' not in page} == set()
