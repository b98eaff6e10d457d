"""A schema_version 1 block is what the original renders; ours is valid YAML."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
import yaml12

from reenact.provenance import parse_sidecar, render_block
from reenact.provenance.sidecar.block import parse_block
from tests.provenance.sidecar.samples import HASH, original, own
from tests.provenance.vector_files import load

VECTORS = load("render_vectors")


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["name"] for vector in VECTORS])
def test_a_block_is_rendered_as_the_original_renders_it(vector: dict[str, Any]) -> None:
    assert render_block(parse_sidecar(json.dumps(vector["replay"]))) == vector["markdown"]


def test_infinite_temperatures_are_shown_as_javascript_shows_them() -> None:
    text = json.dumps(original()).replace('"temperature": null', '"temperature": 1E400')
    assert "\n  temperature: Infinity\n" in render_block(parse_sidecar(text))


HOSTILE = [
    "a: b",
    "# c",
    "- x",
    "yes",
    "1.5",
    "null",
    "",
    "a\nb",
    "```",
    "\x1b[2K",
    "\u202e",
    '"',
    "é 日本 😀",
    "x" * 300,
]


@pytest.mark.parametrize("value", HOSTILE)
def test_our_own_block_is_valid_yaml_that_holds_what_the_sidecar_holds(value: str) -> None:
    fields = own(
        program=value or "p",
        models=[{"id": value or "m", "provider": value or "p", "requests": []}],
        conditions={"requested": [value, value], "effective": []},
    )
    block = render_block(parse_sidecar(json.dumps(fields)))
    parsed = parse_block(block)
    assert parsed is not None
    lines = block.split("\n")
    shown = yaml12.parse_yaml("\n".join(lines[1 : lines.index("```", 1)]) + "\n")
    assert shown["program"] == fields["program"]
    assert shown["models"][0]["id"] == fields["models"][0]["id"]
    assert shown["conditions"]["requested"] == [value, value]
    assert shown["version"] == "1.4.0"
    assert shown["inputs"][0]["hash"] == HASH[:19]
    assert shown["sampling"] == {"n": 2, "temperature": 0.7, "seed": None, "seeds": "1 kept"}
    assert shown["run"]["seal"] == fields["run"]["seal_digest"]


@pytest.mark.parametrize(
    "argument", [*HOSTILE[:9], "\x1b[2K", "it's", "$HOME", "`id`", "a\\b", "\r\n", "日本", "x\ty'z", "\udcff"]
)
def test_our_own_command_line_gives_the_shell_exactly_the_recorded_arguments(argument: str) -> None:
    block = render_block(parse_sidecar(json.dumps(own(argv=["printf", "%s", argument], commit=None, dirty=None))))
    command = block.split("```sh\n")[1].removesuffix("\n```")
    assert "\n" not in command
    assert command.isprintable()
    done = subprocess.run(["bash", "-c", command], capture_output=True, check=True)
    assert done.stdout == argument.encode("utf-8", "surrogateescape")
