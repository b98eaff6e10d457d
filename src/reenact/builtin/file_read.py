"""`file_read`: one file of the workspace."""

from __future__ import annotations

import base64
import hashlib
import os
import stat
from typing import Annotated, Literal, TypedDict

from msgspec import Meta

from reenact.builtin.workspace import (
    file_errors,
    open_folder,
    parts_of,
    refuse_open_store_file,
    refuse_store_files,
    workspace_of,
)
from reenact.errors import SkillError
from reenact.skills.context import SkillContext
from reenact.skills.declare import skill
from reenact.values.envelope import LARGEST_RESULT

# O_NONBLOCK keeps the open of a pipe without a writer from waiting; such a thing is then refused.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class FileContent(TypedDict):
    path: str
    encoding: Literal["text", "base64"]
    content: str
    bytes: int
    sha256: str


@skill(
    "file_read",
    version="1.0.0",
    idempotent=True,
    tool_class="read",
    reads=["workspace"],
    permissions=["workspace"],
    failure_modes=[
        "ERR_SKILL_DISABLED", "ERR_PERMISSION_DENIED", "ERR_VALIDATION_FAILED", "ERR_DESERIALIZATION_FAILED",
        "ERR_STORAGE_QUOTA_EXCEEDED",
    ],
    tags=["files"],
)  # fmt: skip
def file_read(
    ctx: SkillContext,
    path: str,
    *,
    encoding: Literal["text", "base64"] = "text",
    max_bytes: Annotated[int, Meta(ge=1, le=1_000_000_000)] = 10_000_000,
) -> FileContent:
    """Reads one file of the plan's workspace, as UTF-8 text or as base64."""
    root, names = workspace_of(ctx, "file_read"), parts_of(path)
    refuse_store_files(ctx, root, names)
    with file_errors(), open_folder(root, names[:-1]) as folder:
        data = _read(ctx, folder, names[-1], max_bytes)
    return FileContent(
        path="/".join(names),
        encoding=encoding,
        content=_encode(data, encoding),
        bytes=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
    )


def _read(ctx: SkillContext, folder: int, name: str, max_bytes: int) -> bytes:
    with open(os.open(name, _FILE, dir_fd=folder), "rb") as file:  # noqa: PTH123 - opened by descriptor
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise SkillError.of("ERR_VALIDATION_FAILED", "path: this is not a regular file")
        refuse_open_store_file(ctx, file.fileno())
        most = min(max_bytes, LARGEST_RESULT)
        data = file.read(most + 1)
    if len(data) > most:
        advice = "raise max_bytes" if most == max_bytes else "no larger one can be recorded"
        raise SkillError.of("ERR_STORAGE_QUOTA_EXCEEDED", f"the file is larger than {most} bytes; {advice}")
    return data


def _encode(data: bytes, encoding: str) -> str:
    if encoding == "base64":
        return base64.b64encode(data).decode("ascii")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise SkillError.of(
            "ERR_DESERIALIZATION_FAILED", 'the file is not UTF-8; read it with encoding "base64"'
        ) from None
