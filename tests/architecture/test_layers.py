"""A module imports only from its own row or one above it. This table is the one truth."""

from __future__ import annotations

import ast
import re
from pathlib import Path

SRC = Path(__file__).resolve().parents[2] / "src" / "reenact"

ROWS: list[tuple[str, ...]] = [
    ("errors", "version", "lazy"),
    ("values",),
    ("trace",),
    ("contracts",),
    ("policy",),
    ("skills",),
    ("journal",),
    ("verify",),
    ("store",),
    ("record",),
    ("builtin", "planners"),
    ("runtime",),
    ("replay",),
    ("provenance",),
    ("telemetry", "witness"),
    ("evals",),
    ("testing", "lint"),
    ("cli",),
]
ROOMS: dict[str, set[str]] = {
    "builtin": {"llm", "net", "sandbox", "transform"},
    "cli": {"commands", "commands/evidence", "commands/log", "commands/people", "commands/plans", "commands/reports",
            "commands/runs", "demo", "screens"},
    "policy": {"secrets"},
    "provenance": {"capture", "sidecar", "verify", "yaml"},
    "record": {"archive", "repair", "tga", "training"},
    "replay": {"compare", "forecast", "modes", "shadow", "sources"},
    "runtime": {"call", "effects", "gates", "people", "plans", "session", "session/answering", "session/models",
                "writing"},
    "skills": {"schema"},
    "store": {"beside", "checks", "copying", "doctor", "keys", "log",
              "postgres", "postgres/copied", "postgres/doctor", "postgres/evidence", "postgres/log", "postgres/opened",
              "postgres/roles", "postgres/signed", "postgres/writing",
              "sqlite", "sqlite/copied", "sqlite/doctor", "sqlite/evidence", "sqlite/listed", "sqlite/log",
              "sqlite/opened", "sqlite/signed", "sqlite/trouble"},
    "verify": {"calls", "files", "log", "signed"},
}  # fmt: skip
"""Sub-packages. A new one is decided here, and says in its docstring what it is for."""
RANK = {name: rank for rank, row in enumerate(ROWS) for name in row}

# Parts that must not trust what they check, or that must stay usable alone, import only these: a run can be read
# without the engine that wrote it.
ONLY = {
    "trace": {"errors", "lazy", "values", "trace"},
    "verify": {"errors", "lazy", "values", "trace", "verify"},
    "record": {"errors", "version", "values", "trace", "contracts", "policy", "journal", "verify", "store", "record"},
    "provenance": {"errors", "values", "contracts", "provenance"},
    "lint": {"errors", "values", "contracts", "policy", "lint"},
    "builtin": {"errors", "values", "contracts", "policy", "skills", "builtin"},
    "planners": {"errors", "values", "contracts", "policy", "skills", "builtin", "planners"},
}


def part(path: Path) -> str:
    relative = path.relative_to(SRC)
    return relative.parts[0].removesuffix(".py")


def imported_parts(path: Path) -> set[tuple[str, int]]:
    """Parts of reenact that a file imports anywhere: under TYPE_CHECKING and inside functions too."""
    found: set[tuple[str, int]] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute"
            names = [node.module or ""]
            if node.module == "reenact":
                names = [f"reenact.{alias.name}" for alias in node.names]
        else:
            continue
        found |= {(name.split(".")[1], node.lineno) for name in names if name.startswith("reenact.")}
    return found


def sources() -> list[Path]:
    return [path for path in sorted(SRC.rglob("*.py")) if path != SRC / "__init__.py"]


def test_the_rooms_are_these_and_no_others() -> None:
    found: dict[str, set[str]] = {}
    for path in SRC.rglob("*/*/__init__.py"):
        part_name, *rest = path.parent.relative_to(SRC).parts
        found.setdefault(part_name, set()).add("/".join(rest))
    assert found == ROOMS


def test_every_part_has_a_row() -> None:
    assert {part(path) for path in sources()} <= set(RANK) | {"__main__"}


def test_imports_point_to_the_same_row_or_one_above() -> None:
    wrong = [
        f"{path.relative_to(SRC)}:{line} imports {target}"
        for path in sources()
        if part(path) in RANK
        for target, line in imported_parts(path)
        if RANK.get(target, -1) > RANK[part(path)]
    ]
    assert wrong == []


def test_parts_that_stand_alone_import_only_what_they_may() -> None:
    wrong = [
        f"{path.relative_to(SRC)}:{line} imports {target}"
        for path in sources()
        if part(path) in ONLY
        for target, line in imported_parts(path)
        if target not in ONLY[part(path)]
    ]
    assert wrong == []


def test_of_what_writes_the_journal_only_derived_tables_are_checked_with_it() -> None:
    """What recovery starts from is the writer's own state, and is folded again as the writer does; evidence is not."""
    store = SRC / "store"
    checking = ["naming.py", "evidence.py", "envelopes.py"]
    for folder in ("checks", "sqlite/evidence"):
        checking += [f"{folder}/{path.name}" for path in (store / folder).glob("*.py")]
    using = {
        name
        for name in checking
        for target, _ in imported_parts(SRC / "store" / name)
        if target in ("journal", "runtime")
    }
    assert using == {"checks/derived.py"}


DATABASES = ("sqlite3", "psycopg")
ENGINES = ("sqlite", "postgres")


def imported_modules(path: Path) -> set[str]:
    """Every module that a file names in an import, anywhere in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def test_only_an_engine_names_its_database_and_only_store_open_names_an_engine() -> None:
    wrong = []
    for path in sources():
        here = path.relative_to(SRC).as_posix()
        engine = here.split("/")[1] if here.startswith(tuple(f"store/{name}/" for name in ENGINES)) else None
        for name in sorted(imported_modules(path)):
            if engine is None and name.split(".")[0] in DATABASES:
                wrong.append(f"{here} imports {name}")
            named = name.split(".")[2] if name.startswith("reenact.store.") else None
            if named in ENGINES and named != engine and here != "store/open.py":
                wrong.append(f"{here} imports {name}")
    assert wrong == []


SQL = re.compile(r"\b(SELECT \w.* FROM|INSERT (OR \w+ )?INTO|DELETE FROM|UPDATE \w+ SET|CREATE TABLE|PRAGMA) ")


def test_what_the_engines_share_holds_no_sql() -> None:
    wrong = [
        f"{path.relative_to(SRC)}:{node.lineno}"
        for path in sources()
        if not path.relative_to(SRC).as_posix().startswith(tuple(f"store/{name}/" for name in ENGINES))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and SQL.search(node.value)
    ]
    assert wrong == []


def module_name(path: Path) -> str:
    parts = ["reenact", *path.relative_to(SRC).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def fan_out(path: Path, modules: set[str]) -> set[str]:
    """Other modules of reenact that a file imports anywhere: under TYPE_CHECKING and inside functions too."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.split(".")[0] == "reenact"}
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.module.split(".")[0] == "reenact":
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= names & modules
            if not names <= modules:
                found.add(node.module)
    return found - {module_name(path)}


def test_no_module_imports_more_than_20_others() -> None:
    modules = {module_name(path) for path in sources()}
    imported = {module_name(path): len(fan_out(path, modules)) for path in sources()}
    assert {name: count for name, count in imported.items() if count > 20} == {}


def module_graph() -> dict[str, set[str]]:
    modules = {module_name(path): path for path in sources()}
    graph: dict[str, set[str]] = {name: set() for name in modules}
    for name, path in modules.items():
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("reenact"):
                for alias in node.names:
                    module = f"{node.module}.{alias.name}"
                    target = module if module in modules else node.module
                    if target in modules and target != name:
                        graph[name].add(target)
    return graph


def test_no_import_cycles() -> None:
    graph = module_graph()
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, "import cycle: " + " → ".join((*path, name))
        if name in done:
            return
        for target in sorted(graph[name]):
            visit(target, (*path, name))
        done.add(name)

    for name in graph:
        visit(name, ())


def test_no_file_is_longer_than_500_lines_and_no_function_longer_than_60() -> None:
    long = []
    for path in sources():
        text = path.read_text(encoding="utf-8")
        if text.count("\n") > 500:
            long.append(f"{path.relative_to(SRC)}: {text.count(chr(10))} lines")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or 0) - node.lineno + 1
                if length > 60:
                    long.append(f"{path.relative_to(SRC)}:{node.lineno}: {node.name} has {length} lines")
    assert long == []


def test_salted_hash_appears_nowhere() -> None:
    calls = [
        f"{path.relative_to(SRC)}:{node.lineno}"
        for path in sources()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "hash"
    ]
    assert calls == []


def test_a_folder_holds_about_a_dozen_files() -> None:
    folders = {path.parent for path in sources()}
    files = {folder.relative_to(SRC).as_posix(): len(list(folder.glob("*.py"))) for folder in folders}
    assert {folder: count for folder, count in files.items() if count > 16} == {}


def test_no_unused_argument_is_excused() -> None:
    """What an interface passes and nobody needs is named so: `_ctx, /`."""
    excused = [
        f"{path.relative_to(SRC)}:{number}"
        for path in sources()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if "noqa" in line and re.search(r"\bARG\d*\b", line)
    ]
    assert excused == []
