"""Error classification: from an exception to facts, and from facts to a code. Never by message text."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from typing import Final

from reenact.contracts.facts import ExceptionFact, Facts
from reenact.errors import ReenactError, SkillError
from reenact.policy.exception_rules import (
    FINISH_REASON,
    HTTP_LIBRARIES,
    HTTP_STATUS,
    KNOWN_NAMES,
    LINUX_ERRNO,
    MODEL_LIBRARIES,
    MODEL_STATUS,
    NETWORK_RULES,
    OTHER_RULES,
    Rule,
)
from reenact.policy.taxonomy import TAXONOMY, canonical_code, is_code

_SKILL_ERROR: Final = f"{SkillError.__module__}.{SkillError.__qualname__}"
_LONGEST_CHAIN: Final = 32


def map_exception_to_code(exception: BaseException) -> str:
    """The code of the taxonomy that `exception` stands for."""
    return classify(facts_of(exception))


def facts_of(exception: BaseException) -> Facts:
    """What `exception` and its causes say, without their texts.

    The type of a link is the nearest class among its bases that the rules know (a subclass of TimeoutError is a
    TimeoutError), or its own when they know none.
    """
    chain = list(cause_chain(exception))
    statuses = (_status(link) for link in chain)
    return Facts(
        exceptions=tuple(ExceptionFact(errno=_errno(link), type=_type_name(link)) for link in chain),
        http_status=next((status for status in statuses if status is not None), None),
    )


def classify(facts: Facts) -> str:
    """The code for `facts`: a pure function, the same in a live run and in a replay.

    In this order: what a skill said itself; a status that is an error, or that nobody expected; TLS, name resolution,
    timeout, broken connections anywhere in the chain; other types that are known; any other exception, which is the
    skill's own fault; how the model ended; else OK.
    """
    for fact in facts.exceptions:
        if fact.type.startswith(_SKILL_ERROR + "."):
            code = fact.type[len(_SKILL_ERROR) + 1 :]
            return canonical_code(code) if is_code(code) else "ERR_UNKNOWN"
    links: list[_Link] = []
    roots: set[str] = set()
    if facts.exceptions:
        links = [(_root_and_name(fact.type), fact.errno) for fact in facts.exceptions]
        roots = {root for (root, _), _ in links}
    if facts.http_status is not None and not 200 <= facts.http_status < 300:
        return _from_status(facts.http_status, of_a_model=bool(roots & MODEL_LIBRARIES))
    if links:
        return _from_chain(links, roots)
    if facts.finish_reason in FINISH_REASON:
        return FINISH_REASON[facts.finish_reason]
    return "OK"


_Link = tuple[tuple[str, str], int | None]


def _from_chain(links: list[_Link], roots: set[str]) -> str:
    for rule in NETWORK_RULES:
        if any(_matches(rule, link) for link in links):
            in_http = roots & (HTTP_LIBRARIES | MODEL_LIBRARIES)
            return "ERR_HTTP_TIMEOUT" if rule.code == "ERR_TIMEOUT" and in_http else rule.code
    for link in links:
        for rule in OTHER_RULES:
            if _matches(rule, link):
                return rule.code
    (_, name), _ = links[0]
    return "ERR_INTERNAL" if name else "ERR_UNKNOWN"


def _matches(rule: Rule, link: _Link) -> bool:
    name, number = link
    # The errno of these two is no errno: it counts in a numbering of its own.
    foreign = name[0] == "ssl" or name == ("socket", "gaierror")
    return name in rule.names or (number in rule.errnos and not foreign)


def _from_status(status: int, *, of_a_model: bool) -> str:
    if of_a_model and status in MODEL_STATUS:
        return MODEL_STATUS[status]
    if of_a_model and 500 <= status < 600:
        return "ERR_LLM_API_ERROR"
    if status in HTTP_STATUS:
        return HTTP_STATUS[status]
    if 400 <= status < 500:
        return "ERR_HTTP_4XX"
    return "ERR_HTTP_5XX" if 500 <= status < 600 else "ERR_UNKNOWN"


def _root_and_name(type_name: str) -> tuple[str, str]:
    return type_name.partition(".")[0], type_name.rpartition(".")[2] if "." in type_name else ""


def cause_chain(exception: BaseException) -> Iterator[BaseException]:
    """`exception`, then what it was raised from or while handling, outermost first; members of groups in order."""
    seen: set[int] = set()
    ahead = [exception]
    while ahead and len(seen) < _LONGEST_CHAIN:
        link = ahead.pop(0)
        if id(link) in seen:
            continue
        seen.add(id(link))
        yield link
        inner = list(link.exceptions) if isinstance(link, BaseExceptionGroup) else []
        cause = _cause(link)
        ahead = [*inner, *([cause] if cause is not None else []), *ahead]


def _cause(link: BaseException) -> BaseException | None:
    """What Python would print as the reason of `link`.

    HTTP libraries raise `from None` to shorten tracebacks; there the hidden context is the very reason.
    """
    if link.__cause__ is not None:
        return link.__cause__
    hidden = link.__suppress_context__ and _root(link) not in HTTP_LIBRARIES | MODEL_LIBRARIES
    return None if hidden else link.__context__


def _root(exception: BaseException) -> str:
    return str(type(exception).__module__).partition(".")[0]


def _type_name(exception: BaseException) -> str:
    if isinstance(exception, SkillError):
        return f"{_SKILL_ERROR}.{exception.code}"
    if isinstance(exception, ReenactError) and exception.code in TAXONOMY:
        return f"{_SKILL_ERROR}.{exception.code}"
    names = [f"{cls.__module__}.{cls.__qualname__}" for cls in type(exception).__mro__]
    return next((name for name in names if _root_and_name(name) in KNOWN_NAMES), names[0])


def _errno(exception: BaseException) -> int | None:
    number = _attribute(exception, "errno")
    if type(number) is not int or not isinstance(exception, OSError):
        return None
    return LINUX_ERRNO.get(errno.errorcode.get(number, ""), number)


def _status(exception: BaseException) -> int | None:
    """An HTTP status, by the attributes under which libraries keep it."""
    holders: list[tuple[object, str]] = [(exception, "http_status"), (exception, "status_code")]
    holders.append((_attribute(exception, "response"), "status_code"))
    if _root(exception) in ("aiohttp", "urllib"):
        holders.append((exception, "status"))
    for holder, attribute in holders:
        status = _attribute(holder, attribute)
        if type(status) is int and 100 <= status < 600:
            return status
    return None


def _attribute(holder: object, name: str) -> object:
    """An attribute of a foreign object, which may compute it and fail."""
    try:
        return getattr(holder, name, None)
    except Exception:  # noqa: BLE001 - a property of somebody else's exception must not hide that exception
        return None
