"""Capturing what a run consumes, and writing it beside its report.

    block = ReplayBlock.capture("eval-live", inputs={"token": "tokens/swiss.yml"}, root=root)
    …                                     # the run, which writes docs/report.md
    block.write("docs/report.md")         # docs/report.replay.json, and the block in the markdown

`reenact.provenance.capture.recording` does the same around a program, and collects seeds and request ids on the way.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple

import msgspec

from reenact.errors import HashingError, Undecidable, UsageError
from reenact.provenance.capture import environment
from reenact.provenance.hashing import hash_raw, hash_structured
from reenact.provenance.root import FOREIGN_PACKAGE, find_root
from reenact.provenance.safe_paths import FileRefused, components, read_beneath
from reenact.provenance.sidecar import sidecar as contract
from reenact.provenance.sidecar.atomic import write_atomically
from reenact.provenance.sidecar.block import insert_block
from reenact.provenance.sidecar.render import render_block
from reenact.provenance.sidecar.sidecar import (
    AnySidecar,
    Conditions,
    InputRef,
    Model,
    NamedInput,
    ReenactModel,
    ReenactSampling,
    ReenactSidecar,
    RunRef,
    Sampling,
    Sidecar,
    serialize_sidecar,
    sidecar_path,
    validate_sidecar,
)
from reenact.values.clock import Clock, SystemClock

STRUCTURED_SUFFIXES: Final = (".yml", ".yaml", ".json")
MAX_STRUCTURED_BYTES: Final = 8 << 20
_NO_RUN: Final = "schema_version 1 has no place for a run: use our own schema"


class CaptureError(UsageError):
    """What cannot be captured so that it verifies later."""

    code = "CAPTURE_IMPOSSIBLE"


class Input(NamedTuple):
    """An input by its path. Without a mode, YAML and JSON are hashed by value and anything else by its bytes."""

    path: str | os.PathLike[str]
    mode: Literal["structured", "raw"] | None = None


InputLike = str | os.PathLike[str] | Input


class ReplayBlock:
    """The provenance of one report. `sidecar` holds all of it; `warnings` what could not be found out."""

    def __init__(
        self, sidecar: AnySidecar, root: Path, warnings: tuple[str, ...] = (), *, root_was_given: bool = False
    ) -> None:
        self.sidecar = sidecar
        self.root = root
        self.root_was_given = root_was_given
        self.warnings = warnings

    @classmethod
    def capture(
        cls,
        kind: str,
        argv: Sequence[str] | None = None,
        inputs: Mapping[str, InputLike] | None = None,
        sampling: ReenactSampling | Sampling | None = None,
        models: Sequence[ReenactModel | Model] = (),
        conditions: Conditions | None = None,
        *,
        report: str | os.PathLike[str] | None = None,
        root: str | os.PathLike[str] | None = None,
        program: str | None = None,
        version: str | None = None,
        run: RunRef | None = None,
        schema_version: Literal[1] | None = None,
        clock: Clock | None = None,
    ) -> ReplayBlock:
        """Look at inputs, commit and machine now: call it before the run.

        Without `argv`, the command of this process. Without `root`, the root of the repository around the report,
        or around the working directory. `program` and `version` default to what the project's manifest says.
        With `schema_version=1` the sidecar is the original tool's: `kind` is one of its three, the inputs are
        `token` and maybe `brief`, and seeds of single samples are not kept.

        CaptureError, SidecarError or HashingError when what it records could not be verified afterwards.
        """
        place = Path(report) if report is not None else None
        top = Path(os.path.realpath(root)) if root is not None else find_root(place or Path("report.md"))
        outputs = _outputs(place)
        checkout = environment.checkout_of(top, outputs)
        named = _read_inputs(top, inputs or {}, outputs, must_be_structured=("token",) if schema_version else ())
        identity = _identity(top, program, version, foreign=schema_version is not None)
        facts = _Facts(
            kind=kind,
            argv=environment.command_line(top) if argv is None else tuple(argv),
            inputs=named,
            invoked_at=(clock or SystemClock()).timestamp(),
            checkout=checkout,
            identity=identity,
            conditions=conditions or Conditions(),
            run=run,
        )
        build = _original if schema_version else _own
        warnings = (checkout.problem,) if checkout.problem else ()
        block = cls(build(facts, sampling, models), top, warnings, root_was_given=root is not None)
        validate_sidecar(block.sidecar)
        return block

    def render(self) -> str:
        """The block as it stands in the markdown."""
        return render_block(self.sidecar)

    def write(self, report: str | os.PathLike[str]) -> Path:
        """Write the sidecar beside the report and put the block into the markdown, or bring it up to date there.

        Everything is checked before anything is written: that the sidecar is valid, that the inputs are still
        what was captured, that the report is there, and that the block can be read back from it.
        Returns the path of the sidecar.
        """
        validate_sidecar(self.sidecar)
        self._check_root(Path(report))
        self.check_inputs()
        text = self._with_block(Path(report))
        place = Path(sidecar_path(os.fspath(report)))
        try:
            write_atomically(place, serialize_sidecar(self.sidecar).encode())
            write_atomically(Path(report), text)
        except OSError as error:
            raise CaptureError(f"{place}: cannot be written: {error.strerror}") from None
        return place

    def check_inputs(self) -> None:
        """CaptureError when an input is no longer what was captured: then nobody can say which one the run read."""
        for one in self.sidecar.verifiable_inputs:
            data = _read_input(self.root, one.name, one.path)
            if one.hash not in _hashes(data, one.mode):
                raise CaptureError(f"input {one.name} changed while the run was going: run it again")

    def _check_root(self, report: Path) -> None:
        """Recorded paths are relative to the root, and a verifier finds it from where the report lies."""
        if not self.root_was_given and find_root(report) != self.root:
            raise CaptureError(f"{report} lies outside the root {self.root} of its inputs: name the root yourself")

    def _with_block(self, report: Path) -> bytes:
        try:
            markdown = report.read_bytes().decode("utf-8")
        except FileNotFoundError:
            raise CaptureError(f"{report}: no such report: write it first, then its block") from None
        except UnicodeDecodeError:
            raise CaptureError(f"{report}: not UTF-8: a block cannot be put into it") from None
        except OSError as error:
            raise CaptureError(f"{report}: cannot be read: {error.strerror}") from None
        try:
            return insert_block(markdown, self.render(), self.sidecar.kind).encode("utf-8")
        except UnicodeEncodeError:
            raise CaptureError("a recorded value is no text that UTF-8 can hold: use our own schema") from None


class _Facts(NamedTuple):
    kind: str
    argv: tuple[str, ...]
    inputs: tuple[NamedInput, ...]
    invoked_at: str
    checkout: environment.Checkout
    identity: environment.Manifest
    conditions: Conditions
    run: RunRef | None


def _own(
    facts: _Facts, sampling: ReenactSampling | Sampling | None, models: Sequence[ReenactModel | Model]
) -> ReenactSidecar:
    given = sampling or ReenactSampling(n=1)
    if isinstance(given, Sampling):
        given = ReenactSampling(given.n, given.temperature, given.seed)
    return ReenactSidecar(
        kind=facts.kind,
        program=facts.identity.name,
        version=facts.identity.version,
        reenact_version=environment.reenact_version(),
        commit=facts.checkout.commit,
        dirty=facts.checkout.dirty,
        runtime=environment.runtime_name(),
        platform=environment.platform_name(),
        invoked_at=facts.invoked_at,
        argv=facts.argv,
        inputs=facts.inputs,
        sampling=given,
        models=tuple(_own_model(model) for model in models),
        conditions=facts.conditions,
        run=facts.run,
    )


def _own_model(model: ReenactModel | Model) -> ReenactModel:
    if isinstance(model, ReenactModel):
        return model
    requests = tuple(contract.ProviderRequest(request) for request in model.provider_request_ids)
    return ReenactModel(model.id, model.provider, requests)


def _original(
    facts: _Facts, sampling: ReenactSampling | Sampling | None, models: Sequence[ReenactModel | Model]
) -> Sidecar:
    by_name = {one.name: InputRef(one.path, one.hash) for one in facts.inputs}
    if "token" not in by_name or not set(by_name) <= {"token", "brief"}:
        raise CaptureError("schema_version 1 has the input `token`, maybe `brief`, and no other")
    if facts.run is not None:
        raise CaptureError(_NO_RUN)
    given = sampling or Sampling(n=1)
    return Sidecar(
        kind=facts.kind,
        ahd_version=facts.identity.version,
        ahd_commit=facts.checkout.commit,
        git_dirty=facts.checkout.dirty,
        node_version=environment.runtime_name(),
        platform=environment.platform_name(),
        invoked_at=facts.invoked_at,
        argv=facts.argv,
        token=by_name["token"],
        brief=by_name.get("brief"),
        sampling=Sampling(given.n, given.temperature, given.seed),
        models=tuple(_original_model(model) for model in models),
        conditions=facts.conditions,
    )


def _original_model(model: ReenactModel | Model) -> Model:
    if isinstance(model, Model):
        return model
    return Model(model.id, model.provider, tuple(request.id for request in model.requests))


def _outputs(report: Path | None) -> tuple[Path, ...]:
    """The files that a capture writes, with their folders' links resolved."""
    if report is None:
        return ()
    folder = Path(os.path.realpath(report.parent))
    return folder / report.name, folder / Path(sidecar_path(report.name)).name


def _identity(root: Path, program: str | None, version: str | None, *, foreign: bool) -> environment.Manifest:
    """Name and version of what runs. One that contradicts the manifest would fail every later check."""
    manifests = environment.manifests_of(root)
    first = manifests[0].name if manifests else environment.UNKNOWN
    name = FOREIGN_PACKAGE if foreign else program or first
    manifest = next((one for one in manifests if one.name == name), None)
    if manifest is None:
        return environment.Manifest(name, version or environment.UNKNOWN)
    if version not in (None, manifest.version):
        raise CaptureError(f"version {version} is given, but the manifest of {name} says {manifest.version}")
    return manifest


def _read_inputs(
    root: Path, inputs: Mapping[str, InputLike], outputs: tuple[Path, ...], must_be_structured: tuple[str, ...]
) -> tuple[NamedInput, ...]:
    found = []
    for name, given in inputs.items():
        one = given if isinstance(given, Input) else Input(given)
        path = _relative(root, name, one.path)
        if root / path in outputs:
            raise CaptureError(f"input {name} is the report itself, which is written after it was read")
        data = _read_input(root, name, path)
        mode = one.mode or ("structured" if name in must_be_structured else None)
        found.append(_named_input(name, path, data, mode))
    return tuple(found)


def _relative(root: Path, name: str, path: str | os.PathLike[str]) -> str:
    """The path from the root; links on the way to it are resolved, one in its place is not."""
    given = Path(path)
    real = Path(os.path.realpath(given.parent)) / given.name
    if given.name in ("", "..") or not real.is_relative_to(root):
        raise CaptureError(f"input {name} lies outside the root {root}: nobody else could find it")
    return real.relative_to(root).as_posix()


def _read_input(root: Path, name: str, path: str) -> bytes:
    try:
        return read_beneath(root, components(path))
    except FileRefused as refused:
        raise CaptureError(f"input {name}: {refused}") from None


def _named_input(name: str, path: str, data: bytes, mode: Literal["structured", "raw"] | None) -> NamedInput:
    if mode is None and not path.lower().endswith(STRUCTURED_SUFFIXES):
        mode = "raw"
    if mode == "raw":
        return NamedInput(name, path, hash_raw(data), "raw")
    try:
        return NamedInput(name, path, _hash_structured(data), "structured")
    except HashingError:
        if mode == "structured":
            raise
        return NamedInput(name, path, hash_raw(data), "raw")


def _hash_structured(data: bytes) -> str:
    if len(data) > MAX_STRUCTURED_BYTES:
        raise Undecidable(f"a structured input may have at most {MAX_STRUCTURED_BYTES} bytes: hash it raw")
    return hash_structured(data)


def _hashes(data: bytes, mode: contract.Mode) -> tuple[str, ...]:
    if mode == "raw":
        return (hash_raw(data),)
    structured: tuple[str, ...] = ()
    with contextlib.suppress(HashingError):
        structured = (_hash_structured(data),)
    return structured if mode == "structured" else (hash_raw(data), *structured)


def with_results(
    block: ReplayBlock,
    *,
    models: Sequence[ReenactModel],
    sampling: ReenactSampling,
    conditions: Conditions,
    run: RunRef | None,
) -> ReplayBlock:
    """The block with what a run added to it. Its commit, inputs and time stay as they were captured."""
    if isinstance(block.sidecar, Sidecar):
        if run is not None:
            raise CaptureError(_NO_RUN)
        sidecar: AnySidecar = msgspec.structs.replace(
            block.sidecar,
            models=tuple(_original_model(model) for model in models),
            sampling=Sampling(sampling.n, sampling.temperature, sampling.seed),
            conditions=conditions,
        )
    else:
        sidecar = msgspec.structs.replace(
            block.sidecar,
            models=tuple(models),
            sampling=sampling,
            conditions=conditions,
            run=run or block.sidecar.run,
        )
    return ReplayBlock(sidecar, block.root, block.warnings, root_was_given=block.root_was_given)
