"""Bytes and ids from the operating system."""
import os
import secrets
import uuid
from dataclasses import dataclass, field
from uuid import uuid4


def ids():
    a = uuid.uuid4()  # expect: RN202
    b = str(uuid4())  # expect: RN202
    c = uuid.uuid1().hex  # expect: RN202
    d = os.urandom(16)  # expect: RN202
    e = secrets.token_hex(8)  # expect: RN202
    return a, b, c, d, e


@dataclass
class Step:
    step_id: object = field(default_factory=uuid4)  # expect: RN202
