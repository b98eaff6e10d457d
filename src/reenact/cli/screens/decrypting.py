"""Decrypting recorded values for a person who has the key and asks: `show --unseal`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reenact.store.encryption import KeyFile


def decrypt_all(value: Any, file: KeyFile) -> Any:
    """The value with everything in it decrypted; SecretError where a key is not here."""
    from reenact.contracts.references import is_encrypted
    from reenact.errors import SecretError
    from reenact.store.encryption import Keyring, decrypt_text

    keys = Keyring(file)

    def decrypted(item: Any) -> Any:
        if is_encrypted(item):
            text = item["$sealed"]
            key = keys.key_for(text)
            if key is None:
                raise SecretError(f"a value is encrypted: {keys.advice(text)}")
            return decrypt_text(key, text)
        if isinstance(item, dict):
            return {name: decrypted(inner) for name, inner in item.items()}
        if isinstance(item, list):
            return [decrypted(inner) for inner in item]
        return item

    return decrypted(value)
