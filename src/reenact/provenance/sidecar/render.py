"""The replay block in a report's markdown: a view derived from the sidecar, for people.

A schema_version 1 block is byte for byte what the original tool writes. Its values are not quoted, so it is
read by line (`reenact.provenance.sidecar.block`), never as YAML. Our own block quotes what needs it: it is valid YAML.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from reenact.provenance.sidecar.sidecar import AnySidecar, ReenactSidecar, Sidecar
from reenact.provenance.yaml import javascript

_BARE_ARGUMENT = re.compile(r"[A-Za-z0-9_./:@=,+-]+")
_SHOWN_HEX = 12
_HASH_PREFIX = len("sha256:")


def render_block(sidecar: AnySidecar) -> str:
    """The block for a sidecar: a fenced list of fields and a fenced command, without a final newline."""
    if isinstance(sidecar, Sidecar):
        return _fenced("yaml ahd-replay", _v1_lines(sidecar)) + _command(_v1_setup(sidecar), sidecar.argv)
    return _fenced("yaml reenact-replay", _own_lines(sidecar)) + _own_command(sidecar)


def _fenced(info: str, lines: Iterable[str]) -> str:
    return "\n".join([f"```{info}", *lines, "```"])


def _command(setup: list[str], argv: Iterable[str]) -> str:
    line = " ".join(shell_quote(argument) for argument in argv)
    return "\n\nReplay this run:\n\n" + _fenced("sh", [*setup, line])


def shell_quote(argument: str) -> str:
    """Bare where no shell would read more into it, else in single quotes."""
    if _BARE_ARGUMENT.fullmatch(argument):
        return argument
    return "'" + argument.replace("'", "'\\''") + "'"


def _cut(digest: str) -> str:
    """A hash as people are shown it: its prefix and twelve digits."""
    return digest[: _HASH_PREFIX + _SHOWN_HEX]


def _optional(value: float | None) -> str:
    return "null" if value is None else javascript.number_text(value)


def _v1_lines(sidecar: Sidecar) -> list[str]:
    commit = "null" if sidecar.ahd_commit is None else sidecar.ahd_commit
    lines = [
        "schema_version: 1",
        f"kind: {sidecar.kind}",
        f"ahd_version: {sidecar.ahd_version}",
        f"ahd_commit: {commit}",
    ]
    if sidecar.git_dirty:
        lines.append("git_dirty: true")
    lines += [
        f"node_version: {sidecar.node_version}",
        f"platform: {sidecar.platform}",
        f"invoked_at: {sidecar.invoked_at}",
        "token:",
        f"  path: {sidecar.token.path}",
        f"  hash: {_cut(sidecar.token.hash)}",
    ]
    if sidecar.brief is not None:
        lines += ["brief:", f"  path: {sidecar.brief.path}", f"  hash: {_cut(sidecar.brief.hash)}"]
    sampling = sidecar.sampling
    lines += [
        "sampling:",
        f"  n: {javascript.number_text(sampling.n)}",
        f"  temperature: {_optional(sampling.temperature)}",
        f"  seed: {_optional(sampling.seed)}",
        "models:",
    ]
    for model in sidecar.models:
        lines += [
            f"  - id: {model.id}",
            f"    provider: {model.provider}",
            f"    provider_request_ids: {len(model.provider_request_ids)} captured",
        ]
    lines += [
        "conditions:",
        f"  requested: [{', '.join(sidecar.conditions.requested)}]",
        f"  effective: [{', '.join(sidecar.conditions.effective)}]",
    ]
    return lines


def _v1_setup(sidecar: Sidecar) -> list[str]:
    if sidecar.ahd_commit:
        return [f"git checkout {sidecar.ahd_commit[:_SHOWN_HEX]}", "npm ci && npm run build"]
    return [f"# install ahd@{sidecar.ahd_version}"]


# What a YAML reader takes as this very string: no indicator in front, nothing that reads as another type.
_PLAIN = re.compile(r"[A-Za-z/_][A-Za-z0-9_./@+-]*(?:[ :][A-Za-z0-9_./@+-]+)*")
_INSTANT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z")
_NOT_STRINGS = re.compile(r"null|true|false|yes|no|on|off|y|n", re.IGNORECASE)


def _text(value: str) -> str:
    """A string as our own block shows it: plain where that is safe, else quoted, always on one line."""
    if (_PLAIN.fullmatch(value) and not _NOT_STRINGS.fullmatch(value)) or _INSTANT.fullmatch(value):
        return value
    return _one_line_quoted(value)


def _one_line_quoted(value: str) -> str:
    quoted = javascript.quote(value)
    return "".join(char if char.isprintable() else _unicode_escape(char) for char in quoted)


def _unicode_escape(char: str) -> str:
    code = ord(char)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _listed(values: Iterable[str]) -> str:
    return "[" + ", ".join(_text(value) for value in values) + "]"


def _own_lines(sidecar: ReenactSidecar) -> list[str]:
    lines = [
        f"schema: {sidecar.schema}",
        f"kind: {_text(sidecar.kind)}",
        f"program: {_text(sidecar.program)}",
        f"version: {_one_line_quoted(sidecar.version)}",
        f"reenact_version: {_one_line_quoted(sidecar.reenact_version)}",
        f"commit: {'null' if sidecar.commit is None else _one_line_quoted(sidecar.commit)}",
        f"dirty: {'null' if sidecar.dirty is None else str(sidecar.dirty).lower()}",
        f"runtime: {_text(sidecar.runtime)}",
        f"platform: {_text(sidecar.platform)}",
        f"invoked_at: {_text(sidecar.invoked_at)}",
        "inputs:" if sidecar.inputs else "inputs: []",
    ]
    for one in sidecar.inputs:
        lines += [
            f"  - name: {_text(one.name)}",
            f"    path: {_text(one.path)}",
            f"    hash: {_cut(one.hash)}",
            f"    mode: {one.mode}",
        ]
    sampling = sidecar.sampling
    lines += [
        "sampling:",
        f"  n: {javascript.number_text(sampling.n)}",
        f"  temperature: {_optional(sampling.temperature)}",
        f"  seed: {_optional(sampling.seed)}",
        f"  seeds: {sum(seed is not None for seed in sampling.seeds)} kept",
        "models:" if sidecar.models else "models: []",
    ]
    for model in sidecar.models:
        lines += [
            f"  - id: {_text(model.id)}",
            f"    provider: {_text(model.provider)}",
            f"    requests: {len(model.requests)} captured",
        ]
    lines += [
        "conditions:",
        f"  requested: {_listed(sidecar.conditions.requested)}",
        f"  effective: {_listed(sidecar.conditions.effective)}",
    ]
    if sidecar.run is not None:
        lines += ["run:", f"  run_id: {_text(sidecar.run.run_id)}", f"  seal: {sidecar.run.seal_digest}"]
    return lines


def _own_command(sidecar: ReenactSidecar) -> str:
    if not sidecar.argv:
        return ""
    setup = [f"git checkout {sidecar.commit}"] if sidecar.commit else []
    line = " ".join(_one_line_shell_quote(argument) for argument in sidecar.argv)
    return "\n\nReplay this run:\n\n" + _fenced("sh", [*setup, line])


def _one_line_shell_quote(argument: str) -> str:
    r"""Like `shell_quote`, but an argument with line breaks or control characters is written as `$'…\n…'`."""
    if argument.isprintable():
        return shell_quote(argument)
    parts = []
    for char in argument:
        if char in "\\'":
            parts.append("\\" + char)
        elif char.isprintable():
            parts.append(char)
        else:
            parts.append("".join(f"\\x{byte:02x}" for byte in char.encode("utf-8", "surrogateescape")))
    return "$'" + "".join(parts) + "'"
