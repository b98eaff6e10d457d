"""What users may import is small, frozen, typed, quick to import, and written down with its signatures."""

from __future__ import annotations

import ast
import inspect
import json
import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

import reenact
from reenact.runtime.session.opening import SyncSession
from reenact.runtime.session.session import Session

# Adding a name is a promise for years; taking one away breaks somebody. Both are decided here, in the open.
NAMES = {
    "Policy", "Registry", "ReplayControl", "RetryPolicy", "RunResult", "Runtime", "SkillContext", "SkillError",
    "StructuredOutcome", "TgaStateStore", "ToolDenied", "ToolSpec", "__version__", "calculate_backoff_ms",
    "calculate_cost",
    "canonicalize", "check_budget", "current", "map_exception_to_code", "should_retry", "skill",
    "skill_from_schema",
}  # fmt: skip
HEAVY = {
    "anthropic", "asyncio", "cryptography", "genai_prices", "httpx2", "jsonschema_rs", "msgspec", "openai",
    "opentelemetry", "prometheus_client", "pydantic", "rich", "sqlite3", "typer", "zstandard",
}  # fmt: skip
PAGE = "docs/reference/python_api.md"
DATA_CLASSES = {"StructuredOutcome", "RunResult", "SkillContext", "SkillError"}
"""Made by Reenact and not by its users: how they are constructed is nobody's business."""


def test_the_public_names_are_these_and_no_others() -> None:
    assert set(reenact.__all__) == NAMES
    assert list(reenact.__all__) == sorted(reenact.__all__)
    assert all(getattr(reenact, name) is not None for name in NAMES)
    with pytest.raises(AttributeError, match="no attribute 'Runtimes'"):
        _ = reenact.Runtimes  # type: ignore[attr-defined]


def test_the_package_says_that_it_is_typed() -> None:
    assert files("reenact").joinpath("py.typed").is_file()


def modules_after(statement: str) -> set[str]:
    code = f"{statement}; import json, sys; print(json.dumps([name.partition('.')[0] for name in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


def test_importing_it_loads_nothing_heavy() -> None:
    assert modules_after("import reenact") & HEAVY == set()


def test_a_decision_function_needs_no_store_no_network_and_no_terminal() -> None:
    loaded = modules_after("from reenact import should_retry, check_budget, canonicalize, ReplayControl")
    assert loaded & (HEAVY - {"msgspec"}) == set()


def test_the_command_line_says_help_without_loading_a_store() -> None:
    loaded = modules_after("import reenact.cli.main")
    assert loaded & (HEAVY - {"typer", "asyncio", "rich"}) == set()


def test_every_pytest_that_loads_the_plugin_loads_nothing_heavy_with_it() -> None:
    with_pytest = modules_after("import pytest")
    assert (modules_after("import reenact.testing.plugin") - with_pytest) & HEAVY == set()


# -- the page ------------------------------------------------------------------------------------------------------


def page(root: Path) -> str:
    return (root / PAGE).read_text(encoding="utf-8")


def test_every_public_name_has_its_own_heading(root: Path) -> None:
    headings = set(re.findall(r"^##+ `(\w+)`$", page(root), re.MULTILINE))
    assert headings == NAMES


def stubs(root: Path) -> list[ast.stmt]:
    found: list[ast.stmt] = []
    for body in re.findall(r"^```pyi\n(.*?)^```$", page(root), re.MULTILINE | re.DOTALL):
        found += ast.parse(body).body
    return found


def documented(root: Path) -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef]:
    """`name` and `Class.method` as they stand on the page."""
    found: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = {}
    for statement in stubs(root):
        if isinstance(statement, ast.FunctionDef):
            found[statement.name] = statement
        elif isinstance(statement, ast.ClassDef):
            for item in statement.body:
                assert isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)
                found[f"{statement.name}.{item.name}"] = item
    return found


def shape_of_stub(stub: ast.FunctionDef | ast.AsyncFunctionDef) -> list[tuple[str, str, bool]]:
    """(name, kind, whether it has a default) of each parameter, without self and cls."""
    arguments = stub.args
    plain = [*arguments.posonlyargs, *arguments.args]
    without = len(plain) - len(arguments.defaults)
    shape = [(argument.arg, "plain", index >= without) for index, argument in enumerate(plain)]
    if arguments.vararg:
        shape.append((arguments.vararg.arg, "rest", False))
    shape += [
        (argument.arg, "keyword", default is not None)
        for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    ]
    if arguments.kwarg:
        shape.append((arguments.kwarg.arg, "rest", False))
    return [each for each in shape if each[0] not in ("self", "cls")]


def shape_of_object(value: object) -> list[tuple[str, str, bool]]:
    kinds = {
        inspect.Parameter.POSITIONAL_ONLY: "plain",
        inspect.Parameter.POSITIONAL_OR_KEYWORD: "plain",
        inspect.Parameter.KEYWORD_ONLY: "keyword",
    }
    parameters = inspect.signature(value).parameters.values()  # type: ignore[arg-type]  # all are callable
    return [
        (parameter.name, kinds.get(parameter.kind, "rest"), parameter.default is not inspect.Parameter.empty)
        for parameter in parameters
        if parameter.name not in ("self", "cls")
    ]


def real(name: str) -> object:
    owner, _, attribute = name.partition(".")
    value = Session if owner == "Session" else getattr(reenact, owner)
    if attribute in ("", "__init__"):
        return value
    return getattr(value, attribute)


def test_every_signature_on_the_page_is_the_real_one(root: Path) -> None:
    told = documented(root)
    assert told
    for name, stub in told.items():
        assert shape_of_stub(stub) == shape_of_object(real(name)), name
        assert isinstance(stub, ast.AsyncFunctionDef) == inspect.iscoroutinefunction(real(name)), name


def test_every_function_and_every_class_that_users_make_shows_its_signature(root: Path) -> None:
    told = documented(root)
    for name in NAMES - {"__version__"} - DATA_CLASSES:
        value = getattr(reenact, name)
        assert (f"{name}.__init__" if inspect.isclass(value) else name) in told, name


def test_every_default_on_the_page_is_the_real_one(root: Path) -> None:
    for name, stub in documented(root).items():
        parameters = inspect.signature(real(name)).parameters  # type: ignore[arg-type]  # all are callable
        plain = [*stub.args.posonlyargs, *stub.args.args]
        shown = list(zip(reversed(plain), reversed(stub.args.defaults), strict=False))
        shown += [(a, d) for a, d in zip(stub.args.kwonlyargs, stub.args.kw_defaults, strict=True) if d is not None]
        for argument, default in shown:
            if not (isinstance(default, ast.Constant) and default.value is ...):
                assert ast.literal_eval(default) == parameters[argument.arg].default, f"{name}: {argument.arg}"


def test_a_sync_session_can_do_what_an_async_one_can() -> None:
    def public(value: type) -> set[str]:
        return {name for name in vars(value) if not name.startswith("_")}

    done_by_the_block = {
        "cancel_calls",
        "close",
        "explain_failure",
        "go_on_in",
        "leave",
        "quiet",
        "record_unanswered",
        "refuse_not_asked",
        "settle_voted",
    }
    asked_by_the_front = {"answer", "answer_at_once", "answers", "ask", "told_now"}
    assert public(Session) - public(SyncSession) == done_by_the_block | asked_by_the_front
    for name in public(SyncSession) - {"run_id", "spent_exact", "waiting"}:
        assert shape_of_object(getattr(SyncSession, name)) == shape_of_object(getattr(Session, name)), name
