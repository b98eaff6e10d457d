"""Write `docs/reference/lint.md` from the rules and the fields that lint itself reads: `python -m tools.lint_page`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from reenact.contracts.stability import FORBIDDEN_FIELDS
from reenact.lint.findings import RULES

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "reference" / "lint.md"

_HEAD: Final = """\
# `reenact lint`

Finds skill, planner and policy code that decides on what may differ between two runs: on a forbidden field of an
outcome, or on chance. Such code breaks the promise that the same plan with the same responses behaves the same. The
code is read, never imported and never run.

```
reenact lint PATH…
```

| option | meaning |
|---|---|
| `--format text`, `json`, `sarif` | how to print the report; `--json` is short for `--format json`; SARIF is 2.1.0 |
| `--output FILE` | write the report to a file; the summary still goes to the terminal |
| `--select RN1,RN203` | only these rules; the beginning of an id stands for all that begin so |
| `--ignore RN209` | not these |
| `--exclude GLOB` | leave out files and folders with such a name or path |
| `--fail-on error`, `warning`, `note` | the least severity that makes the exit code 1; `warning` unless given |
| `--rules` | list the rules |
| `--explain RN101` | print what this page says about one rule |

| exit code | meaning |
|---|---|
| 0 | nothing found |
| 1 | something found, a syntax error among it |
| 2 | the command was called wrongly |
| 3 | a file or folder could not be read; what was found in the others is still printed |

## What is followed

Each file is checked alone, each function once, whatever it is called with. A field's value is followed from where it
is read to where it decides: through local variables, items, `get`, unpacking, the walrus, comprehensions, lambdas,
closures, f-strings and other text, arithmetic, lists and dicts. A lambda that is handed to `sorted`, `max`, `filter`,
`map` and the like gets the elements that they go through. A function, of this file or another, gives back something
made from its arguments and from the elements of lists among them. To log, return, store or pass on such a value is
fine; so is to ask whether it is there at all (`is None` and whatever else `is` asks, `in` for a key, `isinstance`).

Not followed, and so not found (`tests/lint/samples/not_followed.txt` has an example of each):

- into functions: what a helper reads of an outcome, yields, or decides with an argument, what it makes of a dict, a
  function of one's own as a key; the helper itself is checked, with what the names and types of its parameters say
- through objects: attributes, properties, methods, fields of records and named tuples, objects of a library's classes
  (`Decimal(outcome.latency_ms)`), what hangs on an object of another known type, fields of a class of one's own
  that has no outcome's `code` and `status`
- through globals that functions change
- through `*args`, `**kwargs` and `functools.partial`
- from one turn of a loop to the next, and out of a comprehension or a call that logs by a walrus
- a field that is named by a variable or a default (`outcome[name]`)
- quoted annotations that are more than a name
- an `or` whose right side calls something further inside than at its top
- the places after a star, where a list of known places is unpacked
- whole outcomes that are sorted, or of which the largest is taken
- orders: of a dict made from a set, of the difference of two dicts' keys, of `set.pop`, of `os.walk`, of what is
  yielded as a whole (`yield from names`), and of a loop over a set that only assigns
- `id()`, but where it is handed on as a function (`key=id`)
- code nested some hundred levels deep, which is reported as not analysed

The severity is **error** where the value is known to come from an outcome: by its type (`StructuredOutcome`), by the
session's call that returned it, by the name `outcome`, or by a class with an outcome's fields. It is **warning** where
the type is not known: annotate it, and a field `message` of a `Commit` is no longer a question. A branch that does
nothing but log is a **note**, which fails nothing.

## Exceptions

```python
STARTED = time.time()  # reenact: ignore[RN203] shown on the status page, nothing reads it back
```

A comment silences the rules that it names on its line, or, alone on its line, on the statement below it. A reason is
required, and a comment that silences nothing is reported.

## At run time

`reenact.contracts.stability.DecisionView(outcome)` is an outcome without its forbidden fields: reading one by
attribute, subscript, `get` or `in` raises `DeterminismViolation`, which names the field and the reason. Two views
are equal when the behaviour is.

## pre-commit

```yaml
repos:
  - repo: local
    hooks:
      - id: reenact-lint
        name: reenact lint
        entry: reenact lint
        language: system
        types: [python]
        files: ^skills/
```

The same hook is in this repository's `.pre-commit-hooks.yaml`. It gets the names of changed files."""


def render() -> str:
    """The whole page."""
    fields = [f"| `{row.field}` | {row.reason} |" for row in FORBIDDEN_FIELDS]
    table = ["## Forbidden fields", "", "| field | reason |", "|---|---|", *fields]
    index = ["## Rules", "", "| rule | name | severity | |", "|---|---|---|---|"]
    index += [
        f"| [{rule.id}](#{rule.id.lower()}-{rule.name}) | {rule.name} | {rule.severity.word} | {rule.summary} |"
        for rule in RULES.values()
    ]
    sections = [_HEAD.rstrip(), "\n".join(table), "\n".join(index), *(rule.text for rule in RULES.values())]
    return "\n\n".join(sections) + "\n"


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
