"""Types of structs, built before threads share them.

msgspec builds what it knows of a type when that is first decoded or converted to. Where several threads do so at once
for the same type, the process may end with a segmentation fault: so the module that declares one builds it.
"""

from __future__ import annotations

import msgspec


def build(*kinds: type) -> None:
    """What msgspec keeps of these types, and of all that they hold, is there from now on."""
    for kind in kinds:
        msgspec.json.Decoder(kind)
