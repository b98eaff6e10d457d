"""A shadow of live runs: a candidate decides each call once more as it ends, in a thread of its own.

The run never waits for it: what it hears is put into a queue, and what goes wrong with it is told and changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from reenact.errors import ReenactError, UsageError
from reenact.record.recording import load_recording
from reenact.replay.compare.counterfactual import CallRow, Counterfactual, as_document
from reenact.replay.shadow.candidate import Wanted, candidate_of
from reenact.replay.shadow.following import Following
from reenact.replay.shadow.shadow import shadow
from reenact.runtime.engine import Engine
from reenact.runtime.listeners import Notice

log = logging.getLogger("reenact.shadow")
MOST_WAITING: Final = 1_000
CLOSE_S: Final = 10.0
OnReport = Callable[[str, Counterfactual], None]
OnCall = Callable[[str, CallRow], None]
OnFailure = Callable[[str, BaseException], None]
MOST_FOLLOWED: Final = 100
"""Runs whose calls are decided as they come; of more at once the report comes when they end."""


class Shadow:
    """For `Runtime(shadow=Shadow("stricter.toml", to="shadows"))`; what a candidate is, `reenact shadow --with` says.

    Each call of a live run is decided by the candidate as soon as it has ended, and handed to `on_call` with the run's
    id. Of each run that ends, the report is written to the folder `to` as `RUN.json`, and handed to `on_report`: all in
    a thread of the shadow's own. What fails is logged, counted in `failures`, and told to `on_failure`.
    """

    def __init__(
        self,
        *files: str | Path,
        sets: Mapping[str, object] | None = None,
        model: str | None = None,
        to: str | Path | None = None,
        on_report: OnReport | None = None,
        on_call: OnCall | None = None,
        on_failure: OnFailure | None = None,
    ) -> None:
        if to is None and on_report is None and on_call is None:
            raise UsageError("a shadow reports to a folder, to=…, or to a function, on_report=… or on_call=…")
        self._wanted = Wanted(tuple(Path(file) for file in files), dict(sets or {}), model)
        self._to = None if to is None else Path(to)
        self._on_report, self._on_call, self._on_failure = on_report, on_call, on_failure
        self._runs: queue.Queue[tuple[str, bool] | None] = queue.Queue(MOST_WAITING)
        self._waiting: set[str] = set()
        """Runs of which a call has ended and nobody has looked yet."""
        self._followed: dict[str, Following | None] = {}
        """None for one that is not followed: its report comes when it ends."""
        self._thread: threading.Thread | None = None
        self._engine: Engine | None = None
        self.reports = self.failures = 0

    def attach(self, engine: Engine) -> Shadow:
        """Listen to the runs of an engine. One shadow belongs to one runtime."""
        if self._engine is not None:
            raise UsageError("this shadow belongs to another runtime already; make one for each")
        self._engine = engine
        return self

    def __call__(self, notice: Notice) -> None:
        is_over = notice.kind == "run_ended"
        if notice.mode != "live" or not (is_over or notice.kind == "step_ended"):
            return
        if not is_over and (notice.run_id in self._waiting or self._runs.qsize() * 2 > MOST_WAITING):
            return  # it is looked at anyway, by whoever comes to it next
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="reenact-shadow", daemon=True)
            self._thread.start()
        try:
            if not is_over:
                self._waiting.add(notice.run_id)
            self._runs.put_nowait((notice.run_id, is_over))
        except queue.Full:
            self._failed(notice.run_id, UsageError(f"more than {MOST_WAITING} runs wait for their shadow; left out"))

    def wait(self, seconds: float = CLOSE_S) -> bool:
        """Until every run that has ended so far is reported; False where that takes longer."""
        until = time.monotonic() + seconds
        while self._runs.unfinished_tasks and time.monotonic() < until:
            time.sleep(0.01)
        return not self._runs.unfinished_tasks

    def close(self) -> None:
        """Report what is waiting, as far as ten seconds allow, and end."""
        if self._thread is None:
            return
        self.wait()
        with self._runs.mutex:
            self._runs.queue.clear()
        self._runs.put(None)
        self._thread.join(1.0)
        self._thread = None

    def _work(self) -> None:
        with asyncio.Runner() as runner:
            while (found := self._runs.get()) is not None:
                run_id, is_over = found
                self._waiting.discard(run_id)
                try:
                    for row in runner.run(self._follow(run_id, is_over=is_over)):
                        if self._on_call is not None:
                            self._on_call(run_id, row)
                    if is_over:
                        self._report(run_id, runner.run(self._both_sides(run_id)))
                        self.reports += 1
                except BaseException as error:  # noqa: BLE001  # whatever a candidate does, the runs go on
                    self._failed(run_id, error)
                finally:
                    if is_over:
                        self._followed.pop(run_id, None)
                    self._runs.task_done()
        self._runs.task_done()

    async def _follow(self, run_id: str, *, is_over: bool) -> list[CallRow]:
        """The calls that have ended since the last time. A run that cannot be followed has its report all the same."""
        assert self._engine is not None, "it was attached"
        if run_id not in self._followed:
            if len(self._followed) >= MOST_FOLLOWED:
                return []
            self._followed[run_id] = followed(self._engine, run_id, self._wanted)
        following = self._followed[run_id]
        if following is None:
            return []
        try:
            return [row async for row in following.advance(is_over=is_over)]
        except ReenactError as error:
            self._followed[run_id] = None
            log.info("run %s is not followed call by call, its report comes with its end: %s", run_id, error)
            return []

    async def _both_sides(self, run_id: str) -> Counterfactual:
        assert self._engine is not None, "it was attached"
        recording, following = load_recording(self._engine.store, run_id), self._followed.get(run_id)
        found = None if following is None else following.report(recording)
        if found is None:
            candidate = candidate_of(recording, self._engine.registry.freeze(), self._wanted)
            found = await shadow(recording, candidate)
        return found

    def _report(self, run_id: str, found: Counterfactual) -> None:
        if self._to is not None:
            self._to.mkdir(parents=True, exist_ok=True)
            text = msgspec.json.format(msgspec.json.encode(as_document(found)), indent=2) + b"\n"
            draft = self._to / f".{run_id}.tmp"
            draft.write_bytes(text)
            draft.replace(self._to / f"{run_id}.json")
        if self._on_report is not None:
            self._on_report(run_id, found)

    def _failed(self, run_id: str, error: BaseException) -> None:
        self.failures += 1
        log.warning("the shadow of run %s failed: %s: %s", run_id, type(error).__name__, error)
        if self._on_failure is not None:
            try:
                self._on_failure(run_id, error)
            except Exception:  # noqa: BLE001  # it was told
                log.warning("on_failure of the shadow of run %s failed itself", run_id)


def followed(engine: Engine, run_id: str, wanted: Wanted) -> Following | None:
    """None where what the candidate changes is known only when the run has ended, or cannot be read at all."""
    try:
        return Following(engine, run_id, wanted)
    except ReenactError:
        return None
