"""The library's own generator, seeded."""
import random


def draws(seed, items):
    random.seed(seed)
    return random.choice(items), random.random()
