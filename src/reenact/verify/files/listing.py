"""What lies in a bundle against what its manifest names: step 8, and what a manifest may name at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from reenact.verify.files.litter import is_litter
from reenact.verify.files.packed import MAX_FILES, PackedPayloads, file_name
from reenact.verify.files.zipped import ZippedFolder
from reenact.verify.folder import PAYLOADS, Folder, FolderPayloads, not_plain
from reenact.verify.journal import GIVE_UP_AFTER
from reenact.verify.lines import fit
from reenact.verify.payloads import PayloadCheck
from reenact.verify.report import Findings, Problem, Where, shown
from reenact.verify.shapes import Hex64, Manifest
from reenact.verify.views import RECEIPT, REPLAY

Files = Folder | ZippedFolder
Payloads = FolderPayloads | PackedPayloads

VALUED: Final = ("plan.json", REPLAY, RECEIPT)
_MAX_VIEW_BYTES: Final = 1 << 36  # of REPLAY.jsonl, which is read as a stream
_SHOWN_NAMES: Final = 5


def packed_names(manifest: Manifest) -> list[str]:
    """The files of packed payloads that a manifest names, in their order."""
    return [name for number in range(1, MAX_FILES + 1) if (name := file_name(number)) in manifest.files]


def payloads_in(files: Files, manifest: Manifest | None, findings: Findings) -> Payloads | None:
    """Where a bundle's envelopes come from; None where they were left out."""
    if manifest is not None and manifest.payloads == "none":
        return None
    if manifest is None or manifest.schema == "reenact.bundle.v1":
        return FolderPayloads(files, findings)
    return PackedPayloads(files, packed_names(manifest), findings)


def contradictions(manifest: Manifest) -> Iterator[Problem]:
    """What a well-formed manifest must not say."""
    valued = [name for name in manifest.files if name in VALUED or name.startswith(PAYLOADS)]
    if manifest.payloads == "none" and valued:
        what = "payloads are said to be left out, and files with values are named"
        yield Problem("MANIFEST_MALFORMED", what, None, valued[0])
    packed = [name for name in manifest.files if name.startswith(PAYLOADS) and name.endswith(".gz")]
    single = [name for name in manifest.files if name.startswith(f"{PAYLOADS}/")]
    others = packed if manifest.schema == "reenact.bundle.v1" else single
    if others:
        what = f"a bundle of {manifest.schema} keeps its payloads elsewhere"
        yield Problem("MANIFEST_MALFORMED", what, None, others[0])
    expected = {file_name(number) for number in range(1, len(packed) + 1)}
    if set(packed) != expected or len(packed) > MAX_FILES:
        what = f"files of packed payloads are numbered from 1 to at most {MAX_FILES}, without a gap"
        yield Problem("MANIFEST_MALFORMED", what, None, max(set(packed) - expected, default=None))


@dataclass(frozen=True, slots=True)
class Listing:
    """The files that are there, held against those that the manifest names."""

    folder: Files
    findings: Findings
    named: Mapping[str, str] | None
    """With their digests; None where there is no manifest."""
    digests: Mapping[str, str]
    """Of files that were read whole."""
    unread: Set[str]
    """Of which something was told already."""
    payloads: PayloadCheck

    def check(self) -> None:
        missing = dict(self.named or {})
        litter = self.folder.beside()
        for name, is_file in self.folder.names():
            if self.findings.total > GIVE_UP_AFTER:
                self.findings.note("the folder was not read to its end")
                return
            if name == "manifest.json":
                continue
            if missing.pop(name, None) is None and is_litter(name):
                litter.append(name)
                continue
            problem = self._problem(name, is_file=is_file)
            if problem is not None:
                self.findings.add(problem, Where(file=shown(name)))
        for name in sorted(missing):
            problem = Problem("FILE_MISSING", f"{name} is named by the manifest and not there")
            self.findings.add(problem, Where(file=name))
        if litter:
            self.findings.note(not_part(litter))

    def check_packed(self, packed: PackedPayloads) -> None:
        """Of payloads that lie in one file nobody else sees that one is too many."""
        for commitment in packed.commitments:
            if self.findings.total > GIVE_UP_AFTER:
                return
            if not self.payloads.names(commitment):
                problem = Problem("FILE_EXTRA", f"payload {commitment} is none that the journal names")
                self.findings.add(problem, Where(file=PAYLOADS, payload=commitment))

    def _problem(self, name: str, *, is_file: bool) -> Problem | None:
        if not is_file:
            return not_plain(name)
        if self.named is not None and name not in self.named:
            return Problem("FILE_EXTRA", f"{name} is not part of the evidence: the manifest does not name it")
        folder, _, commitment = name.rpartition("/")
        if folder == PAYLOADS:
            if isinstance(fit(commitment, Hex64, "FILE_EXTRA"), Problem) or not self.payloads.names(commitment):
                return Problem("FILE_EXTRA", f"{name} is a payload that the journal does not name")
            got: str | None = commitment  # its bytes were held against its name when the journal named it
        elif name in self.unread:
            return None
        else:
            got = self.digests.get(name) or self._view_digest(name)
        said = None if self.named is None else self.named.get(name)
        if said is not None and got is not None and said != got:
            return Problem("FILE_CHANGED", f"the digest of {name}", said, got)
        return None

    def _view_digest(self, name: str) -> str | None:
        """The digest of a file that nothing above has read."""
        whole = sha256()
        fed = self.folder.feed(name, whole.update, _MAX_VIEW_BYTES)
        if isinstance(fed, Problem):
            self.findings.add(fed, Where(file=name))
        return whole.hexdigest() if fed is True else None


def not_part(names: list[str]) -> str:
    """`not part of the evidence: .DS_Store, Thumbs.db`."""
    told = ", ".join(shown(name) for name in sorted(names)[:_SHOWN_NAMES])
    more = len(names) - _SHOWN_NAMES
    return f"not part of the evidence: {told}" + (f", and {more} more" if more > 0 else "")
