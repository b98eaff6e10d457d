"""Skill metadata: what a skill declares about itself, and the digest by which a changed declaration is noticed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal

import msgspec

from reenact.contracts.plan_rules import SKILL_ID
from reenact.errors import SkillDeclarationError
from reenact.values.digest import digest, sha256_hex

LOCAL_SERVER = "local"
LONGEST_VERSION = 128
_PART = re.compile(r"[a-z0-9_-]{1,64}")
"""A server or a tool as the artifacts can name it."""
_PROJECTED = re.compile(r"x-[0-9a-f]{32}")

# The pattern of semver.org, section "Is there a suggested regular expression".
_SEMVER = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?"
    r"(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?",
    re.ASCII,
)

InDoubt = Literal["redispatch", "reconcile", "hold"]
Isolation = Literal["thread", "process"]
ToolClass = Literal["read", "write"]
RiskLevel = Literal["READ", "WRITE", "HIGH_RISK"]
VersionKey = tuple[int, int, int, int, tuple[tuple[int, int, str], ...], str]


class Resources(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Names of what a skill reads and writes; `{parameter}` in a name is filled in from the call."""

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()


class SkillMetadata(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that behaviour may depend on, and everything a person or a model reads before a call.

    `tool_class` is None where the author declared none: such a skill counts as a write of high risk.
    `read_when` names parameters and values with which a call of a write skill only reads
    (`{"method": ("GET", "HEAD")}`). Of the result, `stable_fields` are the same for the same parameters, and
    `nondeterministic` fields may differ from call to call: dotted names, `*` for all of it. `max_redispatches` is None
    where the host says after how many deaths a call is held.
    """

    cost_estimate_cents: int = 0
    cost_model: str | None = None
    description: str = ""
    failure_modes: tuple[str, ...] = ()
    high_risk: bool = False
    honours_key: bool = False
    idempotent: bool = False
    in_doubt: InDoubt = "redispatch"
    input_schema: dict[str, Any]
    isolation: Isolation = "thread"
    max_redispatches: int | None = None
    name: str
    nondeterministic: tuple[str, ...] = ()
    output_schema: dict[str, Any]
    owner: str | None = None
    permissions: tuple[str, ...] = ()
    public: tuple[str, ...] = ()
    read_when: dict[str, tuple[str, ...]] = {}
    redact: tuple[str, ...] = ()
    resources: Resources = Resources()
    retry: dict[str, Any] | None = None
    side_effects: tuple[str, ...] = ()
    skill_id: str
    stable_fields: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    timeout_ms: int = 30_000
    tool_class: ToolClass | None = None
    version: str

    def class_of(self, parameters: Mapping[str, Any]) -> ToolClass:
        """The class of one call: `read` only where the author said so."""
        reads = bool(self.read_when) and all(
            self.argument(name, parameters) in values for name, values in self.read_when.items()
        )
        return "read" if reads or self.tool_class == "read" else "write"

    def risk_of(self, parameters: Mapping[str, Any]) -> RiskLevel:
        """The level that the action request of one call carries."""
        if self.high_risk or (self.tool_class is None and not self.read_when):
            return "HIGH_RISK"
        return "READ" if self.class_of(parameters) == "read" else "WRITE"

    def argument(self, name: str, parameters: Mapping[str, Any]) -> object:
        """The value of a parameter in one call: as given, else the default that the schema shows."""
        default: object = self.input_schema.get("properties", {}).get(name, {}).get("default")
        return parameters.get(name, default)

    @property
    def reference(self) -> str:
        """`id@version`, as plans and pins write it."""
        return f"{self.skill_id}@{self.version}"


ABOUT = ("description", "name", "owner", "tags")
"""What of the metadata is for whoever reads it, and changes nothing about a call."""
ABOUT_A_SCHEMA = frozenset({"$comment", "description", "examples", "title"})
_BY_NAME = frozenset(
    {"$defs", "definitions", "dependencies", "dependentRequired", "dependentSchemas", "patternProperties", "properties"}
)
_VALUES = frozenset({"const", "default", "enum"})


def definition_digest(meta: SkillMetadata) -> str:
    """Hex SHA-256 over the canonical metadata with every default filled in, without the words that describe it.

    Source code is no part of it either.
    """
    behaviour = {key: value for key, value in document_of(meta).items() if key not in ABOUT}
    return digest(
        behaviour
        | {"input_schema": without_words(meta.input_schema), "output_schema": without_words(meta.output_schema)}
    )


def whole_digest(meta: SkillMetadata) -> str:
    """As runs recorded it that began before descriptions were left out: over the metadata as it is."""
    return digest(document_of(meta))


def document_of(meta: SkillMetadata) -> dict[str, Any]:
    """Every field, besides those that came later and are not used: a digest must not change for them."""
    document: dict[str, Any] = msgspec.to_builtins(meta)
    if not meta.nondeterministic:
        del document["nondeterministic"]
    if meta.max_redispatches is None:
        del document["max_redispatches"]
    return document


def without_words(schema: Any) -> Any:
    """A JSON Schema without its descriptions. A property may be called `description`: that one stays."""
    if isinstance(schema, list):
        return [without_words(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: _without_words_at(key, value) for key, value in schema.items() if key not in ABOUT_A_SCHEMA}


def _without_words_at(key: str, value: Any) -> Any:
    if key in _BY_NAME and isinstance(value, dict):
        return {name: without_words(part) for name, part in value.items()}
    return value if key in _VALUES else without_words(value)


def check_skill_id(skill_id: str) -> str:
    """The id itself, or `SkillDeclarationError` that says what an id may look like."""
    if not isinstance(skill_id, str) or not SKILL_ID.match(skill_id):
        raise SkillDeclarationError(
            f"{skill_id!r} is not a skill id: use 1 to 128 of A-Z a-z 0-9 _ - ., as tool or server.tool"
        )
    return skill_id


@lru_cache(maxsize=1024)
def split_skill_id(skill_id: str) -> tuple[str, str]:
    """(server, tool) as artifacts and keys name them; without a dot the server is `local`."""
    server, dot, tool = check_skill_id(skill_id).partition(".")
    return projected(server if dot else LOCAL_SERVER), projected(tool if dot else server)


def projected(part: str) -> str:
    """The part itself, where the artifacts can hold it; else `x-` and 32 hex digits that stand for it."""
    if _PART.fullmatch(part) and not _PROJECTED.fullmatch(part):
        return part
    return f"x-{sha256_hex(part.encode())[:32]}"


def version_key(version: str) -> VersionKey:
    """A sort key with the precedence of semver 2.0.0: pre-releases before their release.

    Build metadata has no precedence there; here it breaks the tie, so that an order is always total.
    """
    match = _SEMVER.fullmatch(version) if isinstance(version, str) and len(version) <= LONGEST_VERSION else None
    if match is None:
        raise SkillDeclarationError(f"{version!r} is not a version: write it as MAJOR.MINOR.PATCH, for example 1.0.0")
    major, minor, patch, pre, build = match.groups()
    parts = tuple(_identifier_key(part) for part in pre.split(".")) if pre else ()
    return int(major), int(minor), int(patch), 0 if pre else 1, parts, build or ""


def precedence(version: str) -> VersionKey:
    """As semver has it: which of two builds of one version is the newer one, their names do not tell."""
    return (*version_key(version)[:-1], "")


def _identifier_key(part: str) -> tuple[int, int, str]:
    """Numeric identifiers come before words, and compare as numbers (semver 2.0.0, section 11.4)."""
    return (0, int(part), "") if part.isdigit() else (1, 0, part)
