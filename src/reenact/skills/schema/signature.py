"""From type hints to JSON Schema and back to typed values."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Final
from urllib.parse import quote

import jsonschema_rs
import msgspec

from reenact.contracts.references import is_encrypted, is_secret
from reenact.errors import SkillDeclarationError, SkillError
from reenact.skills.plain import to_plain
from reenact.skills.schema.backtracking import Bounded
from reenact.skills.schema.work import MOST_WAYS, work
from reenact.values.threads import build

CONTEXT_PARAMETER = "ctx"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
_UNCHECKED = "the value"
MOST_TOLD: Final = 20


@dataclass(frozen=True)
class Signature:
    """What a function's hints say: its schemas, and the type that turns plain parameters into hinted ones."""

    takes_context: bool
    names: tuple[str, ...]
    parameters_type: type[msgspec.Struct] | None
    """None where the parameters are handed over as they are."""
    input_schema: dict[str, Any]
    output_schema: dict[str, Any]

    def bind(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Keyword arguments of the hinted types. What was left out is left to the function's own defaults."""
        given = parameters if type(parameters) is dict else dict(parameters)
        if self.parameters_type is None:
            return given
        try:
            bound = msgspec.convert(given, self.parameters_type, dec_hook=_decode_model, str_keys=True)
        except msgspec.ValidationError as error:
            raise SkillError.of("ERR_VALIDATION_FAILED", f"parameters: {error}") from None
        values = zip(self.names, msgspec.structs.astuple(bound), strict=True)
        return {name: value for name, value in values if value is not msgspec.UNSET}


def read_signature(function: Callable[..., Any], where: str, names_in_scope: Mapping[str, Any]) -> Signature:
    """The signature of a function, or `SkillDeclarationError` naming the parameter that stands in the way."""
    hints = _hints(function, where, names_in_scope)
    parameters = list(inspect.signature(function).parameters.values())
    takes_context = bool(parameters) and parameters[0].name == CONTEXT_PARAMETER
    declared = parameters[1:] if takes_context else parameters
    for parameter in declared:
        _check_parameter(parameter, hints, where)
    parameters_type = _parameters_type(declared, hints)
    if parameters_type is not None:
        build(parameters_type)
    return Signature(
        takes_context=takes_context,
        names=tuple(parameter.name for parameter in declared),
        parameters_type=parameters_type,
        input_schema=_input_schema(parameters_type, declared, where),
        output_schema=_output_schema(hints, where),
    )


def read_any_signature(function: Callable[..., Any], where: str) -> Signature:
    """The signature of a function that was not written as a skill: what its hints leave open may be anything.

    `*args` is a list and `**kwargs` an object, each a parameter of that name.
    """
    declared = list(inspect.signature(function).parameters.values())
    hints = {parameter.name: _hint_or_any(function, parameter, where) for parameter in declared}
    parameters_type = _parameters_type(declared, hints)
    return Signature(
        takes_context=False,
        names=tuple(hints),
        parameters_type=parameters_type,
        input_schema=_input_schema(parameters_type, declared, where),
        output_schema={"$schema": DIALECT},
    )


def _hint_or_any(function: Callable[..., Any], parameter: inspect.Parameter, where: str) -> Any:
    written = {parameter.name: parameter.annotation}
    namespace = getattr(inspect.unwrap(function), "__globals__", {})
    hint: Any = Any
    if parameter.annotation is not parameter.empty:
        try:
            hint = typing.get_type_hints(SimpleNamespace(__annotations__=written), namespace, include_extras=True)
            hint = hint[parameter.name]
            _schema_of(hint, where, "parameters")
        except Exception:  # noqa: BLE001  # a hint that says nothing here: a name that is not there, a class of its own
            hint = Any
    if parameter.kind is parameter.VAR_POSITIONAL:
        return list[hint]
    return dict[str, hint] if parameter.kind is parameter.VAR_KEYWORD else hint


def _parameters_type(declared: list[inspect.Parameter], hints: Mapping[str, Any]) -> type[msgspec.Struct]:
    # The prefix keeps names such as `__init__` or `keys` from meeting anything that a struct has of its own.
    return msgspec.defstruct(
        "Parameters",
        [_field(item, hints[item.name]) for item in declared],
        kw_only=True,
        forbid_unknown_fields=True,
        rename=lambda name: name.removeprefix("p_"),
    )


def _field(parameter: inspect.Parameter, hint: Any) -> tuple[str, Any] | tuple[str, Any, Any]:
    name = f"p_{parameter.name}"
    open_ended = parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}
    needed = parameter.default is parameter.empty and not open_ended
    return (name, hint) if needed else (name, hint, msgspec.UNSET)


def _hints(function: Callable[..., Any], where: str, names_in_scope: Mapping[str, Any]) -> dict[str, Any]:
    """The hints, resolved; that of the context is left out, since it may be imported for type checkers only."""
    unwrapped = inspect.unwrap(function)
    written = {name: hint for name, hint in inspect.get_annotations(unwrapped).items() if name != CONTEXT_PARAMETER}
    namespace = getattr(unwrapped, "__globals__", {})
    try:
        return typing.get_type_hints(
            SimpleNamespace(__annotations__=written), namespace, {**namespace, **names_in_scope}, include_extras=True
        )
    except NameError as error:
        raise SkillDeclarationError(
            f"{where}: the type hint {error.name!r} cannot be resolved; define or import it before the skill"
        ) from None


def _check_parameter(parameter: inspect.Parameter, hints: Mapping[str, Any], where: str) -> None:
    if parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY}:
        raise SkillDeclarationError(
            f"{where}: parameter {parameter} cannot be passed by name; give each one a name and a type"
        )
    if parameter.name == CONTEXT_PARAMETER:
        raise SkillDeclarationError(f"{where}: ctx is the context and must be the first parameter")
    if parameter.name not in hints:
        raise SkillDeclarationError(
            f"{where}: parameter {parameter.name} has no type hint; write {parameter.name}: str"
        )


def _input_schema(kind: type[msgspec.Struct], declared: list[inspect.Parameter], where: str) -> dict[str, Any]:
    schema = _schema_of(kind, where, "parameters")
    definitions: dict[str, Any] = schema.pop("$defs", {})
    body = dict(definitions.pop("Parameters"))
    body.pop("title", None)
    for parameter in declared:
        if parameter.default is not parameter.empty:
            _add_default(body["properties"], parameter)
    return {"$schema": DIALECT, **body, **({"$defs": definitions} if definitions else {})}


def _add_default(properties: dict[str, Any], parameter: inspect.Parameter) -> None:
    try:
        default = to_plain(parameter.default)
    except SkillError:
        return  # a default that JSON cannot express is the function's own affair
    properties[parameter.name] = {**properties[parameter.name], "default": default}


def _output_schema(hints: Mapping[str, Any], where: str) -> dict[str, Any]:
    if "return" not in hints:
        return {"$schema": DIALECT}
    return {"$schema": DIALECT, **_schema_of(hints["return"], where, "the result")}


def _schema_of(kind: Any, where: str, what: str) -> dict[str, Any]:
    definitions: dict[str, Any] = {}

    def from_model(model: type) -> dict[str, Any]:
        schema = _model_schema(model)
        for name, definition in schema.pop("$defs", {}).items():
            if definitions.setdefault(name, definition) != definition:
                raise SkillDeclarationError(f"{where}: two types in {what} are called {name}; rename one of them")
        return schema

    try:
        schema = msgspec.json.schema(kind, schema_hook=from_model)
    except (TypeError, NotImplementedError) as error:
        reason = str(error).splitlines()[-1]
        raise SkillDeclarationError(
            f"{where}: no JSON Schema can be made for {what}: {reason}; {_instead(reason)}"
        ) from None
    own = schema.pop("$defs", {})
    for name, definition in own.items():
        if definitions.setdefault(name, definition) != definition:
            raise SkillDeclarationError(f"{where}: two types in {what} are called {name}; rename one of them")
    return {**schema, **({"$defs": definitions} if definitions else {})}


def _instead(reason: str) -> str:
    if repr(object) in reason:
        return "write Any where any JSON value may stand"
    return "write a type that JSON can express (str, list, a dataclass, a TypedDict, a model), or Any"


def _model_schema(model: type) -> dict[str, Any]:
    make_schema = getattr(model, "model_json_schema", None)
    if make_schema is None:
        raise NotImplementedError(f"{model.__qualname__} is neither a builtin, a struct, a dataclass nor a model")
    schema: dict[str, Any] = make_schema()
    return schema


def _decode_model(model: type, value: object) -> object:
    """Pydantic's own messages quote the input, which may be secret: only its places and reasons go on."""
    from pydantic import ValidationError  # msgspec asks for nothing but pydantic models, see _model_schema

    try:
        return model.model_validate(value)  # type: ignore[attr-defined]
    except ValidationError as error:
        problems = error.errors(include_input=False, include_url=False, include_context=False)
        text = "; ".join(f"{'.'.join(str(part) for part in item['loc'])}: {item['type']}" for item in problems)
        raise ValueError(text) from None


NAME_TOO_LONG = "the names of properties are too long for a pattern that looks ahead or back, or too many"


class SchemaCheck:
    """A compiled schema. It never fetches anything, and never quotes a value."""

    def __init__(self, schema: dict[str, Any], where: str) -> None:
        found = work(schema)
        if found.ways > MOST_WAYS:
            raise SkillDeclarationError(
                f"{where}: the schema holds one value against its parts in more than {MOST_WAYS} ways, through "
                "references of references"
            )
        self._is_explained = found.is_explained
        try:
            self._bounded = Bounded(schema)
            self._schema = self._bounded.schema
            self._validator = self._bounded.validator(self._schema, _UNCHECKED)
        except (ValueError, jsonschema_rs.ReferencingError) as error:
            raise SkillDeclarationError(f"{where}: {str(error).splitlines()[0]}") from None
        self.fits: Callable[[object], bool] = self._fits if self._bounded.is_needed else self._validator.is_valid
        """Whether a value has no problem at all, as most have."""

    def _fits(self, value: object) -> bool:
        return self._bounded.begin(value) is None and self._validator.is_valid(value)

    def problems(self, value: object) -> list[str]:
        """One line per problem, each with a JSON Pointer. Nothing in a value that was said stands for a secret."""
        return self._told(value, set())

    def problems_as_written(self, written: object) -> list[str]:
        """The same of parameters as a plan or a record has them: `{"$secret": …}` and `{"$sealed": …}` fit everywhere.

        What was said from outside has one `$` more there, so no model makes a value fit by the look of it.
        """
        secrets: set[tuple[str | int, ...]] = set()
        return self._told(_as_read(written, (), secrets), secrets)

    def _told(self, visible: object, secrets: set[tuple[str | int, ...]]) -> list[str]:
        too_long = self._bounded.begin(visible)
        if too_long is not None:
            return [f"{_pointer(too_long)}: {NAME_TOO_LONG}"]
        if not self._is_explained:
            return [] if self.fits(visible) else self._misfits(visible, {path[0] for path in secrets if path})
        return sorted(
            problem
            for error in self._validator.iter_errors(visible)
            if tuple(error.instance_path) not in secrets
            for problem in _describe(error)
        )

    def _misfits(self, visible: object, with_secrets: set[str | int]) -> list[str]:
        """The members that do not fit, without the reason: to name each takes longer with every level of the value."""
        properties, required = self._schema.get("properties"), self._schema.get("required", ())
        found: list[str] = []
        if isinstance(visible, dict) and isinstance(properties, dict):
            found += [f"{_pointer([name])}: is required" for name in required if name not in visible]
            given = sorted(properties.keys() & visible.keys() - with_secrets)[:MOST_TOLD]
            found += [
                f"{_pointer([name])}: does not fit its schema" for name in given if not self._takes(name, visible)
            ]
        return found or ([] if with_secrets else ["/: does not fit its schema"])

    def _takes(self, name: str, visible: Mapping[str, object]) -> bool:
        """Whether one property fits, held against its place in the whole schema: references may lead anywhere."""
        address = str(self._schema.get("$id", "urn:reenact:schema"))
        place = quote(name.replace("~", "~0").replace("/", "~1"), safe="")
        whole = {**self._schema, "$id": address}
        part = {"$ref": f"{address}#/properties/{place}", "$defs": {"whole": whole}}
        return self._bounded.validator(part).is_valid(visible[name])


def _describe(error: jsonschema_rs.ValidationError) -> list[str]:
    """Points at the field itself where the validator points at the object around it."""
    kind = error.kind
    if isinstance(kind, jsonschema_rs.ValidationErrorKind.Required):
        return [f"{_pointer([*error.instance_path, kind.property])}: is required"]
    if isinstance(kind, jsonschema_rs.ValidationErrorKind.AdditionalProperties):
        return [f"{_pointer([*error.instance_path, name])}: is not known" for name in kind.unexpected]
    return [f"{_pointer(error.instance_path)}: {error.message}"]


def _as_read(value: object, path: tuple[str | int, ...], secrets: set[tuple[str | int, ...]]) -> object:
    """What the skill gets, with a text in the place of each secret; `secrets` are their places."""
    if isinstance(value, dict):
        if is_secret(value) or is_encrypted(value):
            secrets.add(path)
            return "secret"
        read = ((key.removeprefix("$"), item) for key, item in value.items())
        return {key: _as_read(item, (*path, key), secrets) for key, item in read}
    if isinstance(value, list):
        return [_as_read(item, (*path, index), secrets) for index, item in enumerate(value)]
    return value


def _pointer(path: typing.Iterable[str | int]) -> str:
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path) or "/"
