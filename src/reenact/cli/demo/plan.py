"""The demo's plan: ask for a price, place an order, write a receipt."""

from __future__ import annotations

from typing import Any

ORDER_STEP = "order"
CRASH_POINT = "after_dispatch:4"
"""Three attempts at the quote; the fourth dispatch is the order. It was placed, and nobody has written that down."""


def demo_plan(port: int) -> dict[str, Any]:
    host = f"127.0.0.1:{port}"
    return {
        "plan_id": "demo-order",
        "agent_id": "demo-agent",
        "goal": "Order tea, and write a receipt",
        "steps": [
            {
                "step_id": "quote",
                "skill_id": "http_call",
                "parameters": {"url": f"http://{host}/quote"},
                "retry": {"max_retries": 3, "backoff_base_ms": 100},
            },
            {
                "step_id": ORDER_STEP,
                "skill_id": "webhook_send",  # whoever receives one drops a second with the same key
                "parameters": {
                    "url": f"http://{host}/orders",
                    "payload": {"item": "{{quote.body.item}}", "price_cents": "{{quote.body.price_cents}}"},
                },
            },
            {
                "step_id": "receipt",
                "skill_id": "demo.write_receipt",
                "parameters": {"model": "demo-model", "prompt": "{{order.body.order_id}}, one tea", "max_tokens": 64},
            },
        ],
        "context": {
            "allow_hosts": [host],
            "allowed_skills": ["http_call", "webhook_send", "demo.write_receipt"],
            "budget_cents": 50,
            "prices": {"version": "demo", "models": {"demo-model": {"input": "3000000", "output": "15000000"}}},
        },
    }
