"""Cost estimates of model calls: what to reserve before an attempt, in exact picodollars.

Tokens are estimated by a formula over bytes, not by a tokenizer: a reservation decides whether a budget stops a
run, so it must come out the same on every machine, whichever packages are installed there. Three bytes a token
is on the high side for prose and code, and an image counts as much as a large one; what was really used is settled
afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from reenact.contracts.skill import SkillMetadata
from reenact.policy.cost import PriceTable, cost_exact

PROMPT_FIELDS: Final = ("prompt", "messages", "system_prompt", "tools", "response_format")
_BYTES_PER_TOKEN: Final = 3
_TOKENS_PER_TEXT: Final = 8
_TOKENS_PER_IMAGE: Final = 5_000
_IMAGES: Final = ("image", "image_url")


def price_of_tokens(
    metadata: SkillMetadata, parameters: Mapping[str, Any], prices: PriceTable | Mapping[str, Any] | None
) -> int:
    """Picodollars for this prompt and the longest answer to it; `UnknownPrice` where the model of the call has none."""
    prompt = estimate_tokens([parameters[name] for name in PROMPT_FIELDS if name in parameters])
    answer = metadata.argument("max_tokens", parameters)
    model = metadata.argument("model", parameters)
    return cost_exact(str(model), prompt, answer if isinstance(answer, int) else 0, prices)


def estimate_tokens(value: object) -> int:
    """About how many tokens the texts and images in `value` are. An estimate, and always the same one."""
    if isinstance(value, str):
        return -(-len(value.encode("utf-8", "replace")) // _BYTES_PER_TOKEN) + _TOKENS_PER_TEXT
    if isinstance(value, Mapping):
        if value.get("type") in _IMAGES:
            return _TOKENS_PER_IMAGE
        return sum(estimate_tokens(item) for item in value.values())
    return sum(estimate_tokens(item) for item in value) if isinstance(value, list | tuple) else 0
