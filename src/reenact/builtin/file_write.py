"""`file_write`: one file of the workspace, whole or not at all."""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import os
from typing import Literal, TypedDict

from reenact.builtin.workspace import file_errors, open_folder, parts_of, refuse_store_files, workspace_of
from reenact.errors import SkillError
from reenact.skills.context import SkillContext
from reenact.skills.declare import skill

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OLD = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class FileWritten(TypedDict):
    path: str
    bytes: int
    sha256: str


@skill(
    "file_write",
    version="1.0.0",
    idempotent=True,
    tool_class="write",
    honours_key=True,  # the same content under the same name again changes nothing
    writes=["workspace"],
    side_effects=["file_written"],
    stable_fields=["path", "bytes", "sha256"],
    permissions=["workspace"],
    failure_modes=[
        "ERR_SKILL_DISABLED", "ERR_PERMISSION_DENIED", "ERR_VALIDATION_FAILED", "ERR_STORAGE_QUOTA_EXCEEDED",
    ],
    tags=["files"],
)  # fmt: skip
def file_write(
    ctx: SkillContext,
    path: str,
    content: str,
    *,
    encoding: Literal["text", "base64"] = "text",
    mode: Literal["replace", "create"] = "replace",
    make_folders: bool = False,
) -> FileWritten:
    """Writes one file of the plan's workspace: readers see the old content or the new one, never a part.

    With mode `create` a file that exists with other content is left alone and the call fails.
    """
    data = _decode(content, encoding)
    root, names = workspace_of(ctx, "file_write"), parts_of(path)
    refuse_store_files(ctx, root, names)
    relative = "/".join(names)
    with file_errors(), open_folder(root, names[:-1], create=make_folders) as folder:
        if mode == "create":
            _create(ctx, folder, names[-1], data, relative)
        else:
            _replace(ctx, folder, names[-1], data, relative)
    return FileWritten(path=relative, bytes=len(data), sha256=hashlib.sha256(data).hexdigest())


def _decode(content: str, encoding: str) -> bytes:
    if encoding == "text":
        return content.encode()
    try:
        return base64.b64decode(content, validate=True)
    except binascii.Error:
        raise SkillError.of("ERR_VALIDATION_FAILED", "content: this is not base64") from None


def _replace(ctx: SkillContext, folder: int, name: str, data: bytes, relative: str) -> None:
    draft = _write_draft(ctx, folder, data)
    try:
        ctx.side_effect("file_written", relative)
        os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        os.unlink(draft, dir_fd=folder)
        raise
    os.fsync(folder)


def _create(ctx: SkillContext, folder: int, name: str, data: bytes, relative: str) -> None:
    """A link fails where a rename would replace. The same content that stands there already is this very call's."""
    draft = _write_draft(ctx, folder, data)
    try:
        ctx.side_effect("file_written", relative)
        os.link(draft, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        if not _holds(folder, name, data):
            raise
    finally:
        os.unlink(draft, dir_fd=folder)
    os.fsync(folder)


def _write_draft(ctx: SkillContext, folder: int, data: bytes) -> str:
    draft = f".reenact-{ctx.clock.uuid7()}"
    descriptor = os.open(draft, _NEW, 0o644, dir_fd=folder)
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123 - opened by descriptor
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(draft, dir_fd=folder)
        raise
    return draft


def _holds(folder: int, name: str, data: bytes) -> bool:
    with open(os.open(name, _OLD, dir_fd=folder), "rb") as file:  # noqa: PTH123 - opened by descriptor
        return file.read(len(data) + 1) == data
