"""Options that the commands for people share."""

from __future__ import annotations

from typing import Annotated

import typer

Reason = Annotated[str, typer.Option("--reason", help="Why; it is recorded.")]
Who = Annotated[str | None, typer.Option("--who", help="Who says so; the login name by default.")]
