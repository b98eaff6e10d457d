"""Every built-in skill. The registry finds them here."""

from __future__ import annotations

from reenact.builtin.email_send import email_send
from reenact.builtin.file_read import file_read
from reenact.builtin.file_write import file_write
from reenact.builtin.http_call import http_call
from reenact.builtin.json_transform import json_transform
from reenact.builtin.kv_store import kv_store
from reenact.builtin.llm_invoke import llm_invoke
from reenact.builtin.shell import shell
from reenact.builtin.webhook_send import webhook_send

SKILLS = (
    email_send,
    file_read,
    file_write,
    http_call,
    json_transform,
    kv_store,
    llm_invoke,
    shell,
    webhook_send,
)
