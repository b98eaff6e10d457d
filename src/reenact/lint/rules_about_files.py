"""Rules about the file itself and about comments that silence other rules. They cannot be silenced."""

from __future__ import annotations

from typing import Final

from reenact.lint.findings import Severity
from reenact.lint.rule import Rule

FILE_RULES: Final = (
    Rule(
        "RN001",
        "syntax-error",
        Severity.ERROR,
        "The file is no Python that this interpreter can parse.",
        "Nothing is known about code that cannot be parsed, so it is not passed over in silence.",
        bad="def plan(goal:\n    return []\n",
        good="def plan(goal):\n    return []\n",
    ),
    Rule(
        "RN002",
        "suppression-without-reason",
        Severity.ERROR,
        "A comment silences a rule and does not say why, or does not say which.",
        "The next reader must be able to judge whether the exception still holds.",
        bad="""\
import time

STARTED = time.time()  # reenact: ignore[RN203]
""",
        good="""\
import time

STARTED = time.time()  # reenact: ignore[RN203] shown on the status page, nothing reads it back
""",
    ),
    Rule(
        "RN003",
        "unknown-rule",
        Severity.ERROR,
        "A comment silences a rule that does not exist or cannot be silenced.",
        "A mistyped id would silence nothing and look as if it did.",
        bad="""\
import time

STARTED = time.time()  # reenact: ignore[RN203, RN999] shown on the status page
""",
        good="""\
import time

STARTED = time.time()  # reenact: ignore[RN203] shown on the status page
""",
    ),
    Rule(
        "RN004",
        "unused-suppression",
        Severity.WARNING,
        "A comment silences a rule that has nothing to say there.",
        "Left behind, it would silence the next finding on that line, which nobody has judged.",
        bad="""\
def first(outcomes):
    return outcomes[0].code  # reenact: ignore[RN102] only the code is used
""",
        good="""\
def first(outcomes):
    return outcomes[0].code
""",
    ),
    Rule(
        "RN005",
        "not-analysed",
        Severity.ERROR,
        "The file is too large or nested too deeply to be analysed.",
        "What was not looked at is not clean. Split the file, or exclude it with `--exclude`.",
    ),
)
