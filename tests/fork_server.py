"""Processes forked from a server that has loaded the package already: a tenth of what a new interpreter costs.

A process of tests has one such server, whoever asks first. So what it has loaded is said once, here.
"""

from __future__ import annotations

import multiprocessing
from typing import Final

FORKS: Final = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tests.preloaded"])
