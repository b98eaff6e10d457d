"""Tests of agents without keys and without a network: record a run once, replay it ever after."""

from __future__ import annotations

from reenact.testing.http import Reply, mock_http
from reenact.testing.network import NetworkShut, shut_network
from reenact.testing.running import assert_retry_behavior_matches, execute, load_plan, replay

__all__ = [
    "NetworkShut",
    "Reply",
    "assert_retry_behavior_matches",
    "execute",
    "load_plan",
    "mock_http",
    "replay",
    "shut_network",
]
