"""The sidecar of a report: the authoritative record of what a run consumed, in one of two versions.

`Sidecar` is schema_version 1, the original tool's, byte for byte. `ReenactSidecar` is our own
(`"schema": "reenact.replay.v1"`): any kind, any number of named inputs, a seed per sample, request ids tied
to sample and condition, and the digest of the run's seal. `replay.schema.json` states both.
"""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple

import msgspec

from reenact.errors import SidecarError, SidecarVersionError
from reenact.provenance.sidecar import shape
from reenact.provenance.sidecar.paths import sidecar_path
from reenact.provenance.yaml import javascript

__all__ = [
    "AnySidecar",
    "Conditions",
    "InputRef",
    "Model",
    "NamedInput",
    "ProviderRequest",
    "ReenactModel",
    "ReenactSampling",
    "ReenactSidecar",
    "RunRef",
    "Sampling",
    "Sidecar",
    "VerifiableInput",
    "parse_sidecar",
    "serialize_sidecar",
    "sidecar_path",
    "validate_sidecar",
]

SCHEMA: Final = "reenact.replay.v1"
KINDS: Final = ("eval-live", "critique", "eval-image")
_MAX_SHOWN: Final = 200
Mode = Literal["structured", "raw", "either"]


class VerifiableInput(NamedTuple):
    """One input as a verifier needs it, whichever version named it. `either`: raw first, then structured."""

    name: str
    path: str
    hash: str
    mode: Mode


class InputRef(msgspec.Struct, frozen=True):
    path: str
    hash: str


class Sampling(msgspec.Struct, frozen=True):
    n: int
    temperature: float | None = None
    seed: int | None = None


class Model(msgspec.Struct, frozen=True):
    id: str
    provider: str
    provider_request_ids: tuple[str, ...] = ()


class Conditions(msgspec.Struct, frozen=True):
    requested: tuple[str, ...] = ()
    effective: tuple[str, ...] = ()


class Sidecar(msgspec.Struct, frozen=True, kw_only=True):
    """schema_version 1. `warnings` is no field of the file: it names the unknown fields that were ignored."""

    kind: str
    ahd_version: str
    ahd_commit: str | None
    git_dirty: bool | None
    node_version: str
    platform: str
    invoked_at: str
    argv: tuple[str, ...]
    token: InputRef
    brief: InputRef | None
    sampling: Sampling
    models: tuple[Model, ...]
    conditions: Conditions
    schema_version: Literal[1] = 1
    backfilled: bool | None = None
    warnings: tuple[str, ...] = ()

    @property
    def version(self) -> str:
        return self.ahd_version

    @property
    def commit(self) -> str | None:
        return self.ahd_commit

    @property
    def dirty(self) -> bool | None:
        return self.git_dirty

    @property
    def verifiable_inputs(self) -> tuple[VerifiableInput, ...]:
        token = VerifiableInput("token", self.token.path, self.token.hash, "structured")
        if self.brief is None:
            return (token,)
        return (token, VerifiableInput("brief", self.brief.path, self.brief.hash, "either"))


class NamedInput(msgspec.Struct, frozen=True):
    name: str
    path: str
    hash: str
    mode: Literal["structured", "raw"]


class ReenactSampling(msgspec.Struct, frozen=True):
    """`seeds` holds one for each sample, null where none was set; it is empty when none were kept."""

    n: int
    temperature: float | None = None
    seed: int | None = None
    seeds: tuple[int | None, ...] = ()


class ProviderRequest(msgspec.Struct, frozen=True):
    """One successful provider call. `sample` counts from 0; null for a call of no single sample."""

    id: str
    sample: int | None = None
    condition: str | None = None


class ReenactModel(msgspec.Struct, frozen=True):
    id: str
    provider: str
    requests: tuple[ProviderRequest, ...] = ()


class RunRef(msgspec.Struct, frozen=True):
    """The recorded run behind the report, by the digest of its seal."""

    run_id: str
    seal_digest: str


class ReenactSidecar(msgspec.Struct, frozen=True, kw_only=True):
    """`reenact.replay.v1`. `warnings` is no field of the file: it names unknown fields that were ignored."""

    kind: str
    program: str
    version: str
    reenact_version: str
    commit: str | None
    dirty: bool | None
    runtime: str
    platform: str
    invoked_at: str
    argv: tuple[str, ...]
    inputs: tuple[NamedInput, ...]
    sampling: ReenactSampling
    models: tuple[ReenactModel, ...]
    conditions: Conditions
    run: RunRef | None = None
    schema: Literal["reenact.replay.v1"] = SCHEMA
    warnings: tuple[str, ...] = ()

    @property
    def verifiable_inputs(self) -> tuple[VerifiableInput, ...]:
        return tuple(VerifiableInput(one.name, one.path, one.hash, one.mode) for one in self.inputs)


AnySidecar = Sidecar | ReenactSidecar

_HASH = re.compile(r"sha256:[a-f0-9]{64}", re.IGNORECASE | re.ASCII)
_STRICT_HASH = re.compile(r"sha256:[a-f0-9]{64}")
_DIGEST = re.compile(r"[a-f0-9]{64}")
_KIND = re.compile(r"[a-z][a-z0-9-]{0,63}")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
_NOT_INSIDE = re.compile(r"(?:\A|/)\.{0,2}(?:/|\Z)|\A[A-Za-z]:|[\\\x00-\x1f\x7f-\x9f\u2028\u2029]")
_COMMIT = re.compile(r"[a-f0-9]{40}|[a-f0-9]{64}")
_INSTANT = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})T(?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]+)?)?Z")


def is_utc_instant(text: str) -> bool:
    """ISO 8601 in UTC with `Z`; seconds are optional, and the date is a real one."""
    match = _INSTANT.fullmatch(text)
    if not match:
        return False
    year, month, day = (int(part) for part in match.groups())
    if not 1 <= month <= 12:
        return False
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    length = (31, 29 if leap else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)[month - 1]
    return 1 <= day <= length


def is_path_inside_root(path: str) -> bool:
    """Relative to the root, with forward slashes, without empty, `.` and `..` parts or control characters."""
    return _NOT_INSIDE.search(path) is None


_invoked_at = shape.validated("datetime", is_utc_instant, "invoked_at must be an ISO-8601 datetime string.")
_filled = shape.string(filled=True)
_strings = shape.array(shape.string())
_whole = shape.number(integer=True)
_input = shape.closed({"path": _filled, "hash": shape.pattern(_HASH)})
_conditions = shape.closed({"requested": _strings, "effective": _strings})
_sampling = {
    "n": shape.number(integer=True, above_zero=True),
    "temperature": shape.nullable(shape.number()),
    "seed": shape.nullable(_whole),
}

V1_SHAPE = shape.closed(
    {
        "schema_version": shape.literal(1),
        "kind": shape.one_of(*KINDS),
        "ahd_version": _filled,
        "ahd_commit": shape.nullable(shape.string()),
        "git_dirty": shape.nullable(shape.boolean),
        "node_version": _filled,
        "platform": _filled,
        "invoked_at": _invoked_at,
        "argv": _strings,
        "token": _input,
        "brief": shape.nullable(_input),
        "sampling": shape.closed(_sampling),
        "models": shape.array(shape.closed({"id": _filled, "provider": _filled, "provider_request_ids": _strings})),
        "conditions": _conditions,
    },
    optional={"backfilled": shape.boolean},
)

_path_inside = shape.validated("path", is_path_inside_root, "must be a path inside the root, with forward slashes")
_request = shape.closed(
    {
        "id": _filled,
        "sample": shape.nullable(shape.at_least_zero),
        "condition": shape.nullable(shape.string()),
    }
)

OWN_SHAPE = shape.closed(
    {
        "schema": shape.literal(SCHEMA),
        "kind": shape.pattern(_KIND),
        "program": _filled,
        "version": _filled,
        "reenact_version": _filled,
        "commit": shape.nullable(shape.pattern(_COMMIT)),
        "dirty": shape.nullable(shape.boolean),
        "runtime": _filled,
        "platform": _filled,
        "invoked_at": _invoked_at,
        "argv": _strings,
        "inputs": shape.array(
            shape.closed(
                {
                    "name": shape.pattern(_NAME),
                    "path": _path_inside,
                    "hash": shape.pattern(_STRICT_HASH),
                    "mode": shape.one_of("structured", "raw"),
                }
            )
        ),
        "sampling": shape.closed({**_sampling, "seeds": shape.array(shape.nullable(_whole))}),
        "models": shape.array(shape.closed({"id": _filled, "provider": _filled, "requests": shape.array(_request)})),
        "conditions": _conditions,
        "run": shape.nullable(shape.closed({"run_id": _filled, "seal_digest": shape.pattern(_DIGEST)})),
    }
)


def parse_sidecar(text: str, unknown: Literal["refuse", "ignore"] = "refuse") -> AnySidecar:
    """The sidecar that `text` holds, read as JavaScript reads JSON.

    SidecarError names every field that is wrong, SidecarVersionError a version newer than ours. With
    `unknown="ignore"`, fields that the version does not know are left out, and named in `warnings`.
    """
    try:
        value = javascript.parse_json(text)
    except javascript.JsonSyntaxError as error:
        raise SidecarError(f"the sidecar is {error}") from None
    own = isinstance(value, dict) and "schema" in value and "schema_version" not in value
    findings = shape.Findings(ignore_unknown=unknown == "ignore")
    checked = (OWN_SHAPE if own else V1_SHAPE)(value, (), findings)
    if isinstance(value, dict):
        _refuse_newer(value, own=own, findings=findings)
    if own and not findings.issues:
        _check_own_consistency(checked, findings)
    _raise_for(findings)
    assert isinstance(checked, dict)
    warnings = tuple(f"unknown field {shape.path_text(path)} is ignored" for path in findings.ignored)
    kind: type[AnySidecar] = ReenactSidecar if own else Sidecar
    return msgspec.convert({**checked, "warnings": warnings}, kind)


def validate_sidecar(sidecar: AnySidecar) -> None:
    """Raise SidecarError unless the sidecar's bytes can be read back as the same sidecar."""
    again = parse_sidecar(serialize_sidecar(sidecar))
    if again != msgspec.structs.replace(sidecar, warnings=()):
        raise SidecarError("the sidecar does not read back as what was written")


def serialize_sidecar(sidecar: AnySidecar) -> str:
    """The bytes of the file as text: for schema_version 1 exactly what the original writes."""
    return javascript.pretty(sidecar_fields(sidecar)) + "\n"


def sidecar_fields(sidecar: AnySidecar) -> dict[str, object]:
    """The fields of the file, in its order."""
    fields: dict[str, object] = msgspec.to_builtins(sidecar)
    del fields["warnings"]
    first = "schema_version" if isinstance(sidecar, Sidecar) else "schema"
    if fields.get("backfilled", ...) is None:
        del fields["backfilled"]
    return {first: fields.pop(first), **fields}


def _refuse_newer(value: dict[str, javascript.Json], *, own: bool, findings: shape.Findings) -> None:
    issues = tuple(findings.issues)
    if own:
        schema = value["schema"]
        match = re.fullmatch(r"reenact\.replay\.v([1-9][0-9]{0,8})", schema) if isinstance(schema, str) else None
        if match and int(match.group(1)) > 1:
            message = f"the sidecar has schema {schema}, and this version reads up to {SCHEMA}: update reenact"
            raise SidecarVersionError(message, issues=issues)
        return
    version = value.get("schema_version")
    if isinstance(version, float) and version > 1:
        shown = javascript.number_text(version)
        message = f"the sidecar has schema_version {shown}, and this version reads up to 1: update reenact"
        raise SidecarVersionError(message, issues=issues)


def _check_own_consistency(checked: object, findings: shape.Findings) -> None:
    """What no single field can show."""
    assert isinstance(checked, dict)
    names = [one["name"] for one in checked["inputs"]]
    for index, name in enumerate(names):
        if name in names[:index]:
            findings.issues.append(_custom(f"input {name} is named twice", ("inputs", index, "name")))
    sampling = checked["sampling"]
    if sampling["seeds"] and len(sampling["seeds"]) != sampling["n"]:
        message = "must be empty or hold one seed for each of the n samples"
        findings.issues.append(_custom(message, ("sampling", "seeds")))
    if (checked["commit"] is None) != (checked["dirty"] is None):
        findings.issues.append(_custom("must be null exactly when commit is null", ("dirty",)))


def _custom(message: str, path: shape.Path) -> shape.Issue:
    return {"code": "custom", "message": message, "path": list(path)}


def _raise_for(findings: shape.Findings) -> None:
    if not findings.issues:
        return
    shown = []
    for issue in findings.issues:
        path = issue["path"]
        assert isinstance(path, list)
        text = f"{shape.path_text(tuple(path))}: {issue['message']}"
        shown.append(text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "…")
    more = f" (and {len(shown) - 3} more)" if len(shown) > 3 else ""
    message = "the sidecar is not valid: " + "; ".join(shown[:3]) + more
    raise SidecarError(_printable(message), issues=tuple(findings.issues))


def _printable(message: str) -> str:
    """The message on one line, without control characters that a hostile file may have put into its keys."""
    return "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in message)
