"""Decrypting recorded values for a person who has the key and asks: `show --unseal`."""

from __future__ import annotations

from typing import Any


def decrypt_all(value: Any) -> Any:
    """The value with everything in it decrypted; SecretError without the key, or with another one."""
    from reenact.contracts.references import is_encrypted
    from reenact.errors import SecretError
    from reenact.runtime.writing.redaction import KEY_VARIABLE, decrypt_text, encryption_key

    key = encryption_key()
    if key is None:
        raise SecretError(f"values are encrypted with a key that is not set; put it into {KEY_VARIABLE}")

    def decrypted(item: Any) -> Any:
        if is_encrypted(item):
            return decrypt_text(key, item["$sealed"])
        if isinstance(item, dict):
            return {name: decrypted(inner) for name, inner in item.items()}
        if isinstance(item, list):
            return [decrypted(inner) for inner in item]
        return item

    return decrypted(value)
