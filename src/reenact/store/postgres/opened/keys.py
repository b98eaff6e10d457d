"""Where the keys of a store in a database lie: in the data directory of whoever uses it, by the store's own id.

By its id, since one store has many URLs. On another host the key is put there, or named in REENACT_SIGNING_KEY.
"""

from __future__ import annotations

from pathlib import Path

from reenact.store.location import data_directory


def keys_beside(store_id: str) -> Path:
    """What the names of the store's key files begin with."""
    folder = data_directory() / "reenact" / "keys"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder / store_id
