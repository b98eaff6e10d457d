"""Testing agents without keys and without a network: record a run once, replay it ever after.

`execute` runs a plan in memory and `replay` runs it again (`running`); `mock_http` answers the requests of built-in
skills (`http`); the pytest fixture `recorded` (`plugin`) replays recordings that lie beside the tests (`recordings`),
with the network shut (`network`). In comes a plan, out comes a result to assert on. Begin with `running`.
"""

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
