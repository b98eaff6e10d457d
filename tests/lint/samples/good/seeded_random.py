"""Randomness that a seed repeats."""
import random

import numpy as np


def draws(run_id, items):
    generator = random.Random(run_id)
    numbers = np.random.default_rng(7)
    return generator.choice(items), generator.random(), numbers.random()


def skill(ctx, items):
    return ctx.random.choice(items)
