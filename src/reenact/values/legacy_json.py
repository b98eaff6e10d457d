"""The JSON text that keys of repeated calls are made from: the standard library's, not canonical JSON.

Such keys are shared with loops that never heard of Reenact, so their bytes are fixed: `", "` and `": "` between
the tokens, every character beyond ASCII escaped, `1` and `1.0` told apart. Nothing else is hashed in this form.
"""

from __future__ import annotations

import json


def sorted_json(value: object) -> str:
    """`json.dumps(value, sort_keys=True)`, with NaN and the infinities refused.

    Raises TypeError, ValueError or RecursionError for what JSON cannot express.
    """
    return json.dumps(value, sort_keys=True, allow_nan=False)
