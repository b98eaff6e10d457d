"""Testing agents without keys and without a network: record a run once, replay it ever after.

`execute` runs a plan in memory and `replay` runs it again (`running`); `mock_http` answers the requests of built-in
skills (`http`). The pytest fixtures (`plugin`) replay recordings that lie beside the tests (`recordings`), with the
network shut (`network`): `recorded` a plan, `recorded_session` an agent's own code (`sessions`). In comes a plan or an
agent, out comes a result to assert on, or a failure at the user's line (`traceback`). Begin with `running`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reenact.lazy import loading

if TYPE_CHECKING:
    from reenact.testing.http import Reply, mock_http
    from reenact.testing.network import NetworkShut, shut_network
    from reenact.testing.running import assert_retry_behavior_matches, execute, load_plan, replay

# name → module. Loaded when first asked for: the plugin stands in this package, and every pytest loads it.
_HOME = {
    "NetworkShut": "reenact.testing.network",
    "Reply": "reenact.testing.http",
    "assert_retry_behavior_matches": "reenact.testing.running",
    "execute": "reenact.testing.running",
    "load_plan": "reenact.testing.running",
    "mock_http": "reenact.testing.http",
    "replay": "reenact.testing.running",
    "shut_network": "reenact.testing.network",
}

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

__getattr__ = loading(__name__, _HOME)
