"""The run behind a report: the evidence of it must hold, and end in the seal that the sidecar names.

It lies in the bundle beside the report, also zipped, or in a store. The ids of the models' answers must stand in it,
and the numbers of an evaluation come from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from reenact.errors import ReenactError, RunNotFound
from reenact.evals.numbers import Numbers
from reenact.provenance.sidecar.paths import bundle_path
from reenact.provenance.sidecar.sidecar import ReenactSidecar, RunRef
from reenact.provenance.verify.model import Check, Status
from reenact.provenance.verify.verify import Subject
from reenact.record.bundle import commit_bodies
from reenact.record.export import export_evidence
from reenact.store.checks.verification import verify_evidence
from reenact.store.evidence import Evidence, find_run
from reenact.store.naming import part, read_lines
from reenact.verify.files.zipped import files_at
from reenact.verify.report import Report
from reenact.verify.verifier import verify_files

FIELD = "run"


class SealedRuns:
    """For `verify_reports(…, runs=SealedRuns())`. With a store, the run must be there too."""

    def __init__(self, store: Evidence | None = None) -> None:
        self._store = store

    def __call__(self, subject: Subject) -> list[Check]:
        """What is to be said of the run of a report; nothing where it names none, and none lies beside it."""
        sidecar, bundle = subject.sidecar, Path(bundle_path(subject.report))
        places = [each for each in (bundle, Path(f"{bundle}.zip")) if each.is_symlink() or each.exists()]
        if not isinstance(sidecar, ReenactSidecar) or sidecar.run is None:
            detail = "the sidecar names no run, and {} lies beside the report"
            return [Check(FIELD, Status.DIFFERS, detail.format(each.name)) for each in places]
        checks, numbers = [], Numbers(subject)
        for there in places:
            if there.is_symlink():
                checks.append(Check(FIELD, Status.REFUSED, f"{there.name} is a link, and is not followed"))
            else:
                checks.append(in_bundle(there, sidecar, sidecar.run, numbers))
        if self._store is not None:
            checks.append(in_store(self._store, sidecar, sidecar.run, numbers))
        if not checks:
            detail = f"no {bundle.name} beside the report; --store names the store that has run {sidecar.run.run_id}"
            checks.append(Check(FIELD, Status.NOT_CHECKED, detail))
        return [*checks, *numbers.checks()]


def in_bundle(bundle: Path, sidecar: ReenactSidecar, run: RunRef, numbers: Numbers) -> Check:
    try:
        with closing(files_at(bundle)) as files:
            report = verify_files(files)
            found = held_against(report, run, bundle.name)
            if found is None and numbers.wants(commit_bodies(files)):
                numbers.take(files, report, bundle.name)
            return found or requests_in(commit_bodies(files), sidecar, bundle.name)
    except ReenactError as error:
        return Check(FIELD, Status.REFUSED, f"{bundle.name}: {error}")


def in_store(store: Evidence, sidecar: ReenactSidecar, run: RunRef, numbers: Numbers) -> Check:
    where = "the store"
    try:
        verified = verify_evidence(store, run.run_id)
        found = held_against(verified.report, run, where)
        if found is None and verified.differences:
            first = verified.differences[0]
            found = Check(FIELD, Status.INCONSISTENT, f"{where}: {first.table}, {first.row}: {first.what}")
        if found is None and numbers.wants(stored_bodies(store, run.run_id)):
            with TemporaryDirectory() as folder:
                export_evidence(store, run.run_id, Path(folder, "bundle"))
                with closing(files_at(Path(folder, "bundle"))) as files:
                    numbers.take(files, verify_files(files), where)
        return found or requests_in(stored_bodies(store, run.run_id), sidecar, where)
    except RunNotFound:
        return Check(FIELD, Status.MISSING, f"{where} has no run {run.run_id}")
    except ReenactError as error:
        return Check(FIELD, Status.REFUSED, f"{where}: {error}")


def held_against(report: Report, run: RunRef, where: str) -> Check | None:
    """What keeps the evidence from being that of the run; None where nothing does."""
    if report.first_break is not None:
        first = report.first_break
        return Check(FIELD, Status.INCONSISTENT, f"{where} does not verify: {first.code}: {first.what}")
    if report.seal_digest is None:
        return Check(FIELD, Status.INCONSISTENT, f"{where}: the run has no seal")
    if report.run_id != run.run_id:
        detail = f"{where} holds another run"
        return Check(FIELD, Status.DIFFERS, detail, expected=run.run_id, actual=report.run_id)
    if report.seal_digest != run.seal_digest:
        detail = f"{where} holds a run with another seal"
        return Check(FIELD, Status.DIFFERS, detail, expected=run.seal_digest, actual=report.seal_digest)
    return None


def requests_in(bodies: Iterable[bytes], sidecar: ReenactSidecar, where: str) -> Check:
    """The ids of answers that the sidecar names are ids of attempts in the journal."""
    known = set(request_ids(bodies))
    for model in sidecar.models:
        for request in model.requests:
            if request.id not in known:
                detail = f"{where}: the run has no request {request.id} of {model.id}"
                return Check(FIELD, Status.DIFFERS, detail)
    return Check(FIELD, Status.OK, f"{where} verifies, and ends in the seal that is named")


def request_ids(bodies: Iterable[bytes]) -> Iterator[str]:
    for body in bodies:
        for line in read_lines(body):
            named = part(line, "attempt").get("request_id")
            if isinstance(named, str):
                yield named


def stored_bodies(store: Evidence, run_id: str) -> Iterator[bytes]:
    run, _ = find_run(store, run_id)
    for row in run.commits():
        if row.body is not None:
            yield row.body
