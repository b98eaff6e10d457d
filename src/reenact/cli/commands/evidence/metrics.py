"""`reenact metrics`: what the store's runs add up to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from reenact.cli.options import JsonOption, StoreOption
from reenact.cli.screens.printing import say

if TYPE_CHECKING:
    from reenact.store.base import Store


def metrics(
    serve: Annotated[bool, typer.Option("--serve", help="Answer a scraper at /metrics until interrupted.")] = False,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="With --serve; 0 takes a free one.")] = 9464,
    address: Annotated[str, typer.Option("--address", help="With --serve: where to listen.")] = "127.0.0.1",
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print metrics of the store in Prometheus' text format, or serve them.

    Runs and their steps count once they have ended. Replays are compared, never counted as runs. What they add up to is
    kept in the store, so that the next time only what ended since is read; who may not write there counts all of it.

    Exit codes: 0 printed; 2 the address cannot be listened on, or the extra is not installed; 3 the store cannot be
    used; 130 interrupted.
    """
    require_extra()
    from reenact.telemetry.endpoint import serving
    from reenact.telemetry.store_metrics import exposition

    existing = counted_store(store)
    if serve:
        with serving(existing, port, address) as listening:
            say(f"metrics of {existing.url} at http://{address}:{listening}/metrics", err=True)
            wait_for_interrupt()
        return
    text = exposition(existing).decode()
    if as_json:
        from reenact.cli.screens.printing import print_json

        print_json(samples(text))
    else:
        say(text, nl=False)


def counted_store(url: str | None) -> Store:
    """Open to write where that may be done: what was counted is kept."""
    from reenact.cli.options import existing_store
    from reenact.errors import StoreError

    try:
        return existing_store(url, to_write=True)
    except StoreError:
        return existing_store(url)


def require_extra() -> None:
    from importlib.util import find_spec

    from reenact.errors import UsageError

    if find_spec("prometheus_client") is None:
        raise UsageError("metrics need the package prometheus-client: install reenact[telemetry]")


def wait_for_interrupt() -> None:
    import threading

    threading.Event().wait()


def samples(text: str) -> list[dict[str, object]]:
    from prometheus_client.parser import text_string_to_metric_families

    return [
        {"name": sample.name, "labels": sample.labels, "value": sample.value}
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    ]
