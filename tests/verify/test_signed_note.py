"""Signed notes and verifier keys of C2SP, held against its own examples."""

from __future__ import annotations

from base64 import b64encode

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from reenact.errors import DamagedRecord, UsageError
from reenact.verify.signed.signed_note import (
    ED25519,
    NoteSignature,
    VerifierKey,
    read_note,
    read_vkey,
    signed_by,
    write_note,
)

EXAMPLE_KEY = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
EXAMPLE = (
    "This is an example message.\n\n\u2014 example.com/foo "
    "Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n"
).encode()
WITH_A_BLANK_LINE = (
    "Ognuno sta solo sul cuor della terra\ntrafitto da un raggio di sole:\n\ned \u00e8 subito sera.\n\n"
    "\u2014 quasimodo.example/salvatore "
    "NnugSzTjtVAewIS+Z/iJhUPeFDkO/5QQ2i5ddnGITLlC+EhfLW9oJKONrMouFSQU0xMcXxj99ihAQwaqP3ZekRwNtIc=\n"
).encode()


def test_the_example_of_the_specification_is_read_and_checked() -> None:
    key = read_vkey(EXAMPLE_KEY)
    note = read_note(EXAMPLE)
    assert (key.name, key.kind, key.key_id.hex()) == ("example.com/foo", ED25519, "530d903a")
    assert str(key) == EXAMPLE_KEY
    assert note.text == b"This is an example message.\n"
    assert signed_by(note, key) is True
    assert write_note(note.text, note.signatures) == EXAMPLE


def test_a_text_may_have_empty_lines() -> None:
    note = read_note(WITH_A_BLANK_LINE)
    assert note.text.endswith("\n\ned \u00e8 subito sera.\n".encode())
    assert [each.name for each in note.signatures] == ["quasimodo.example/salvatore"]


def test_another_text_is_not_signed_and_another_key_has_no_line() -> None:
    key, note = read_vkey(EXAMPLE_KEY), read_note(EXAMPLE)
    assert signed_by(note._replace(text=b"This is another message.\n"), key) is False
    assert signed_by(note, key._replace(name="example.com/bar")) is None


def test_one_wrong_line_of_a_key_spoils_its_right_one() -> None:
    key, note = read_vkey(EXAMPLE_KEY), read_note(EXAMPLE)
    wrong = NoteSignature(key.name, key.key_id, bytes(64))
    assert signed_by(note._replace(signatures=(*note.signatures, wrong)), key) is False


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no signature\n",
        b"text\n\n",
        b"text\n\n\xe2\x80\x94 name\n",
        b"text\n\n\xe2\x80\x94 na+me AAAAAAA=\n",
        b"text\n\n\xe2\x80\x94 name AAAAAAA\n",
        b"text\n\n\xe2\x80\x94 name AAAA\n",
        b"text\n\n- name AAAAAAA=\n",
        b"text\n\n\xe2\x80\x94 name AAAAAAA=",
        b"te\x00xt\n\n\xe2\x80\x94 name AAAAAAA=\n",
        b"te\rxt\n\n\xe2\x80\x94 name AAAAAAA=\n",
        b"te\xffxt\n\n\xe2\x80\x94 name AAAAAAA=\n",
        b"text\n\n" + b"\xe2\x80\x94 name AAAAAAA=\n" * 101,
        b"x" * ((1 << 20) + 1),
    ],
)
def test_what_is_no_signed_note_is_refused(data: bytes) -> None:
    with pytest.raises(DamagedRecord):
        read_note(data)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "example.com/foo",
        "example.com/foo+530d903a",
        "+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k",
        "a b+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k",
        "example.com/foo+530D903A+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k",
        "example.com/foo+530d903b+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k",
        "example.com/bar+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k",
        "example.com/foo+530d903a+" + b64encode(b"\x01short").decode(),
    ],
)
def test_what_is_no_verifier_key_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        read_vkey(text)


@given(
    text=st.text("ab é\u2014\n+ ", max_size=80),
    name=st.text("abz/.-_09é", min_size=1, max_size=40),
)
def test_what_is_written_is_read_back_and_holds(text: str, name: str) -> None:
    private = Ed25519PrivateKey.generate()
    key = VerifierKey(name, ED25519, private.public_key().public_bytes_raw())
    said = f"{text}\n".encode()
    data = write_note(said, [NoteSignature(key.name, key.key_id, private.sign(said))])
    note = read_note(data)
    assert (note.text, signed_by(note, read_vkey(str(key)))) == (said, True)
