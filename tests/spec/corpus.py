"""Documents that a closed format must refuse, made from one that it accepts."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools.vectors.scenarios import SKILLS, refusals, session, three_steps
from tools.vectors.writer import Run, bundle_files, erasure, removal

WRONG = (None, True, 7, -1, 1.5, "", "\n", "x", [], {}, ["x"], {"x": 1})


def lines(run: Run) -> list[dict[str, Any]]:
    return [json.loads(line) for line in b"".join(run.bodies).splitlines()]


def own_records() -> list[tuple[str, dict[str, Any]]]:
    """(schema's path below schemas/, a document of that kind) from every line of every example run."""
    found: list[tuple[str, dict[str, Any]]] = []
    for run in (three_steps(), refusals(), session()):
        for line in lines(run):
            kind = line["kind"]
            if kind == "entry":
                found.append(("tga/v1/execution_log_entry", line["entry"]))
                found.append((f"tga/v1/{line['entry']['artifact_type']}", line["artifact"]))
            elif kind == "checkpoint":
                found.append(("tga/v1/execution_checkpoint", line["checkpoint"]))
            elif kind != "commit":
                found.append((kind, line[kind]))
        found.append(("plan", run.plan))
        found.append(("bundle_manifest", json.loads(bundle_files(run)["manifest.json"])))
        for trace in run.traces:
            effect = trace.artifacts.get("tool_effect")
            if effect is not None:
                outcome = run.payloads[effect["document_hashes"][1]["hash"]]
                found.append(("structured_outcome", json.loads(outcome[32:])))
    found += [("skill_metadata", skill) for skill in SKILLS]
    erased = erasure("a" * 64, run.run_id, "0" * 64, who="x", reason="", ms=0)
    found += [("erasure", erased), ("erasure_v2", removal("b" * 64, erased, "archived", "c" * 64))]
    return found


def mutations(document: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str, Any]]:
    """(what was done, the document after it): keys removed and added, values of wrong type, strings with a newline."""

    def changed(edit: Any) -> Any:
        whole = copy.deepcopy(document)
        place = whole
        for key in path[:-1]:
            place = place[key]
        edit(place, path[-1])
        return whole

    value = document
    for key in path:
        value = value[key]
    name = "/".join(map(str, path)) or "(root)"
    if path:
        if isinstance(path[-1], str):
            yield f"without {name}", changed(lambda place, key: place.pop(key))
        for wrong in WRONG:
            if wrong != value or type(wrong) is not type(value):
                yield f"{name} = {wrong!r}", changed(lambda place, key, wrong=wrong: place.__setitem__(key, wrong))
        if isinstance(value, str):
            yield f"{name} with a newline", changed(lambda place, key: place.__setitem__(key, value + "\n"))
    if isinstance(value, dict):
        added = copy.deepcopy(document)
        place = added
        for key in path:
            place = place[key]
        place["unknown_field"] = 1
        yield f"{name} with a field added", added
        for key in value:
            yield from mutations(document, (*path, key))
    elif isinstance(value, list):
        for index in range(len(value)):
            yield from mutations(document, (*path, index))


def schema(root: Path, name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((root / "schemas" / f"{name}.schema.json").read_text(encoding="utf-8"))
    return loaded
