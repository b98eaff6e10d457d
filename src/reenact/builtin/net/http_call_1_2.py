"""`http_call@1.2.0`: after a crash a write in doubt is sent again. Kept for plans that pin it and open runs."""

from __future__ import annotations

from reenact.builtin.http_call import DECLARED
from reenact.builtin.http_call import http_call as today
from reenact.skills.declare import skill

http_call = skill("http_call", version="1.2.0", **DECLARED)(today.function)
