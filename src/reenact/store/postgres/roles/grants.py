"""The script that gives each role its rights, and no others. It may be run again, and is after every upgrade."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Final, NamedTuple

from reenact.errors import UsageError
from reenact.store.postgres.opened.url import place_of

NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")


class Roles(NamedTuple):
    """What they are called in this server."""

    owner: str = "reenact_owner"
    worker: str = "reenact_worker"
    eraser: str = "reenact_eraser"
    auditor: str = "reenact_auditor"


def grants(url: str, roles: Roles) -> str:
    """For the store at this URL, whose server is not asked."""
    script = files("reenact.store.postgres.roles").joinpath("grants.sql").read_text(encoding="utf-8")
    for what, name in roles._asdict().items():
        if NAME.fullmatch(name) is None or name.startswith("pg_"):
            raise UsageError(
                f"a role's name is at most 63 of a-z, 0-9 and _, and begins with no digit or pg_: {name!r}"
            )
        script = script.replace(f":{what}", name)
    if len(set(roles)) < len(roles):
        raise UsageError("each role has a name of its own")
    return script.replace(":schema", place_of(url).schema)
