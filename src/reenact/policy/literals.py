"""Literal secrets in the parameters of a plan. What a reference will bring is asked about when it came."""

from __future__ import annotations

from reenact.contracts.references import REFERENCE
from reenact.policy.redaction import SecretRules


def literal_secrets(parameters: object, rules: SecretRules) -> list[str]:
    """JSON pointers of the secrets; a text that is made from a reference is none, unless what stands around it is."""
    return rules.find(without_references(parameters, rules))


def without_references(value: object, rules: SecretRules) -> object:
    if isinstance(value, str):
        rest = REFERENCE.sub("", value)
        return value if rest == value or rules.find(rest) else None
    if isinstance(value, dict):
        return {key: without_references(item, rules) for key, item in value.items()}
    if isinstance(value, list):
        return [without_references(item, rules) for item in value]
    return value
