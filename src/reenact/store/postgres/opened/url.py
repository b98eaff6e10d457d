"""The URL of a PostgreSQL store: what libpq is given of it, the schema it names, and how it is shown."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from reenact.errors import UsageError
from reenact.store.location import without_password

SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,39}")
DEFAULT_SCHEMA = "reenact"


class Place(NamedTuple):
    """Where a store lies."""

    conninfo: str
    """For libpq, with the password where the URL has one: never shown."""
    schema: str
    shown: str
    """The URL without a password."""


def place_of(url: str) -> Place:
    """UsageError for a URL that names what does not hold behind a pooler, or a schema that cannot be."""
    try:
        parts = urlsplit(url)
        query = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        raise UsageError("this is no URL of a PostgreSQL store; write postgresql://HOST/DATABASE") from None
    named = dict(query)
    if "options" in named:
        raise UsageError("a store's URL names no `options`: behind a pooler they are somebody else's; leave them out")
    schema = named.pop("schema", DEFAULT_SCHEMA)
    if SCHEMA.fullmatch(schema) is None or schema.startswith("pg_"):
        raise UsageError(
            "schema=NAME in a store's URL is at most 40 of a-z, 0-9 and _, and begins with no digit or pg_"
        )
    conninfo = urlunsplit(("postgresql", parts.netloc, parts.path, urlencode(named), ""))
    return Place(conninfo, schema, without_password(url))
