"""Twenty and more secrets, each planted on a way of its own, and a search that finds any of them in whatever was left.

The search shares no code with the redaction that it checks.
"""

from __future__ import annotations

import base64
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from reenact.store.sqlite.connection import Connection

BY_REFERENCE = {
    "HEADER_TOKEN": "hdr+Tk0n/9f31-Zq==!",
    "QUERY_TOKEN": "qry Tk0n&x=7b20",
    "BODY_TOKEN": 'bdy"Tk0n\\4e55-lines',
    "LONGER_TEXT": "lng-Tk0n-83ab",
    "EXCEPTION": "exc-Tk0n-55aa",
    "CAUSE": "cse-Tk0n-19fe",
    "DETAILS": "dtl-Tk0n-77d0",
    "BASIC_AUTH": "bsc-Tk0n-6e1f",
    "URL_ENCODED": "enc Tk0n/ü-42",
    "KEY_VALUE": "kvv-Tk0n-0b3c",
    "PROGRESS": "prg-Tk0n-f00d",
    "TARGET": "tgt-Tk0n-beef",
    "LATE": "lat-Tk0n-cafe",
    "DECISION": "dec-Tk0n-b0b0",
    "REQUEST_ID": "rid-Tk0n-1234",
    "FINISH_REASON": "fin-Tk0n-5678",
    "RAW_RESPONSE": "raw-Tk0n-9abc",
    "CHILD_PROCESS": "chd-Tk0n-def0",
    "THREAD_THAT_LIVES_ON": "thr-Tk0n-2468",
    "LOGGED": "log-Tk0n-1357",
    "NUMBER": "8675309421",
    "DICT_KEY": "key-Tk0n-8642",
    "CANCEL_REASON": "can-Tk0n-9753",
}
"""Handed to skills by name; the values are known, and found wherever they come back."""

BY_SHAPE = {
    "a cookie that a server sets": "session=ck0-Tk0n-31337",
    "a field called password": "fld-Tk0n-hunter2",
    "an API key that a tool makes up": "sk-live0Tk0nABCDEFGHIJKLMNOP",
    "a JWT inside a sentence": "eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0NTY3.TJVA95OrM7E2cBab30RM",
    "a password in an address": "adm:addr-Tk0n-pw",
    "a field that the skill marks": "mrk-Tk0n-4242",
    "a field that the plan marks": "pln-Tk0n-2424",
}
"""Nobody handed these out: they are recognized by their place or their look."""

IN_A_URL = "url-Tk0n-d1c9"
"""The end of an address that is secret as a whole: known only as a part of it."""

PLANTED = {**BY_REFERENCE, **BY_SHAPE, "the end of a secret URL": IN_A_URL}


PACKED = {"commits", "payloads"}


def forms(secret: str) -> Iterator[bytes]:
    """The secret as it is and as it may be written elsewhere."""
    data = secret.encode()
    yield data
    yield data.hex().encode()
    yield quote(secret, safe="").encode()
    yield quote(secret).encode()
    yield secret.replace("\\", "\\\\").replace('"', '\\"').encode()
    for lead in (b"", b"x", b"xx"):
        encoded = base64.b64encode(lead + data)
        inner = encoded[4:-4]  # the characters that depend on nothing but the secret
        if len(inner) >= 8:
            yield inner
            yield inner.translate(bytes.maketrans(b"+/", b"-_"))


def leaks(where: str, data: bytes) -> list[str]:
    return [f"{name} in {where}" for name, secret in PLANTED.items() if any(form in data for form in forms(secret))]


def leaks_in_files(folder: Path) -> list[str]:
    """What a grep over every file of a folder finds, the database, its WAL and the exports among them."""
    found = []
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            found += leaks(str(path.relative_to(folder)), path.read_bytes())
    return found


def leaks_in_store(path: Path) -> list[str]:
    """The same over every cell of every table, unpacked: compression must not be what hides a secret."""
    found = []
    with closing(Connection(str(path))) as connection:
        for table, cells in rows(connection.db):
            for data in (reading for cell in cells for reading in readings(connection, table, cell)):
                found += leaks(f"table {table}", data)
    return found


def rows(db: sqlite3.Connection) -> Iterator[tuple[str, tuple[object, ...]]]:
    cursor = db.cursor()
    cursor.row_factory = None  # as the cells are, whatever their columns hold
    names = [name for (name,) in cursor.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()]
    assert {"commits", "payloads", "late_effects", "kv", "runs"} <= set(names)
    for name in names:
        yield from ((name, row) for row in cursor.execute(f'SELECT * FROM "{name}"').fetchall())


def readings(connection: Connection, table: str, cell: object) -> Iterator[bytes]:
    if isinstance(cell, str):
        yield cell.encode()
    if isinstance(cell, bytes):
        yield cell
        if table in PACKED and len(cell) not in (32, 40):  # a commitment is a bare digest, and so is a MAC with its kid
            yield connection.envelope(cell)
