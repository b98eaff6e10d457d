"""Variables of the environment."""
import os
from os import environ, getenv


def reads():
    a = os.environ["REGION"]  # expect: RN209
    b = os.environ.get("REGION")  # expect: RN209
    c = os.getenv("REGION")  # expect: RN209
    d = getenv("REGION")  # expect: RN209
    if "DEBUG" in os.environ:  # expect: RN209
        return a
    return b, c, d, environ["HOME"]  # expect: RN209
