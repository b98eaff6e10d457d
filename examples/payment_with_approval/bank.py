"""A bank that deduplicates by our key, as skills. Its ledger is a file, so that anybody can count."""

from __future__ import annotations

from pathlib import Path

from reenact import SkillContext, skill

LEDGER = Path("ledger.txt")


@skill("bank.balance", version="1.0.0", tool_class="read", idempotent=True)
def balance(account: str) -> dict[str, str | int]:
    """What is left on an account."""
    return {"account": account, "cents": 100_00 - 25_00 * len(payments())}


@skill(
    "bank.pay",
    version="1.0.0",
    tool_class="write",
    honours_key=True,
    side_effects=["http_request"],
    public=["cents"],
)
def pay(ctx: SkillContext, to: str, cents: int, token: str) -> dict[str, str]:
    """Pay somebody. The bank knows our key: the same call twice is one payment."""
    ctx.side_effect("http_request", "bank.example.com")
    if ctx.idempotency_key not in payments():
        with LEDGER.open("a", encoding="utf-8") as ledger:
            ledger.write(f"{ctx.idempotency_key}\n")
    return {"receipt": f"{to}:{cents}", "authorized": "yes" if token else "no"}


def payments() -> list[str]:
    return LEDGER.read_text(encoding="utf-8").split() if LEDGER.exists() else []
