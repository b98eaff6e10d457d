"""Values that were sealed, opened for a person who has the key and asks."""

from __future__ import annotations

from typing import Any


def decrypt_all(value: Any) -> Any:
    """The value with every seal in it opened; SecretError without the key, or with another one."""
    from reenact.contracts.references import is_encrypted
    from reenact.errors import SecretError
    from reenact.runtime.writing.redaction import KEY_VARIABLE, decrypt_text, encryption_key

    key = encryption_key()
    if key is None:
        raise SecretError(f"values are sealed with a key that is not set; put it into {KEY_VARIABLE}")

    def opened(item: Any) -> Any:
        if is_encrypted(item):
            return decrypt_text(key, item["$sealed"])
        if isinstance(item, dict):
            return {name: opened(inner) for name, inner in item.items()}
        if isinstance(item, list):
            return [opened(inner) for inner in item]
        return item

    return opened(value)
