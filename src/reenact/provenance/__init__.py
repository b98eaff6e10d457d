"""Facts that convince strangers: what a report's run consumed, and whether the inputs are still those."""

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
