"""Write `docs/error_taxonomy.md` from the tables that the code itself reads: `python -m tools.taxonomy_page`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from reenact.policy.exception_rules import (
    FINISH_REASON,
    HTTP_STATUS,
    MODEL_STATUS,
    NETWORK_RULES,
    OTHER_RULES,
    Rule,
)
from reenact.policy.taxonomy import ALIASES, CHANGELOG, TAXONOMY, TAXONOMY_VERSION, ErrorCode

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "error_taxonomy.md"

_INTRODUCTION: Final = f"""# Error taxonomy {TAXONOMY_VERSION}

<!-- Generated from src/reenact/policy. To change it, change the tables there, then run
     python -m tools.taxonomy_page -->

Every outcome carries one of these codes, one that a skill of yours
[names itself](howto/declare_a_skill.md#how-a-failure-gets-its-code), or, where a registry refused a tool, one of
[those four](howto/isolate_agents.md#tools-of-servers). A code never changes its meaning; codes are only added. Whether
a failure is retried depends on its code alone, and on the plan's retry policy, never on a message. A plan pins the
version of the taxonomy that it was made with.
"""

_CLASSIFICATION: Final = """
## From an attempt to a code

An attempt leaves *facts*: an HTTP status, the types and errnos of a chain of exceptions, how a model ended. The code is
computed from them, in a run and in a replay alike, in this order:

1. A skill that raises `SkillError` names its code itself.
2. A status that is not 2xx: by the tables below, and `ERR_UNKNOWN` where it is no error either. Where the SDK of a
   model's provider raised it, its table goes first, and every 5xx is `ERR_LLM_API_ERROR`.
3. Anywhere in the chain of causes, looked for in this order: TLS, name resolution, timeout, broken connection. A
   timeout is `ERR_HTTP_TIMEOUT` where an HTTP library took part, else `ERR_TIMEOUT`.
4. Other types that are known, from the outermost exception inwards.
5. Any other exception is the skill's own: `ERR_INTERNAL`; without a type: `ERR_UNKNOWN`.
6. The reason why a model stopped. Else `OK`.

A subclass counts as the nearest of its bases that is known. Errnos are Linux's numbers on every system.
"""


def render() -> str:
    """The whole page."""
    return "".join(
        [
            _INTRODUCTION,
            _codes(),
            _aliases(),
            _CLASSIFICATION,
            _statuses(),
            _exceptions("TLS, name resolution, timeout, broken connection, in this order", NETWORK_RULES),
            _exceptions("Other exceptions", OTHER_RULES),
            "\n### Why a model stopped\n\n",
            _table(("reason", "code"), ((f"`{reason}`", f"`{code}`") for reason, code in FINISH_REASON.items())),
            "\n## Changes\n\n",
            _table(("version", "change"), CHANGELOG),
        ]
    )


def _codes() -> str:
    rows = (_row(code) for code in TAXONOMY.values())
    return "\n## Codes\n\n" + _table(("code", "category", "retryable", "severity", "since", "meaning"), rows)


def _row(code: ErrorCode) -> tuple[str, ...]:
    retryable = "–" if code.category == "success" else "yes" if code.retryable else "no"
    return (f"`{code.code}`", code.category, retryable, code.severity, code.since, code.meaning)


def _aliases() -> str:
    rows = ((f"`{alias}`", f"`{code}`") for alias, code in ALIASES.items())
    return "\n## Other spellings\n\n" + _table(("alias", "stands for"), rows)


def _statuses() -> str:
    http = [(str(status), f"`{code}`") for status, code in HTTP_STATUS.items()]
    http += [("other 4xx", "`ERR_HTTP_4XX`"), ("other 5xx", "`ERR_HTTP_5XX`"), ("1xx, 3xx", "`ERR_UNKNOWN`")]
    model = [(str(status), f"`{code}`") for status, code in MODEL_STATUS.items()]
    model += [("5xx", "`ERR_LLM_API_ERROR`")]
    head = ("status", "code")
    return (
        "\n### HTTP status\n\n"
        + _table(head, http)
        + "\n### HTTP status, from the SDK of a model's provider\n\n"
        + _table(head, model)
    )


def _exceptions(title: str, rules: Iterable[Rule]) -> str:
    rows = ((f"`{rule.code}`", _listed(rule)) for rule in rules)
    return f"\n### {title}\n\n" + _table(("code", "exceptions"), rows)


def _listed(rule: Rule) -> str:
    names = [f"`{root}…{name}`" for root, name in sorted(rule.names)]
    errnos = [f"errno {number}" for number in sorted(rule.errnos)]
    return ", ".join(names + errnos)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
