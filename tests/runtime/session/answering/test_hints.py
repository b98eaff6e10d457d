"""A divergence names what would have given the same in every start."""

from __future__ import annotations

import pytest

from reenact.runtime.session.answering.hints import about

ONE, OTHER = "6ecfe9dc-2ed3-4871-bf9e-f945030324c1", "293c2bda14ae4af0972a0911f542e21f"


@pytest.mark.parametrize(
    ("before", "after", "name"),
    [
        ("2026-11-16T13:50:27.123456+00:00", "2026-11-16T13:51:00+00:00", "now"),
        ("Today is 2026-11-16.", "Today is 2026-11-17.", "now"),
        (1794837027, 1794837030.5, "now"),
        (1794837027123, 1794837030123, "now"),
        (f"order {ONE}", f"order {OTHER}", "uuid"),
        (0.25, 0.75, "random"),
    ],
)
def test_what_looks_made_anew_is_named(before: object, after: object, name: str) -> None:
    assert f"session.{name}()" in str(about(before, after))


@pytest.mark.parametrize(
    ("before", "after"),
    [("a", "b"), (1, 2), (True, False), ("on 2026-11-16", "at 2026-11-17"), (ONE, "x"), (None, 0.5), (0, 1)],
)
def test_what_may_be_anything_is_not(before: object, after: object) -> None:
    assert about(before, after) is None
