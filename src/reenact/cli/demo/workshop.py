"""What the demo works with: a temporary folder, the service, and commands in processes of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from urllib.request import ProxyHandler, build_opener

import msgspec

from reenact.cli.demo.plan import demo_plan
from reenact.errors import StoreUnavailable
from reenact.record.document import read_document
from reenact.record.document_shape import RunDocument
from reenact.store.base import RunRow
from reenact.store.checks.verification import verify_run
from reenact.store.open import open_store

SKILLS = "reenact.cli.demo.skills"
COMMAND_LIMIT_S = 60


@dataclass(frozen=True, slots=True)
class Ran:
    """A command that has ended."""

    shown: str
    code: int
    output: str


class Workshop:
    """A folder with a store and a plan, and the service that the plan uses. Leaves nothing behind unless kept."""

    def __init__(self, keep: Path | None) -> None:
        self.keep = keep
        self.folder = Path(tempfile.mkdtemp(prefix="reenact-demo-")) if keep is None else prepared(keep)
        self.store = self.folder / "demo.db"
        self.plan = self.folder / "plan.json"
        self._service: subprocess.Popen[str] | None = None
        self.port = 0

    def __enter__(self) -> Workshop:
        try:
            self._service = subprocess.Popen(
                [sys.executable, "-m", "reenact.cli.demo.service"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            assert self._service.stdout is not None
            self.port = int(self._service.stdout.readline())
            self.plan.write_bytes(msgspec.json.format(msgspec.json.encode(demo_plan(self.port)), indent=2) + b"\n")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._service is not None:
            assert self._service.stdin is not None
            self._service.stdin.close()  # which ends it
            self._service.wait(timeout=COMMAND_LIMIT_S)
        if self.keep is None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def ledger(self) -> dict[str, int]:
        """What the service says it did."""
        opener = build_opener(ProxyHandler({}))  # loopback needs no proxy, whatever the environment says
        with opener.open(f"http://127.0.0.1:{self.port}/ledger", timeout=10) as answer:
            counts: dict[str, int] = msgspec.json.decode(answer.read())
        return counts

    # -- what the journal says -------------------------------------------------------------------------------------

    def runs(self) -> list[RunRow]:
        store = open_store(self.store)
        try:
            return store.runs()
        finally:
            store.close()

    def document(self) -> RunDocument:
        store = open_store(self.store)
        try:
            return read_document(store, "last")
        finally:
            store.close()

    def verify_store(self) -> int:
        """The exit code of verifying the newest run where it lies."""
        return verify_run(str(self.store), "last").exit_code

    # -- commands --------------------------------------------------------------------------------------------------

    def reenact(self, *arguments: str, crash_at: str | None = None) -> Ran:
        """A `reenact` command in the folder, in a process of its own."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("REENACT_")}
        environment |= {"REENACT_STORE": str(self.store), "NO_COLOR": "1", "PYTHONUNBUFFERED": "1"}
        if crash_at is not None:
            environment["REENACT_CRASH_AT"] = crash_at
        done = subprocess.run(  # noqa: S603  # this interpreter, with arguments of the demo's own
            [sys.executable, "-m", "reenact", *arguments],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=COMMAND_LIMIT_S,
            check=False,
        )
        return Ran("reenact " + " ".join(arguments), done.returncode, done.stdout)


def prepared(folder: Path) -> Path:
    """The folder to keep everything in: new, or empty."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise StoreUnavailable(f"{folder} is not empty; name a new or empty folder with --keep")
    except OSError as error:
        raise StoreUnavailable(f"{folder}: {error.strerror}") from None
    return folder.resolve()
