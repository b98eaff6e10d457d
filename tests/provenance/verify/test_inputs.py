"""What counts as the same input, and how missing, unparseable, drifted, relocated and erased are told apart."""

from __future__ import annotations

import json

import pytest

from reenact.provenance.hashing import hash_structured
from tests.provenance.verify.repository import BRIEF, TOKEN, Repository, raw

PROSE = "# Brief\n\nMake it plain.\n"


def test_unchanged_inputs_hold(repository: Repository) -> None:
    repository.sidecar()
    report = repository.verified()
    assert (report["exit"], report["verdict"]) == (0, "holds")
    assert [report["checks"][name]["status"] for name in ("token", "brief")] == ["ok", "ok"]


@pytest.mark.parametrize(
    ("change", "content"),
    [
        ("a comment", "# new\nid: swiss   # and here\npalette: [black, white]\n"),
        ("key order", "palette: [black, white]\nid: swiss\n"),
        ("line ends", TOKEN.replace("\n", "\r\n")),
        ("layout", "id: 'swiss'\npalette:\n  - black\n  - white\n"),
    ],
)
def test_a_structured_input_may_change_what_is_no_value(change: str, content: str, repository: Repository) -> None:
    repository.sidecar()
    repository.write("tokens/t.yml", content)
    assert repository.verified()["checks"]["token"]["status"] == "ok"


@pytest.mark.parametrize(
    "content", [TOKEN.replace("white", "whitE"), TOKEN.replace("[black, white]", "[white, black]")]
)
def test_one_byte_of_a_value_is_drift(content: str, repository: Repository) -> None:
    repository.sidecar()
    repository.write("tokens/t.yml", content)
    check = repository.verified()["checks"]["token"]
    assert (check["status"], check["level"]) == ("drifted", "FAIL")
    assert (check["expected"], check["actual"]) == (hash_structured(TOKEN), hash_structured(content))


@pytest.mark.parametrize("content", [PROSE + " ", PROSE.replace("\n", "\r\n"), PROSE.replace("plain", "plaiN")])
def test_every_byte_of_a_raw_input_counts(content: str, repository: Repository) -> None:
    repository.write("briefs/b.md", content)
    repository.sidecar(brief=raw("briefs/b.md", PROSE))
    check = repository.verified()["checks"]["brief"]
    assert (check["status"], check["actual"]) == ("drifted", raw("", content)["hash"])


def test_a_raw_hash_of_the_replaced_text_holds_and_says_so(repository: Repository) -> None:
    repository.write("briefs/b.md", b"caf\xe9\n")
    repository.sidecar(brief=raw("briefs/b.md", "caf\ufffd\n"))
    check = repository.verified()["checks"]["brief"]
    assert check["status"] == "ok"
    assert "U+FFFD" in check["detail"]


def test_an_input_that_is_nowhere_is_missing(repository: Repository) -> None:
    (repository.root / "briefs/b.yml").unlink()
    repository.sidecar()
    report = repository.verified()
    assert (report["exit"], report["checks"]["brief"]["status"]) == (1, "missing")


def test_an_input_that_no_longer_parses_is_unparseable(repository: Repository) -> None:
    repository.write("tokens/t.yml", "hidden: [1\n")
    repository.sidecar()
    done = repository.verify()
    assert done.returncode == 1
    assert "  FAIL  token: unparseable: tokens/t.yml (line " in done.stdout
    assert "hidden" not in done.stdout + done.stderr


def test_an_input_that_a_commit_deleted_is_erased_and_names_it(repository: Repository) -> None:
    repository.recorded()
    (repository.root / "briefs/b.yml").unlink()
    deletion = repository.commit("Drop the brief")
    check = repository.verified()["checks"]["brief"]
    assert (check["status"], check["level"]) == ("erased", "FAIL")
    assert check["changed_by"]["commit"] == deletion
    assert check["changed_by"]["subject"] == "Drop the brief"


@pytest.mark.parametrize(
    "path",
    [
        "/home/runner/work/ahd/ahd/tokens/t.yml",
        "C:\\Users\\runner\\ahd\\tokens\\t.yml",
        "old/place/tokens/t.yml",
        "/elsewhere/t.yml",
    ],
)
def test_an_input_found_by_its_paths_tail_holds_and_says_relocated(path: str, repository: Repository) -> None:
    repository.sidecar(token={"path": path, "hash": hash_structured(TOKEN)})
    report = repository.verified()
    check = report["checks"]["token"]
    assert (report["exit"], check["status"], check["found"]) == (0, "relocated", "tokens/t.yml")
    assert "relocated" in repository.verify().stdout


def test_an_input_that_moved_deeper_is_found_too(repository: Repository) -> None:
    (repository.root / "tokens/t.yml").rename(repository.root / "docs/t.yml")
    repository.write("archive/2026/tokens/t.yml", TOKEN)
    repository.sidecar()
    check = repository.verified()["checks"]["token"]
    assert (check["status"], check["found"]) == ("relocated", "archive/2026/tokens/t.yml")


def test_of_several_places_the_longest_tail_with_the_right_hash_wins(repository: Repository) -> None:
    repository.write("ahd/tokens/t.yml", "id: other\n")
    repository.write("t.yml", TOKEN)
    repository.sidecar(token={"path": "/ci/ahd/tokens/t.yml", "hash": hash_structured(TOKEN)})
    assert repository.verified()["checks"]["token"]["found"] == "tokens/t.yml"


def test_a_relocated_input_with_another_hash_is_drifted_where_its_tail_leads(repository: Repository) -> None:
    repository.write("tokens/t.yml", "id: other\n")
    repository.sidecar(token={"path": "/home/runner/ahd/tokens/t.yml", "hash": hash_structured(TOKEN)})
    check = repository.verified()["checks"]["token"]
    assert (check["status"], check["found"]) == ("drifted", "tokens/t.yml")


def test_drift_in_its_own_place_is_not_excused_by_a_copy_elsewhere(repository: Repository) -> None:
    repository.write("tokens/t.yml", "id: other\n")
    repository.write("copy/tokens/t.yml", TOKEN)
    repository.sidecar()
    assert repository.verified()["checks"]["token"]["status"] == "drifted"


def test_an_absolute_path_inside_the_root_is_its_own_place(repository: Repository) -> None:
    inside = str(repository.root / "tokens/t.yml")
    repository.sidecar(token={"path": inside, "hash": hash_structured(TOKEN)})
    assert repository.verified()["checks"]["token"]["status"] == "ok"


def test_a_link_that_stays_inside_the_root_is_followed(repository: Repository) -> None:
    (repository.root / "tokens/current.yml").symlink_to("../tokens/t.yml")
    repository.sidecar(token={"path": "tokens/current.yml", "hash": hash_structured(TOKEN)})
    assert repository.verified()["checks"]["token"]["status"] == "ok"


def test_a_brief_may_be_null(repository: Repository) -> None:
    repository.sidecar(brief=None)
    report = repository.verified()
    assert report["exit"] == 0
    assert "brief" not in report["checks"]


def test_a_brief_holds_by_its_raw_or_by_its_structured_hash(repository: Repository) -> None:
    for brief in (raw("briefs/b.yml", BRIEF), {"path": "briefs/b.yml", "hash": hash_structured(BRIEF)}):
        repository.sidecar(brief=brief)
        assert repository.verified()["checks"]["brief"]["status"] == "ok"


def test_a_larger_file_than_allowed_is_refused(repository: Repository) -> None:
    repository.sidecar()
    report = repository.verified("--max-bytes", "10", "docs/r.md")
    assert (report["exit"], report["checks"]["token"]["status"]) == (1, "refused")


def test_our_own_sidecars_verify_every_named_input(repository: Repository) -> None:
    repository.write("data/rows.csv", "a,b\n1,2\n")
    document = {
        "schema": "reenact.replay.v1",
        "kind": "benchmark",
        "program": "bench",
        "version": "1.0",
        "reenact_version": "0.1.0",
        "commit": None,
        "dirty": None,
        "runtime": "python 3.11",
        "platform": "linux",
        "invoked_at": "2026-04-27T05:00:00Z",
        "argv": ["bench"],
        "inputs": [
            {"name": "config", "path": "tokens/t.yml", "hash": hash_structured(TOKEN), "mode": "structured"},
            {"name": "rows", **raw("data/rows.csv", "a,b\n1,2\n"), "mode": "raw"},
        ],
        "sampling": {"n": 1, "temperature": None, "seed": None, "seeds": []},
        "models": [],
        "conditions": {"requested": [], "effective": []},
        "run": None,
    }
    repository.write("docs/r.replay.json", json.dumps(document))
    report = repository.verified()
    assert report["exit"] == 0
    assert [report["checks"][name]["status"] for name in ("config", "rows")] == ["ok", "ok"]
    repository.write("data/rows.csv", "a,b\n1,3\n")
    assert repository.verified()["checks"]["rows"]["status"] == "drifted"
    document["inputs"][1]["hash"] = raw("", "caf\ufffd\n")["hash"]  # type: ignore[index]
    repository.write("docs/r.replay.json", json.dumps(document))
    repository.write("data/rows.csv", b"caf\xe9\n")
    assert repository.verified()["checks"]["rows"]["status"] == "drifted"
