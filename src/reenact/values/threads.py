"""What threads share, made so that neither another thread nor a fork is hurt by it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

import msgspec

R = TypeVar("R")


def build(*kinds: type) -> None:
    """What msgspec keeps of these types of structs, and of all that they hold, is there from now on.

    It builds that when a type is first decoded or converted to. Where several threads do so at once for the same type,
    the process may end with a segmentation fault: so the module that declares one builds it.
    """
    for kind in kinds:
        msgspec.json.Decoder(kind)


class once(Generic[R]):  # noqa: N801  # used as a decorator
    """A property that is computed when it is first asked for, and then kept.

    Without a lock, unlike `functools.cached_property` of Python 3.11, whose lock is one for all objects of a class: a
    child that is forked while another thread computes would wait for it for ever. Two threads may compute it twice.
    """

    def __init__(self, compute: Callable[[Any], R]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> R: ...
    def __get__(self, instance: object | None, owner: type) -> Self | R:
        if instance is None:
            return self
        value: R = self._compute(instance)
        instance.__dict__[self._name] = value
        return value
