"""Types say what a value is, also in collections, and a name as text."""
from collections.abc import Sequence


def first(results: Sequence[StructuredOutcome]) -> str:
    for r in results:
        if r.trace_id:  # expect: RN101
            return r.code
    return ""


def second(found: StructuredOutcome | None) -> bool:
    return found is not None and found.timestamp > "2025"  # expect: RN102


def third(by_step: dict[str, "StructuredOutcome"]) -> bool:
    return by_step["a"].message == "gone"  # expect: RN102
