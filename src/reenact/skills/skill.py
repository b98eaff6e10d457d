"""A declared skill: the function, what it declares, and the one way to call it."""

from __future__ import annotations

import asyncio
import inspect
import string
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from reenact.contracts.skill import Resources, RiskLevel, SkillMetadata, ToolClass, definition_digest, whole_digest
from reenact.errors import SkillError
from reenact.policy.cost import PICODOLLARS_PER_CENT, PriceTable
from reenact.skills.context import CURRENT
from reenact.skills.estimate import price_of_tokens
from reenact.skills.plain import to_plain
from reenact.skills.schema.signature import SchemaCheck, Signature
from reenact.values.threads import once

if TYPE_CHECKING:
    from reenact.skills.context import SkillContext

Reconcile = Callable[..., Any]


class Skill:
    """What `@skill` makes of a function. Calling it calls the plain function, outside any run."""

    def __init__(
        self,
        function: Callable[..., Any],
        metadata: SkillMetadata,
        signature: Signature,
        reconcile: Reconcile | None = None,
    ) -> None:
        self.function = function
        self.metadata = metadata
        self.skill_id = metadata.skill_id
        self.version = metadata.version
        self.reference = metadata.reference
        self.digest = definition_digest(metadata)
        self.is_async = inspect.iscoroutinefunction(inspect.unwrap(function))
        self.takes_context = signature.takes_context
        self.reconcile = reconcile
        self.origin: str | None = None
        self.declared_in: str = getattr(function, "__module__", None) or ""
        """The module in which the declaration stands."""
        self.__name__ = getattr(function, "__name__", metadata.skill_id)
        self.__doc__ = function.__doc__
        self.__module__ = self.declared_in
        self.__wrapped__ = function
        self._signature = signature
        where = f"skill {self.reference}"
        self._input = SchemaCheck(metadata.input_schema, where)
        self._output = SchemaCheck(metadata.output_schema, where)
        # Where no parameter decides about them, every call has the same two.
        self._class = None if metadata.read_when else metadata.class_of({})
        self._risk = None if metadata.read_when else metadata.risk_of({})

    @once
    def _whole_digest(self) -> str:
        return whole_digest(self.metadata)

    def is_defined_as(self, digest: str) -> bool:
        """Whether a recorded definition digest is that of this declaration, in today's form or in the older one."""
        return digest in (self.digest, self._whole_digest)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<skill {self.reference} {self.digest[:12]}>"

    def validate(self, parameters: Mapping[str, Any], /) -> list[str]:
        """What is wrong with the parameters, each with a JSON Pointer; quotes no value.

        They are as a plan has them: a secret by its name, and one `$` more before each key that begins with one.
        """
        return self._input.problems_as_written(parameters if type(parameters) is dict else dict(parameters))

    def fits(self, parameters: dict[str, Any], /) -> bool:
        """Whether nothing is wrong with parameters without any key that begins with `$`."""
        return self._input.fits(parameters)

    def bind(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Keyword arguments of the hinted types, without the context."""
        return self._signature.bind(parameters)

    @property
    def declared_class(self) -> ToolClass | None:
        """What its author says; None where nothing was said."""
        return self.metadata.tool_class

    def tool_class_of(self, parameters: Mapping[str, Any]) -> ToolClass:
        """`read` or `write` for this call: an http_call with GET reads, with POST it writes."""
        return self._class or self.metadata.class_of(parameters)

    def risk_level_of(self, parameters: Mapping[str, Any]) -> RiskLevel:
        """The risk level of this call."""
        return self._risk or self.metadata.risk_of(parameters)

    def resources_of(self, parameters: Mapping[str, Any]) -> Resources:
        """The names that it declares to read and write, with parameters filled in.

        Resource names stand in the chain, which holds no values: only parameters that are declared `public` are
        filled in, and only scalars. Every other placeholder stays as it was written.
        """
        declared = self.metadata.resources
        if not (declared.reads or declared.writes):
            return declared
        given = {name: parameters[name] for name in self.metadata.public if name in parameters}
        return Resources(
            reads=tuple(filled(name, given) for name in declared.reads),
            writes=tuple(filled(name, given) for name in declared.writes),
        )

    def call_sync(self, ctx: SkillContext, parameters: Mapping[str, Any]) -> Any:
        """Calls the function in this thread; plain JSON values come back. An async one gets its own loop."""
        if self.is_async:
            return asyncio.run(self.call_async(ctx, parameters))
        before = CURRENT.get()
        CURRENT.set(ctx)
        try:
            return self._finish(self.function(*self._context(ctx), **self.bind(parameters)))
        finally:
            CURRENT.set(before)

    async def call_async(self, ctx: SkillContext, parameters: Mapping[str, Any]) -> Any:
        """Calls the function in this loop; plain JSON values come back. A sync one goes to a thread."""
        if not self.is_async:
            return await asyncio.to_thread(self.call_sync, ctx, parameters)
        before = CURRENT.get()
        CURRENT.set(ctx)
        try:
            pending: Awaitable[Any] = self.function(*self._context(ctx), **self.bind(parameters))
            return self._finish(await pending)
        finally:
            CURRENT.set(before)

    async def invoke(self, ctx: SkillContext, parameters: Mapping[str, Any]) -> Any:
        """The call for those who do not manage threads themselves."""
        return await self.call_async(ctx, parameters)

    def estimate(self, parameters: Mapping[str, Any], prices: PriceTable | Mapping[str, Any]) -> int:
        """Picodollars to reserve before an attempt; a model without a price is `UnknownPrice`."""
        fixed = self.metadata.cost_estimate_cents * PICODOLLARS_PER_CENT
        if self.metadata.cost_model != "tokens":
            return fixed
        return fixed + price_of_tokens(self.metadata, parameters, prices)

    def _context(self, ctx: SkillContext) -> tuple[SkillContext, ...]:
        return (ctx,) if self.takes_context else ()

    def _finish(self, result: object) -> Any:
        plain = to_plain(result)
        problems = [] if self._output.fits(plain) else self._output.problems(plain)
        if problems:
            raise SkillError.of(
                "ERR_SCHEMA_MISMATCH", f"the result is not what {self.reference} declares: {problems[0]}"
            )
        return plain


def filled(template: str, given: Mapping[str, Any]) -> str:
    """`{name}` replaced by what is given for it, where that is a scalar."""
    return "".join(
        literal + ("" if field is None else _scalar(field, given.get(field)))
        for literal, field, _, _ in string.Formatter().parse(template)
    )


def _scalar(field: str, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return "{" + field + "}"
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
