"""Provenance of published reports: which inputs a run read, and whether they are still the same.

`capture/` records what a program reads and writes it beside its report; `sidecar/` is that file and the block in the
markdown; `verify/` checks both against the work tree or git's history; `yaml/` is the YAML reader whose values are
hashed. In come reports, sidecars and input files, out come sidecars and verdicts. It needs no store and no runtime.
Begin with `verify/verify.py`, or with `capture/recording.py` for the writing side.
"""

from __future__ import annotations

from reenact.errors import HashingError, SidecarError, SidecarVersionError, Undecidable, Unparseable
from reenact.provenance.capture.capture import CaptureError, Input, ReplayBlock
from reenact.provenance.capture.recording import Recording, record_report
from reenact.provenance.capture.request_ids import request_id_from_headers
from reenact.provenance.hashing import hash_raw, hash_structured, hash_structured_with_warnings
from reenact.provenance.sidecar.block import BlockDifference, ParsedBlock, compare_block, insert_block, parse_block
from reenact.provenance.sidecar.render import render_block
from reenact.provenance.sidecar.sidecar import (
    Conditions,
    Model,
    ProviderRequest,
    ReenactModel,
    ReenactSampling,
    ReenactSidecar,
    RunRef,
    Sampling,
    Sidecar,
    parse_sidecar,
    serialize_sidecar,
    sidecar_path,
)

__all__ = [
    "BlockDifference",
    "CaptureError",
    "Conditions",
    "HashingError",
    "Input",
    "Model",
    "ParsedBlock",
    "ProviderRequest",
    "Recording",
    "ReenactModel",
    "ReenactSampling",
    "ReenactSidecar",
    "ReplayBlock",
    "RunRef",
    "Sampling",
    "Sidecar",
    "SidecarError",
    "SidecarVersionError",
    "Undecidable",
    "Unparseable",
    "compare_block",
    "hash_raw",
    "hash_structured",
    "hash_structured_with_warnings",
    "insert_block",
    "parse_block",
    "parse_sidecar",
    "record_report",
    "render_block",
    "request_id_from_headers",
    "serialize_sidecar",
    "sidecar_path",
]
