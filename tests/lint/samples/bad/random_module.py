"""Unseeded randomness in all its spellings."""
import random
import random as dice
from random import choice, shuffle as mix

import numpy as np


def draws(items):
    first = random.random()  # expect: RN201
    second = dice.randint(1, 6)  # expect: RN201
    third = choice(items)  # expect: RN201
    mix(items)  # expect: RN201
    own = random.Random()  # expect: RN201
    system = random.SystemRandom()  # expect: RN201
    fourth = np.random.rand(3)  # expect: RN201
    generator = np.random.default_rng()  # expect: RN201
    return first, second, third, own, system, fourth, generator


def handed_on(items):
    return sorted(items, key=lambda item: random.random())  # expect: RN201
