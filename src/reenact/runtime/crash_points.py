"""Named places where a crash is interesting. Tests arm one and the process ends itself with SIGKILL there.

`REENACT_CRASH_AT=name` or `name:3` (the third time that it is reached). Nothing happens unless it is set.
"""

from __future__ import annotations

import os
import signal

from reenact.errors import UsageError

KILLED = 128 + 9
"""The exit code that a shell gives a process that `kill -9` ended."""
CRASH_POINTS: dict[str, str] = {
    "before_commit": "records are staged, nothing of them is durable",
    "after_commit": "a commit is durable, nobody has been told",
    "before_dispatch": "the call is durable, the skill has not been called",
    "after_dispatch": "the skill has returned, the attempt is not recorded",
    "before_attempt_record": "a failed attempt is about to be recorded",
    "after_attempt_record": "a failed attempt is durable, the back-off has not begun",
    "in_backoff": "the back-off is being slept",
    "after_effect": "an effect is staged with nothing behind it yet",
    "before_seal": "the last effect is known, the seal is not written",
    "after_seal": "the seal is durable, the lease is still held",
    "before_redispatch_record": "recovery found a call in doubt and has not recorded that yet",
    "after_redispatch_record": "recovery has recorded the doubt and has not dispatched yet",
}


LOG_POINTS: dict[str, str] = {
    "before_replay_log": "a commit is durable, the replay log does not say so yet",
    "in_replay_log": "half a line of the replay log is written",
    "after_replay_log": "the replay log says what the commit does",
}
"""Of runs whose replay log is written as they go."""
OUTSIDE_POINTS: dict[str, str] = {
    "before_asking": "a head is signed, and the next witness or anchor does not know it",
    "after_witnessed": "a witness remembers a head, and has not put its name to it",
    "before_cosignature": "a witness has put its name to a head, which is not on record",
    "after_cosignature": "the cosignature is on record",
    "before_contradiction": "a head that contradicts the log was shown, and is not on record",
    "before_stamp": "a time stamp came, and is not on record",
    "in_anchor": "half of a head stands in an anchor's file",
    "after_anchor": "the head stands in the anchor's file",
    "before_anchor_commit": "git knows the anchor's file, the head is not committed",
    "before_anchor_push": "the head is committed, and not pushed",
    "after_anchor_push": "the head is pushed",
    "after_asking": "what came of one witness or anchor is on record",
}
"""Of heads that are taken to witnesses and anchors."""


class Trigger:
    """Counts down to one crash point."""

    def __init__(self, spec: str) -> None:
        name, _, count = spec.partition(":")
        points = CRASH_POINTS | LOG_POINTS | OUTSIDE_POINTS
        if name not in points or not (count or "1").isdecimal() or int(count or 1) < 1:
            raise UsageError(
                f"REENACT_CRASH_AT={spec!r} is no crash point; write NAME or NAME:3, of {', '.join(points)}"
            )
        self.name = name
        self.left = int(count or 1)

    def reach(self, name: str) -> None:
        if name == self.name:
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
                os._exit(KILLED)  # the first process of a container does not hear its own signal


armed: Trigger | None = Trigger(os.environ["REENACT_CRASH_AT"]) if os.environ.get("REENACT_CRASH_AT") else None
"""None in production: where a point is passed with every call, that is asked first."""


def arm(spec: str | None) -> None:
    """Arm or disarm, for a forked test process."""
    global armed  # noqa: PLW0603  # one switch for the process, off in production
    armed = Trigger(spec) if spec else None


def reach(name: str) -> None:
    if armed is not None:
        armed.reach(name)
