"""docs/howto/share_a_store.md and docs/scale.md: what they show is what happens, on a real server."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.docs.running import environment, run_page
from tests.postgres.server import Server

DATABASE = "shared"
ROLES = ("owner", "worker", "auditor")


def test_what_the_page_shows_is_what_happens(
    root: Path, postgres: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = root / "docs" / "howto" / "share_a_store.md"
    postgres.add_database(DATABASE, owner="postgres")
    for role in ROLES:
        monkeypatch.setenv(role.upper(), postgres.url(database=DATABASE, role=role))
    monkeypatch.setenv("ADMIN", f"host={postgres.home} port={postgres.port} user=postgres dbname={DATABASE}")
    monkeypatch.setenv("PATH", f"{postgres.binaries.folder}{os.pathsep}{os.environ['PATH']}")
    words = "".join(f"ALTER ROLE {role} LOGIN PASSWORD '{postgres.password}';\n" for role in ROLES)
    (tmp_path / "passwords.sql").write_text(words, encoding="utf-8")
    try:
        run_page(page, tmp_path, page.name)
    finally:
        postgres.execute(f"DROP DATABASE {DATABASE} WITH (FORCE)")
        for role in (*ROLES, "reenact_eraser"):
            postgres.execute(f"DROP ROLE IF EXISTS {role}")


def test_what_the_page_about_scale_shows_is_what_happens(
    root: Path, postgres: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, database = root / "docs" / "scale.md", "scale"
    postgres.add_database(database)
    url = postgres.url(database=database)
    monkeypatch.setattr("tests.docs.running.environment", lambda folder: {**environment(folder), "REENACT_STORE": url})
    monkeypatch.setenv("DATABASE", url)
    monkeypatch.setenv("PATH", f"{postgres.binaries.folder}{os.pathsep}{os.environ['PATH']}")
    try:
        run_page(page, tmp_path, page.name)
    finally:
        postgres.execute(f"DROP DATABASE {database} WITH (FORCE)")
