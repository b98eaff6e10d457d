"""Redact and encrypt secrets before values are written.

A secret of the host, known by its name, is taken out for good: a mark stands in its place. What merely is like one, by
its look or the name of its field, is encrypted under a key beside the store: whoever goes on gets what was there.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from reenact.contracts.outcome import StructuredOutcome
from reenact.contracts.references import first_encrypted, has_encrypted, is_encrypted
from reenact.errors import CanonicalizationError, SecretError, SkillError
from reenact.policy.redaction import REDACTED, SecretRules, holds_mark, places
from reenact.runtime.effects.secrets import Secrets
from reenact.store.encryption import KeyFile, Keyring, decrypt_text, encrypt_text
from reenact.values.canonical import canonicalize

BY_LOOK = SecretRules()
"""What finds a secret by its look, whoever has it."""


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

    def rules(self, hints: tuple[str, ...] = ()) -> SecretRules:
        """The rules for one skill's values; made anew when another secret was handed out, or opened."""
        count = len(self._secrets.seen) + len(self._opened)  # neither ever shrinks
        cached = self._rules.get(hints)
        if cached is None or cached[0] != count:
            known = self._secrets.known_values | self._opened
            cached = self._rules[hints] = (count, SecretRules(known, (*self._fields, *hints)))
        return cached[1]

    def content(self, value: object, hints: tuple[str, ...] = ()) -> tuple[bytes, bool]:
        """Canonical bytes of the value as it may be written, and whether nothing in it looks like a secret."""
        rules = self.rules(hints)
        try:
            content = canonicalize(value)
        except CanonicalizationError:
            pass  # what cannot be said may be in a secret that is taken out
        else:
            if rules.passes(value, content):
                return content, True
        return canonicalize(self.redact(value, hints)), False

    def redact(self, value: object, hints: tuple[str, ...] = ()) -> object:
        """The value as it may be written. A text that holds something like a secret is encrypted whole."""
        if self._keys is None:
            return self.mark(value, hints)
        return self.rules(hints).apply(self.hide(value), self._encrypt, whole=True)

    def mark(self, value: object, hints: tuple[str, ...] = ()) -> object:
        """The value as it may be shown, on a screen, in a log or in the chain: secrets go, never encrypted."""
        return self.rules(hints).apply(value, lambda _: REDACTED)

    def redact_text(self, text: str) -> str:
        rules = self.rules()
        return text if rules.passes_text(text) else str(rules.apply_text(text, lambda _: REDACTED))

    def is_name(self, text: str) -> bool:
        """Whether a text may stand in the chain as a name: neither a secret of the host nor like one in its look."""
        rules = self.handed_out()
        return rules.passes_text(text) or rules.apply_text(text, lambda _: REDACTED) is text

    def mark_outcome(self, outcome: StructuredOutcome, hints: tuple[str, ...] = ()) -> StructuredOutcome:
        """The outcome as listeners get it."""
        message, details = self.redact_text(outcome.message), self.mark(outcome.details, hints)
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
        return self.handed_out().without_known(value)

    def hide_known(self, outcome: StructuredOutcome) -> StructuredOutcome:
        """The outcome as a caller gets it: a secret that was handed to a skill does not come back through it."""
        if not self._secrets.seen:
            return outcome
        rules = self.handed_out()
        message, details = rules.take_out_known(outcome.message), rules.without_known(outcome.details)
        if message is outcome.message and details is outcome.details:
            return outcome
        return replace(outcome, message=message, details=details if isinstance(details, dict) else None)

    def places_of_known(self, value: object, *, marks: bool) -> list[str]:
        """JSON pointers of the host's secrets in a value; with `marks` also of those that were taken out of it."""
        hide = self.handed_out().without_known
        return list(places(value, lambda item: hide(item) is not item or (marks and holds_mark(item))))

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


def texts(value: object) -> Iterator[str]:
    """Every text in a value, without the names of its fields."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from texts(item)
