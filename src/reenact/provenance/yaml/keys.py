"""Collections as keys of a map: JavaScript objects have string keys, so they print as flow YAML.

Only what prints on one short line, without comments, tags, anchors or aliases, is decided.
"""

from __future__ import annotations

import re
from typing import Final

from reenact.provenance.yaml import javascript
from reenact.provenance.yaml.nodes import Mapping, Node, Scalar, Sequence, Steps, Style, run
from reenact.provenance.yaml.schema import CORE_TYPES, NoMatch

_MAX_LENGTH: Final = 60
_MORE_THAN_VALUES = re.compile(r"#|\n[ \t]*\n")
_SAFE_PLAIN = re.compile(r"[^\W\d][\w./@+=-]*+(?:[ :#][\w./@+=-]++)*+")
_SAFE_QUOTED = re.compile(r"[\w./@+=:,;!?<>()\[\]{}|*&%$^~# -]*")
_SAFE_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,14}|-?(?:0|[1-9][0-9]{0,9})\.[0-9]{1,5}")
_KEPT_WORDS: Final = frozenset({"null", "~", "true", "false"})


class NotPrintable(Exception):
    """A key that prints in a way that our reader does not decide."""


def key_text(key: Sequence | Mapping, source: str) -> str:
    """The text of a collection that stands as a key at `source` in the document. NotPrintable when undecided."""
    if _MORE_THAN_VALUES.search(source):
        raise NotPrintable
    text = run(_collection(key))
    if len(text) > _MAX_LENGTH:
        raise NotPrintable
    return text


def _node(node: Node) -> Steps[str]:
    if isinstance(node, Scalar):
        if node.properties:
            raise NotPrintable
        return _scalar(node)
    if isinstance(node, Sequence | Mapping) and not node.properties:
        text: str = yield _collection(node)
        return text
    raise NotPrintable


def _collection(node: Sequence | Mapping) -> Steps[str]:
    parts: list[str] = []
    if isinstance(node, Sequence):
        for item in node.items:
            shown: str = yield _node(item)
            parts += [shown]
        return f"[ {', '.join(parts)} ]" if parts else "[]"
    for key, value in node.pairs:
        if not isinstance(key, Scalar) or key.style is Style.EMPTY:
            raise NotPrintable
        shown = yield _node(key)
        if isinstance(value, Scalar) and value.style in (Style.EMPTY, Style.ABSENT):
            if not node.flow or value.properties:
                raise NotPrintable
            parts.append(shown if value.style is Style.ABSENT else shown + ":")
        else:
            parts.append(shown + ": " + (yield _node(value)))
    return f"{{ {', '.join(parts)} }}" if parts else "{}"


def _scalar(node: Scalar) -> str:
    text = node.text
    if len(text) > _MAX_LENGTH:
        raise NotPrintable
    if node.style is Style.PLAIN:
        if text in _KEPT_WORDS:
            return text
        if _SAFE_NUMBER.fullmatch(text):
            return _number(text)
        if _SAFE_PLAIN.fullmatch(text) and all(isinstance(read(text), NoMatch) for read in CORE_TYPES.values()):
            return text
    elif node.style in (Style.SINGLE, Style.DOUBLE) and _SAFE_QUOTED.fullmatch(text):
        return f"'{text}'" if node.style is Style.SINGLE else f'"{text}"'
    raise NotPrintable


def _number(text: str) -> str:
    """The number as it is written, when it prints like that: zeros behind the point are kept."""
    shown = javascript.number_text(float(text))
    whole, _, fraction = text.partition(".")
    if shown == text or (fraction and shown in (whole, text.rstrip("0"))):
        return text
    raise NotPrintable
