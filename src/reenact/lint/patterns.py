"""`match`: a pattern that can fail decides on what it looks at."""

from __future__ import annotations

import ast

from reenact.lint.abstract import Value, element
from reenact.lint.calls import Calls


class Patterns(Calls):
    """Binds what patterns capture, and reports what they decide on."""

    def match_pattern(self, pattern: ast.pattern, value: Value) -> None:
        if isinstance(pattern, ast.MatchValue):
            self.evaluate(pattern.value)
            self.decide("RN101", pattern, value.labels, "branches on")
        elif isinstance(pattern, ast.MatchSingleton):
            if pattern.value is not None:
                self.decide("RN101", pattern, value.labels, "branches on")
        elif isinstance(pattern, ast.MatchAs):
            self._match_as(pattern, value)
        elif isinstance(pattern, ast.MatchOr):
            for inner in pattern.patterns:
                self.match_pattern(inner, value)
        elif isinstance(pattern, ast.MatchMapping):
            self._match_mapping(pattern, value)
        elif isinstance(pattern, ast.MatchClass):
            self._match_class(pattern, value)
        elif isinstance(pattern, ast.MatchSequence):
            self._match_sequence(pattern, value)

    def _match_as(self, pattern: ast.MatchAs, value: Value) -> None:
        if pattern.pattern is not None:
            self.match_pattern(pattern.pattern, value)
        if pattern.name is not None:
            self.bind(pattern.name, value)

    def _match_mapping(self, pattern: ast.MatchMapping, value: Value) -> None:
        for key, inner in zip(pattern.keys, pattern.patterns, strict=True):
            names = sorted(self.evaluate(key).texts)
            for name in names:
                self.match_pattern(inner, self.read_member(value, name, key))
            if not names:
                self.match_pattern(inner, element(value))
        if pattern.rest is not None:
            self.bind(pattern.rest, value)

    def _match_class(self, pattern: ast.MatchClass, value: Value) -> None:
        """The type itself is structure; what its attributes must be is content."""
        for inner in pattern.patterns:
            self.match_pattern(inner, value)
        for name, inner in zip(pattern.kwd_attrs, pattern.kwd_patterns, strict=True):
            self.match_pattern(inner, self.read_member(value, name, inner))

    def _match_sequence(self, pattern: ast.MatchSequence, value: Value) -> None:
        self.consume(value, pattern, "matches")
        for index, inner in enumerate(pattern.patterns):
            if isinstance(inner, ast.MatchStar):
                if inner.name is not None:
                    self.bind(inner.name, Value(labels=value.labels, inside=element(value)))
            else:
                self.match_pattern(inner, value.member(str(index)) or element(value))
