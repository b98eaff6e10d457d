"""`record_report`: a context manager around any program that produces a report.

    with record_report("docs/report.md", "eval-live", inputs={"token": "tokens/swiss.yml"},
                       sampling=ReenactSampling(n=30), models=[ReenactModel("m", "anthropic")]) as recording:
        recording.seed(0, 1)
        response = client.post(…)
        recording.request("m", response.headers, sample=0, condition="raw")
        Path("docs/report.md").write_text(…)

Commit, dirtiness and inputs are those from before the block; the sidecar is written after it, unless it raised.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, Protocol, runtime_checkable

import msgspec

from reenact.contracts.records import Seal
from reenact.provenance.capture.capture import CaptureError, InputLike, ReplayBlock, with_results
from reenact.provenance.capture.request_ids import request_id_from_headers
from reenact.provenance.sidecar.sidecar import Conditions, ProviderRequest, ReenactModel, ReenactSampling, RunRef
from reenact.values.clock import Clock

Headers = Mapping[str, str] | Iterable[tuple[str, str]]


class _Bodies(Protocol):
    def bodies(self, run_id: str) -> Iterator[bytes]: ...


class RecordedRun(Protocol):
    """A run of a store, such as the result that a runtime returns."""

    @property
    def run_id(self) -> str: ...
    @property
    def store(self) -> _Bodies: ...


class ModelCall(Protocol):
    """A model's answer as a journal has it."""

    @property
    def step_id(self) -> str: ...
    @property
    def provider(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def request_id(self) -> str | None: ...
    @property
    def seed(self) -> int | None: ...


@runtime_checkable
class KnowsModelCalls(Protocol):
    """A recorded run that can tell which models answered."""

    def model_calls(self) -> Iterable[ModelCall]: ...


Place = tuple[int | None, str | None]
"""The sample that a call is of, and its condition."""


class Recording:
    """What a run adds to its replay block while it goes."""

    def __init__(self, block: ReplayBlock, sampling: ReenactSampling, models: Sequence[ReenactModel]) -> None:
        self.block = block
        self._sampling = sampling
        self._seeds: dict[int, int | None] = {
            sample: seed for sample, seed in enumerate(sampling.seeds) if seed is not None
        }
        self._models = {model.id: model for model in models}
        self._requests: dict[str, list[ProviderRequest]] = {model.id: list(model.requests) for model in models}
        self._effective: dict[str, None] = {}
        self._run: RunRef | None = None

    def seed(self, sample: int, seed: int) -> None:
        """Keep the seed of one sample; samples count from 0."""
        self._check_sample(sample)
        self._seeds[sample] = seed

    def request(
        self, model: str, request: str | Headers, *, sample: int | None = None, condition: str | None = None
    ) -> str | None:
        """Keep the id of one successful provider call, given as such or by the response's headers.

        Returns the id; None when no header holds one, and then nothing is kept.
        """
        if model not in self._requests:
            raise CaptureError(f"model {model} is none of the models of this recording")
        if sample is not None:
            self._check_sample(sample)
        if condition is not None:
            self.effective(condition)
        found = request if isinstance(request, str) else request_id_from_headers(request)
        if not found:
            return None
        self._requests[model].append(ProviderRequest(found, sample, condition))
        return found

    def effective(self, condition: str) -> None:
        """Note that a condition really ran. Without any such note, all that were requested count as run."""
        self._effective[condition] = None

    def tie_to(self, run: Seal | RecordedRun, place: Callable[[ModelCall], Place] | None = None) -> RunRef | None:
        """Tie the report to a recorded run by the digest of its seal. None when the run is not sealed yet.

        Of a run, the models that answered it and the ids of their answers are taken along; `place` says which sample
        and condition a call is of, whose seed is then that of the call.
        """
        found = _seal_of(run)
        if found is not None and isinstance(run, KnowsModelCalls):
            noted = {(model, one.id) for model, requests in self._requests.items() for one in requests}
            for call in run.model_calls():
                self._take(call, (None, None) if place is None else place(call), noted)
        self._run = found or self._run
        return found

    def _take(self, call: ModelCall, place: Place, noted: set[tuple[str, str]]) -> None:
        """A call of the journal; one whose id was noted before stays as it was noted."""
        sample, condition = place
        model = call.model or "unknown"
        if model not in self._models:
            self._models[model] = ReenactModel(model, call.provider or "unknown")
            self._requests[model] = []
        if sample is not None and call.seed is not None:
            self.seed(sample, call.seed)
        if condition is not None:
            self.effective(condition)
        if call.request_id and (model, call.request_id) not in noted:
            self.request(model, call.request_id, sample=sample, condition=condition)

    def result(self) -> ReplayBlock:
        """The block with all that was noted so far."""
        conditions = self.block.sidecar.conditions
        if self._effective:
            conditions = Conditions(conditions.requested, tuple(self._effective))
        seeds = tuple(self._seeds.get(sample) for sample in range(self._sampling.n)) if self._seeds else ()
        models = [
            ReenactModel(model.id, model.provider, tuple(self._requests[model.id])) for model in self._models.values()
        ]
        sampling = msgspec.structs.replace(self._sampling, seeds=seeds)
        return with_results(self.block, models=models, sampling=sampling, conditions=conditions, run=self._run)

    def _check_sample(self, sample: int) -> None:
        if not 0 <= sample < self._sampling.n:
            raise CaptureError(f"sample {sample} is none of the {self._sampling.n} samples: they count from 0")


@contextlib.contextmanager
def record_report(
    report: str | os.PathLike[str],
    kind: str,
    argv: Sequence[str] | None = None,
    inputs: Mapping[str, InputLike] | None = None,
    sampling: ReenactSampling | None = None,
    models: Sequence[ReenactModel] = (),
    conditions: Conditions | None = None,
    *,
    root: str | os.PathLike[str] | None = None,
    program: str | None = None,
    version: str | None = None,
    schema_version: Literal[1] | None = None,
    clock: Clock | None = None,
) -> Iterator[Recording]:
    """Capture before the block runs, and write sidecar and markdown block when it has ended without an exception.

    The arguments are those of `ReplayBlock.capture`; conditions need only say what is requested.
    """
    if len({model.id for model in models}) != len(models):
        raise CaptureError("two models of this recording have the same id")
    given = sampling or ReenactSampling(n=1)
    asked = conditions or Conditions()
    block = ReplayBlock.capture(
        kind,
        argv,
        inputs,
        given,
        models,
        Conditions(asked.requested, asked.effective or asked.requested),
        report=report,
        root=root,
        program=program,
        version=version,
        schema_version=schema_version,
        clock=clock,
    )
    recording = Recording(block, given, models)
    yield recording
    recording.result().write(report)


def _seal_of(run: Seal | RecordedRun) -> RunRef | None:
    if isinstance(run, Seal):
        return RunRef(run.run_id, run.seal_digest) if isinstance(run.seal_digest, str) else None
    last = b""
    for body in run.store.bodies(run.run_id):
        last = body
    lines = last.splitlines()
    line = msgspec.json.decode(lines[-1]) if lines else {}
    seal = line.get("seal") if isinstance(line, dict) else None
    if not isinstance(seal, dict) or not isinstance(seal.get("seal_digest"), str):
        return None
    return RunRef(run.run_id, seal["seal_digest"])
