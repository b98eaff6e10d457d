"""Canonical bytes beside other implementations: the rfc8785 package, and the ECMAScript engine that RFC 8785 names."""

from __future__ import annotations

import json
import random
import shutil
import struct
import subprocess

import pytest
import rfc8785

from reenact.values.canonical import _canonicalize_strictly, canonicalize, parse_canonical
from reenact.values.numbers import format_number
from tests.values.documents import LETTERS, random_document, random_float, random_text

NODE = shutil.which("node")


def test_a_hundred_thousand_random_documents_give_the_bytes_of_the_rfc8785_package() -> None:
    source = random.Random(8785)
    for number in range(100_000):
        document = random_document(source)
        canonical = canonicalize(document)
        assert canonical == rfc8785.dumps(document), (number, document)
        if number % 5 == 0:
            assert canonical == _canonicalize_strictly(document), (number, document)
        if number % 10 == 0:
            assert canonicalize(parse_canonical(canonical)) == canonical, (number, document)


def test_every_character_gives_the_bytes_of_the_rfc8785_package() -> None:
    for block in range(0, 0x110000, 0x800):
        if 0xD800 <= block < 0xE000:
            continue
        text = "".join(map(chr, range(block, block + 0x800)))
        assert canonicalize(text) == _canonicalize_strictly(text) == rfc8785.dumps(text)


def run_node(script: str, stdin: str) -> str:
    assert NODE is not None
    done = subprocess.run([NODE, "-e", script], input=stdin, capture_output=True, text=True, check=True, timeout=120)
    return done.stdout


@pytest.mark.skipif(NODE is None, reason="Node is not installed")
def test_numbers_are_printed_as_node_prints_them() -> None:
    source = random.Random(262)
    numbers = [random_float(source) for _ in range(50_000)]
    numbers += [round(source.uniform(-1e6, 1e6), source.randrange(8)) for _ in range(20_000)]
    numbers += [
        sign * digit * 10.0**power
        for sign in (1, -1)
        for digit in (1, 1.5, 9.999999999999999)
        for power in range(-330, 308)
    ]
    script = """
        const hex = require("fs").readFileSync(0, "utf8").split("\\n");
        console.log(hex.map(h => String(Buffer.from(h, "hex").readDoubleBE(0))).join("\\n"));
    """
    printed = run_node(script, "\n".join(struct.pack(">d", number).hex() for number in numbers)).split()
    assert printed == [format_number(number) for number in numbers]
    # The fast way prints some floats itself: the same digits there.
    assert [canonicalize([number]).decode()[1:-1] for number in numbers] == printed


@pytest.mark.skipif(NODE is None, reason="Node is not installed")
def test_strings_and_key_order_are_those_of_node() -> None:
    source = random.Random(16)
    objects = [{random_text(source): random_text(source) for _ in range(8)} for _ in range(5_000)]
    objects += [{letter: letter for letter in source.sample(LETTERS, k=12)} for _ in range(2_000)]
    script = """
        const read = JSON.parse(require("fs").readFileSync(0, "utf8"));
        const member = (o, k) => JSON.stringify(k) + ":" + JSON.stringify(o[k]);
        const text = o => "{" + Object.keys(o).sort().map(k => member(o, k)).join(",") + "}";
        console.log(JSON.stringify(read.map(o => Buffer.from(text(o), "utf8").toString("hex"))));
    """
    printed = json.loads(run_node(script, json.dumps(objects)))
    assert printed == [canonicalize(each).hex() for each in objects]
