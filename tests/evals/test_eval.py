"""`reenact eval` as its users meet it: killed, started again, out of money, judged, published and checked."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from reenact import Runtime
from reenact.errors import UsageError
from reenact.evals.publishing import evaluate
from reenact.provenance import ReenactSidecar, parse_sidecar
from reenact.skills.load import load_skills
from reenact.skills.registry import default_registry
from tests.cli.harness import Command, error_line
from tests.evals.samples import asked, write_skills, write_spec


@pytest.fixture
def reenact(tmp_path: Path) -> Command:
    return Command(tmp_path)


def run(reenact: Command, spec: Path, *more: str, cost: int = 0, **environment: str) -> Any:
    skills = write_skills(reenact.folder, cost)
    return reenact("eval", spec, "--skills", skills, *more, **environment)


def sidecar_of(report: Path) -> ReenactSidecar:
    found = parse_sidecar(report.with_suffix(".replay.json").read_text(encoding="utf-8"))
    assert isinstance(found, ReenactSidecar)
    return found


def test_models_seeds_request_ids_and_the_seal_come_from_the_journal(reenact: Command) -> None:
    done = run(reenact, write_spec(reenact.folder))
    assert done.code == 0, done.err
    assert "12/12 m2, told, sample 2: OK" in done.err.splitlines()
    sidecar = sidecar_of(reenact.folder / "capitals.md")
    assert sidecar.sampling.seeds == (40, 41, 42)
    assert [(model.id, model.provider, len(model.requests)) for model in sidecar.models] == [
        ("m1", "house", 6),
        ("m2", "house", 6),
    ]
    first = sidecar.models[0].requests[0]
    assert (first.id, first.sample, first.condition) == ("req-m1-40-21", 0, "plain")
    seal = json.loads((reenact.folder / "capitals.bundle" / "seal.json").read_bytes())
    assert sidecar.run is not None
    assert (sidecar.run.run_id, sidecar.run.seal_digest) == (seal["run_id"], seal["seal_digest"])
    rows = reenact("eval", reenact.folder / "spec.json", "--json").json["rows"]
    assert [(row["model"], row["condition"], row["mean"]) for row in rows] == [
        ("m1", "plain", 0.0),
        ("m1", "told", 1.0),
        ("m2", "plain", 0.0),
        ("m2", "told", 1.0),
    ]


def files_of(folder: Path) -> dict[str, bytes]:
    names = ("capitals.md", "capitals.replay.json", "capitals.results.json", "capitals.bundle/seal.json")
    return {name: (folder / name).read_bytes() for name in names}


@pytest.mark.parametrize("point", ["after_dispatch:7", "after_commit:9", "after_seal"])
def test_killed_anywhere_it_goes_on_and_asks_for_nothing_twice_that_is_recorded(reenact: Command, point: str) -> None:
    spec = write_spec(reenact.folder)
    killed = run(reenact, spec, REENACT_CRASH_AT=point)
    assert killed.code == -9, killed.err
    assert not (reenact.folder / "capitals.md").exists()
    again = run(reenact, spec)
    assert again.code == 0, again.err
    said = asked(reenact.folder)
    lost = 1 if point.startswith("after_dispatch") else 0  # that answer was not recorded: a read is sent again
    assert (len(said) - lost, len(set(said))) == (12, 12)
    assert reenact("verify-replay", "capitals.md").code == 0


def test_published_again_it_says_the_same_byte_for_byte(reenact: Command) -> None:
    spec = write_spec(reenact.folder, n=1)
    assert run(reenact, spec).code == 0
    published = files_of(reenact.folder)
    assert run(reenact, spec).code == 0
    assert (files_of(reenact.folder), len(asked(reenact.folder))) == (published, 4)


def test_what_waits_for_a_person_has_no_report_yet(reenact: Command) -> None:
    spec = write_spec(reenact.folder, n=1, context={"supervisor": "ask"}, skill="pay", models=["m1"])
    write_skills(reenact.folder)
    skills = reenact.folder / "pay.py"
    skills.write_text(
        "from reenact import skill\n\n\n"
        '@skill("pay", version="1.0.0", tool_class="write")\n'
        "def pay(prompt: str, model: str, seed: int) -> dict[str, str]:\n"
        '    """Somebody has to agree."""\n'
        '    return {"text": prompt}\n',
        encoding="utf-8",
    )
    waiting = reenact("eval", spec, "--skills", skills)
    assert (waiting.code, (reenact.folder / "capitals.md").exists()) == (4, False)


def test_side_by_side_it_comes_to_the_same(reenact: Command) -> None:
    spec = write_spec(reenact.folder)
    killed = run(reenact, spec, "--jobs", "4", REENACT_CRASH_AT="after_commit:9")
    assert killed.code == -9
    done = run(reenact, spec, "--jobs", "3", "--json")
    assert (done.code, done.json["made"], done.json["failed"]) == (0, 12, 0)
    assert len(set(asked(reenact.folder))) == 12
    assert reenact("verify-replay", "capitals.md", "--strict", "--store", reenact.store).code == 0


def test_a_budget_ends_it_and_the_report_says_so(reenact: Command) -> None:
    done = run(reenact, write_spec(reenact.folder, budget_cents=10), "--json", cost=2)
    assert (done.code, done.json["made"], done.json["out_of_budget"]) == (1, 5, True)
    assert len(asked(reenact.folder)) == 5
    assert "its budget of 10 cents was used up" in (reenact.folder / "capitals.md").read_text(encoding="utf-8")
    assert reenact("verify-replay", "capitals.md").code == 0


FLAKY = '''
from reenact import SkillContext, skill


@skill("flaky", version="1.0.0", tool_class="read", cost_estimate_cents=4)
def flaky(ctx: SkillContext, prompt: str, model: str, seed: int) -> dict[str, str]:
    """Fails at first, but for the first sample."""
    if seed > 40 and ctx.attempt == 0:
        raise TimeoutError
    return {"text": prompt}


@skill("dear_judge", version="1.0.0", tool_class="read", cost_estimate_cents=3)
def dear_judge(answer: str, sample: dict[str, str]) -> dict[str, float]:
    """Costs something too."""
    return {"score": 1.0}
'''


def flaky(reenact: Command, **changes: Any) -> Any:
    (reenact.folder / "flaky.py").write_text(FLAKY, encoding="utf-8")
    spec = write_spec(
        reenact.folder, skill="flaky", models=["m1"], conditions={"told": {"prompt": "{capital}"}}, **changes
    )
    return reenact("eval", spec, "--skills", reenact.folder / "flaky.py", "--json")


def test_a_call_whose_retry_the_budget_refused_was_made_and_paid(reenact: Command) -> None:
    done = flaky(reenact, budget_cents=10)
    assert (done.code, done.json["made"], done.json["failed"], done.json["out_of_budget"]) == (1, 2, 1, True)
    shown = reenact("show", "last", "--json").json
    assert done.json["cost_exact"] == str(shown["cost_exact"]) == str(8 * 10**10)
    sidecar = sidecar_of(reenact.folder / "capitals.md")
    assert (sidecar.sampling.seeds, sidecar.conditions.effective) == ((40, 41, None), ("told",))
    assert reenact("verify-replay", "capitals.md").code == 0


@pytest.mark.parametrize(("budget", "lacking"), [(16, "the samples are not all there"), (28, "not every answer is")])
def test_a_budget_that_a_judge_uses_up_is_told_too(reenact: Command, budget: int, lacking: str) -> None:
    done = flaky(reenact, budget_cents=budget, score={"skill": "dear_judge"})
    assert (done.code, done.json["out_of_budget"]) == (1, True)
    said = (reenact.folder / "capitals.md").read_text(encoding="utf-8")
    assert f"its budget of {budget} cents was used up: {lacking}" in said
    assert reenact("verify-replay", "capitals.md").code == 0


def test_what_was_published_stays_where_the_values_are_archived_or_erased(reenact: Command) -> None:
    spec = write_spec(reenact.folder, n=1)
    assert run(reenact, spec).code == 0
    published = files_of(reenact.folder)
    assert reenact("archive", "--older-than", "0m", "--yes").code == 0
    archived = run(reenact, spec)
    assert (archived.code, "archive --restore" in error_line(archived)) == (1, True)
    assert files_of(reenact.folder) == published
    assert reenact("archive", "--restore", "last", "--yes").code == 0
    assert run(reenact, spec).code == 0
    assert files_of(reenact.folder) == published
    assert reenact("erase", "last", "main.s0-m0-c0:1", "--reason", "asked", "--yes").code == 0
    erased = run(reenact, spec)
    assert (erased.code, "were erased" in error_line(erased)) == (1, True)
    assert files_of(reenact.folder) == published


def test_a_skill_judges_through_the_journal(reenact: Command) -> None:
    done = run(reenact, write_spec(reenact.folder, score={"skill": "judge"}, models=["m1"]), "--json")
    assert [row["mean"] for row in done.json["rows"]] == [0.5, 1.0]
    missing = run(reenact, write_spec(reenact.folder, score={"skill": "nobody"}, models=["m1"], name="other"), "--json")
    assert (missing.code, missing.json["failed"], missing.json["rows"][0]["scored"]) == (1, 6, 0)


def test_another_evaluation_does_not_take_the_place_of_one_that_was_published(reenact: Command) -> None:
    assert run(reenact, write_spec(reenact.folder, n=1)).code == 0
    changed = write_spec(reenact.folder, n=2)
    refused = run(reenact, changed)
    assert refused.code == 2
    assert "capitals.bundle holds run" in error_line(refused)
    assert len(asked(reenact.folder)) == 4, "nothing was spent"
    assert run(reenact, changed, "--replace").code == 0
    assert run(reenact, changed, "--report", "second.md", "--label", "again").code == 0
    assert len(asked(reenact.folder)) == 4 + 8 + 8
    assert reenact("verify-replay", "capitals.md", "second.md").code == 0


def test_the_run_behind_a_report_is_held_against_bundle_and_store(reenact: Command) -> None:
    assert run(reenact, write_spec(reenact.folder, n=1)).code == 0
    report, bundle = reenact.folder / "capitals.md", reenact.folder / "capitals.bundle"
    shutil.move(bundle, reenact.folder / "kept")
    alone = reenact("verify-replay", "-v", report)
    assert alone.code == 0
    assert "run: no capitals.bundle beside the report" in alone.out
    assert "ok    run: the store verifies" in reenact("verify-replay", "-v", report, "--store", reenact.store).out
    other = Command(reenact.folder / "other")
    other.folder.mkdir()
    assert run(other, write_spec(other.folder, n=1)).code == 0
    elsewhere = reenact("verify-replay", report, "--store", other.store)
    assert (elsewhere.code, "the store has no run" in elsewhere.out) == (1, True)
    shutil.copytree(other.folder / "capitals.bundle", bundle)
    swapped = reenact("verify-replay", report)
    assert (swapped.code, "capitals.bundle holds another run" in swapped.out) == (1, True)
    shutil.rmtree(bundle)
    shutil.make_archive(str(bundle), "zip", reenact.folder / "kept")
    assert "ok    run: capitals.bundle.zip verifies" in reenact("verify-replay", "-v", report).out
    bundle.symlink_to(reenact.folder / "kept")
    assert "is a link, and is not followed" in reenact("verify-replay", report).out


def test_a_request_that_the_run_never_made_is_found(reenact: Command) -> None:
    assert run(reenact, write_spec(reenact.folder, n=1)).code == 0
    sidecar = reenact.folder / "capitals.replay.json"
    sidecar.write_text(sidecar.read_text(encoding="utf-8").replace("req-m1-40-21", "req-made-up"), encoding="utf-8")
    done = reenact("verify-replay", "capitals.md")
    assert (done.code, "the run has no request req-made-up of m1" in done.out) == (1, True)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"modles": ["x"]}, "unknown field `modles`"),
        ({"models": []}, "at least one model"),
        ({"seed": 2**53 - 1}, "seed: that of the last sample would be beyond 2^53-1"),
        ({"models": ["m", "m"]}, "two have the same id"),
        ({"models": [{"name": "m"}]}, "the name as its id"),
        ({"name": "Capitals!"}, "name: 1 to 40"),
        ({"score": {}}, "one of exact, contains, regex and skill"),
        ({"score": {"exact": "a", "regex": "b"}}, "one of exact, contains, regex and skill"),
        ({"score": {"regex": "("}}, "nothing closes"),
        ({"score": {"exact": "{capitol}"}}, "no field 'capitol'"),
        ({"conditions": {"plain": {"prompt": "{town}"}}}, "no field 'town'"),
        ({"conditions": {"plain": {"prompt": {"$file": "gone.md"}}}}, "gone.md: No such file"),
        ({"data": "gone.jsonl"}, "gone.jsonl: No such file"),
        ({"data": None, "n": None}, "how many samples?"),
        ({"n": 0}, ">= 1"),
        ({"seeds": [1]}, "1 for 3 samples"),
        ({"data": "spec.json"}, "a list of objects"),
        ({"report": "nowhere/report.md"}, "there is no folder"),
    ],
)
def test_a_spec_that_cannot_be_run_costs_nothing(tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=re.escape(says)):
        evaluate(in_python(tmp_path), write_spec(tmp_path, **changes), root=tmp_path)
    assert not (tmp_path / "asked.txt").exists()


def test_a_mistake_in_a_spec_is_one_line(reenact: Command) -> None:
    done = run(reenact, write_spec(reenact.folder, modles=["m"]))
    assert (done.code, done.err.endswith("[EVAL_INVALID]\n")) == (2, True)
    assert "unknown field `modles`" in error_line(done)
    assert run(reenact, reenact.folder / "gone.json").err.endswith(
        "gone.json: No such file or directory [EVAL_INVALID]\n"
    )


def test_a_model_without_a_price_fails_and_what_it_leaves_verifies(reenact: Command) -> None:
    """It was refused by the gate that counts money, which compared no amounts."""
    spec = write_spec(reenact.folder, skill=None, models=[{"id": "unpriced", "adapter": "stub"}], n=1)
    done = reenact("eval", spec)
    assert (done.code, "no price is known" in (reenact.folder / "capitals.md").read_text(encoding="utf-8")) == (1, True)
    assert reenact("verify", "last").code == 0
    assert reenact("verify-replay", "capitals.md").code == 0


def test_secrets_of_a_spec_are_named_and_stand_nowhere(reenact: Command) -> None:
    models = [{"id": "stub", "api_key": {"$secret": "HOUSE_KEY"}}]
    spec = write_spec(reenact.folder, skill=None, models=models, n=1, score={"exact": "never"})
    done = reenact("eval", spec, REENACT_SECRET_HOUSE_KEY="a-very-private-word-7")
    assert done.code == 0, done.err
    written = [path for path in reenact.folder.rglob("*") if path.is_file()]
    assert not any(b"a-very-private-word-7" in path.read_bytes() for path in written)


def in_python(folder: Path) -> Runtime:
    registry = default_registry()
    load_skills(str(write_skills(folder)), registry)
    return Runtime(folder / "store.db", skills=registry)


def test_the_same_from_python(tmp_path: Path) -> None:
    heard: list[tuple[int, int]] = []
    published = evaluate(
        in_python(tmp_path),
        write_spec(tmp_path),
        root=tmp_path,
        progress=lambda done, total, _: heard.append((done, total)),
    )
    assert heard[-1] == (12, 12)
    assert published.results.is_whole
    assert published.report.read_text(encoding="utf-8").startswith("# capitals\n")
