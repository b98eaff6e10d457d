"""A git repository with inputs, a manifest, and a place for reports."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

TOKEN = "id: swiss # the style\npalette: [black, white]\n"
BRIEF = "Write a landing page.\n"
MANIFEST = '[project]\nname = "acme-evals"\nversion = "1.4.0"\n'


class Repository:
    def __init__(self, root: Path) -> None:
        self.root = Path(os.path.realpath(root))
        self.write("pyproject.toml", MANIFEST)
        self.write("tokens/t.yml", TOKEN)
        self.write("briefs/b.md", BRIEF)
        (self.root / "docs").mkdir()

    def write(self, name: str, content: str | bytes) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def git(self, *arguments: str) -> str:
        settings = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "core.autocrlf=false")
        done = subprocess.run(["git", *settings, *arguments], cwd=self.root, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def commit(self) -> str:
        if not (self.root / ".git").exists():
            self.git("init", "-q")
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "state")
        return self.git("rev-parse", "HEAD")

    @property
    def report(self) -> Path:
        return self.root / "docs" / "r.md"

    @property
    def inputs(self) -> dict[str, str]:
        return {"token": str(self.root / "tokens/t.yml"), "brief": str(self.root / "briefs/b.md")}
