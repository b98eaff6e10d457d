"""Redact and encrypt secrets before values are written.

A secret of the host, known by its name, is taken out for good: a mark stands in its place. What merely is like one, by
its look or the name of its field, is encrypted under a key beside the store: whoever goes on gets what was there.

A large value is searched in a thread, `search_large`, before it is written; whatever the size, a search that takes too
long ends, and what was not searched to its end is neither written nor handed on: `UNSEARCHED` stands for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from reenact.contracts.outcome import StructuredOutcome
from reenact.contracts.references import first_encrypted, has_encrypted, is_encrypted
from reenact.errors import CanonicalizationError, SecretError, SkillError
from reenact.policy.redaction import REDACTED, SecretRules, as_mark, holds_mark, places
from reenact.policy.secrets.patterns import between_pieces
from reenact.runtime.effects.secrets import Secrets
from reenact.runtime.parked import LargeValue
from reenact.store.encryption import KeyFile, Keyring, decrypt_text, encrypt_text
from reenact.values.canonical import canonicalize

BY_LOOK = SecretRules()
"""What finds a secret by its look, whoever has it."""
LARGE = 1 << 18
"""Bytes of canonical JSON from which a value is searched off the loop."""
LONGEST_S = 20.0
MOST_SEARCHED = 8
UNSEARCHED = f"{REDACTED} ERR_REDACTION_TIMEOUT: it could not be searched for secrets in time, and is not kept"
T = TypeVar("T")


class OutOfTime(Exception):  # it never leaves this module
    """A search for secrets took too long."""


class Searched(NamedTuple):
    """A large value, and what was found of it."""

    value: object
    hints: tuple[str, ...]
    rules: SecretRules
    content: bytes
    """As it may be written."""
    clean: bool
    marked: object
    """As it may be shown."""
    hidden: object
    """As a caller gets it."""


class Redactor:
    """Takes secrets out of values before they are written. Without `file` none is encrypted: all are marked."""

    def __init__(self, secrets: Secrets, fields: tuple[str, ...] = (), file: KeyFile | None = None) -> None:
        self._secrets = secrets
        self._fields = fields
        self._keys = None if file is None else Keyring(file)
        self._key: bytes | None = None
        """What is encrypted already in what this one reads; what it writes goes on under the same key."""
        self._opened: set[str] = set()
        self._rules: dict[tuple[str, ...], tuple[int, SecretRules]] = {}
        self._handed_out = (0, SecretRules())
        self._searched: dict[bytes, Searched] = {}
        """Large values by their canonical bytes: the last few."""

    def rules(self, hints: tuple[str, ...] = ()) -> SecretRules:
        """The rules for one skill's values; made anew when another secret was handed out, or opened."""
        count = len(self._secrets.seen) + len(self._opened)  # neither ever shrinks
        cached = self._rules.get(hints)
        if cached is None or cached[0] != count:
            known = self._secrets.known_values | self._opened
            cached = self._rules[hints] = (count, SecretRules(known, (*self._fields, *hints)))
        return cached[1]

    def content(self, value: object, hints: tuple[str, ...] = (), *, ask: bool = False) -> tuple[bytes, bool]:
        """Canonical bytes of the value as it may be written, and whether nothing in it looks like a secret.

        With `ask`, LargeValue for one that is not searched yet.
        """
        rules = self.rules(hints)
        try:
            content = canonicalize(value)
        except CanonicalizationError:
            pass  # what cannot be said may be in a secret that is taken out
        else:
            if len(content) > LARGE:
                return self._large_content(value, hints, content, ask=ask)
            if rules.passes(value, content):
                return content, True
        return canonicalize(self.redact(value, hints)), False

    def _large_content(self, value: object, hints: tuple[str, ...], content: bytes, *, ask: bool) -> tuple[bytes, bool]:
        found = self._searched.get(content)
        if found is None or found.rules is not self.rules(hints):
            if ask:
                raise LargeValue(lambda: self.search_large(value, hints, content))
            found = self.search_large(value, hints, content)
        if found.value is not value:  # an equal one: from here on it is this one that is asked about
            hidden = value if found.hidden is found.value else found.hidden
            self._searched[content] = found._replace(value=value, hidden=hidden)
        return found.content, found.clean

    def search_large(self, value: object, hints: tuple[str, ...], content: bytes) -> Searched:
        """Everything that may be asked of a large value, at once."""
        rules = self.rules(hints)
        passes = in_time(lambda: rules.passes(value, content), otherwise=False)
        marked = value if passes else self.mark(value, hints)
        if marked is value:
            found = Searched(value, hints, rules, content, True, value, value)  # noqa: FBT003  # it is clean
        else:
            written = canonicalize(self.redact(value, hints))
            found = Searched(value, hints, rules, written, False, marked, self.hide(value))  # noqa: FBT003
        while len(self._searched) >= MOST_SEARCHED:
            self._searched.pop(next(iter(self._searched), b""), None)
        self._searched[content] = found
        return found

    def redact(self, value: object, hints: tuple[str, ...] = ()) -> object:
        """The value as it may be written. A text that holds something like a secret is encrypted whole."""
        if self._keys is None:
            return self.mark(value, hints)
        rules = self.rules(hints)
        return in_time(lambda: rules.apply(self.hide(value), self._encrypt, whole=True), unsearched(value))

    def mark(self, value: object, hints: tuple[str, ...] = ()) -> object:
        """The value as it may be shown, on a screen, in a log or in the chain: secrets go, never encrypted."""
        rules = self.rules(hints)
        return in_time(lambda: rules.apply(value, as_mark), unsearched(value))

    def redact_text(self, text: str) -> str:
        rules = self.rules()
        if len(text) <= LARGE and rules.passes_text(text):
            return text
        return in_time(lambda: str(rules.apply_text(text, as_mark)), otherwise=UNSEARCHED)

    def is_name(self, text: str) -> bool:
        """Whether a text may stand in the chain as a name: neither a secret of the host nor like one in its look."""
        rules = self.handed_out()
        return rules.passes_text(text) or rules.apply_text(text, as_mark) is text

    def mark_outcome(self, outcome: StructuredOutcome, hints: tuple[str, ...] = ()) -> StructuredOutcome:
        """The outcome as listeners get it."""
        message, details = self.redact_text(outcome.message), self._of_large(outcome.details, "marked")
        if details is outcome.details:
            details = self.mark(details, hints)
        if message is outcome.message and details is outcome.details:
            return outcome
        return replace(outcome, message=message, details=details if isinstance(details, dict) else None)

    def handed_out(self) -> SecretRules:
        """The rules about secrets of the host alone: what a tool returned is the caller's to have."""
        count = len(self._secrets.seen)
        if self._handed_out[0] != count:
            self._handed_out = (count, SecretRules(self._secrets.known_values))
        return self._handed_out[1]

    def hide(self, value: object) -> object:
        """A value as a caller gets it."""
        rules = self.handed_out()
        return in_time(lambda: rules.without_known(value), unsearched(value))

    def hide_known(self, outcome: StructuredOutcome) -> StructuredOutcome:
        """The outcome as a caller gets it: a secret that was handed to a skill does not come back through it."""
        if not self._secrets.seen:
            return outcome
        message, details = self.hide(outcome.message), self._of_large(outcome.details, "hidden")
        if details is outcome.details:
            details = self.hide(details)
        if message is outcome.message and details is outcome.details:
            return outcome
        return replace(outcome, message=str(message), details=details if isinstance(details, dict) else None)

    def _of_large(self, details: object, what: str) -> object:
        """Details whose output is large and was searched: with what was found of it, and the rest is small."""
        output = details.get("output") if self._searched and isinstance(details, dict) else None
        found = next((each for each in self._searched.values() if each.value is output), None) if output else None
        if found is None or not isinstance(details, dict):
            return details
        others = {key: item for key, item in details.items() if key != "output"}
        rest = self.hide(others) if what == "hidden" else self.mark(others, found.hints)
        return {**rest, "output": getattr(found, what)} if isinstance(rest, dict) else rest

    def places_of_known(self, value: object, *, marks: bool) -> list[str]:
        """JSON pointers of the host's secrets in a value; with `marks` also of those that were taken out of it."""
        hide = self.handed_out().without_known
        nowhere = any(each.hidden is each.value for each in self._searched.values() if each.value is value)
        if nowhere and not (marks and holds_mark(value)):
            return []
        found = in_time(
            lambda: list(places(value, lambda item: hide(item) is not item or (marks and holds_mark(item)))), None
        )
        return ["/ (ERR_REDACTION_TIMEOUT: not searched in time)"] if found is None else found

    def _encrypt(self, secret: object) -> object:
        assert self._keys is not None
        self._key = self._key or self._keys.first()
        return {"$sealed": encrypt_text(self._key, secret)}

    def decrypt(self, value: object, *, passed_on: bool = False) -> object:
        """What `redact` encrypted, decrypted. What no key here opens stays as it is; SecretError if it was changed.

        What is `passed_on` to a step is a secret wherever it goes from here, also under a name that says nothing of it.
        """
        if isinstance(value, dict):
            if is_encrypted(value):
                return self._open(value, passed_on=passed_on)
            return {key: self.decrypt(item, passed_on=passed_on) for key, item in value.items()}
        if isinstance(value, list):
            return [self.decrypt(item, passed_on=passed_on) for item in value]
        return value

    def _open(self, mark: dict[str, str], *, passed_on: bool) -> object:
        text = mark["$sealed"]
        key = None if self._keys is None else self._keys.key_for(text)
        if key is None:
            return mark
        self._key, found = key, decrypt_text(key, text)
        if passed_on:
            self._opened.update(each for each in texts(found) if BY_LOOK.take_out_shapes(each) is each)
        return found

    def decrypt_outcome(self, outcome: StructuredOutcome) -> StructuredOutcome:
        """A recorded outcome, as far as the keys are here."""
        if not has_encrypted(outcome.details):
            return outcome
        details = self.decrypt(outcome.details)
        return replace(outcome, details=details if isinstance(details, dict) else None)

    def answer(self, outcome: StructuredOutcome) -> StructuredOutcome:
        """A recorded outcome as its first caller got it; SecretError where a key is not here."""
        if not has_encrypted(outcome.details):
            return outcome  # what was known as a secret then was hidden, and is not in the record
        found = self.decrypt_outcome(outcome)
        shut = self.why_shut(found.details)
        if shut is not None:
            raise SecretError(f"the recorded answer of step {outcome.step_id} is encrypted: {shut}")
        return found

    def why_shut(self, value: object) -> str | None:
        """What to do for a value of which something is still encrypted; None where nothing is."""
        text = first_encrypted(value)
        return None if text is None or self._keys is None else self._keys.advice(text)

    def opened(self, value: object) -> object:
        """As `decrypt`, for a skill that asks: SkillError where the key is not there."""
        found = self.decrypt(value)
        shut = self.why_shut(found)
        if shut is not None:
            raise SkillError.of("ERR_SECRET_UNAVAILABLE", f"the value is encrypted: {shut}")
        return found


def in_time(work: Callable[[], T], otherwise: T) -> T:
    """What `work` finds; `otherwise` where that takes too long, so that nothing passes unsearched."""
    if between_pieces.get() is not None:  # it is timed as a part of a longer search
        return work()
    ends = time.monotonic() + LONGEST_S

    def ask() -> None:
        if time.monotonic() > ends:
            raise OutOfTime

    token = between_pieces.set(ask)
    try:
        return work()
    except OutOfTime:
        return otherwise
    finally:
        between_pieces.reset(token)


def unsearched(value: object) -> object:
    """What stands for a value that was not searched to its end: an object stays one."""
    return {REDACTED: UNSEARCHED} if isinstance(value, dict) else UNSEARCHED


def texts(value: object) -> Iterator[str]:
    """Every text in a value, without the names of its fields."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from texts(item)
