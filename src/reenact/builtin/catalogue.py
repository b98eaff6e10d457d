"""Every built-in skill by `id@version`, and the module that declares it: imported when somebody asks for the skill."""

from __future__ import annotations

from typing import Final

MODULES: Final = {
    "email_send@1.0.0": "reenact.builtin.email_send",
    "file_read@1.0.0": "reenact.builtin.file_read",
    "file_write@1.0.0": "reenact.builtin.file_write",
    "http_call@1.2.0": "reenact.builtin.net.http_call_1_2",
    "http_call@1.3.0": "reenact.builtin.http_call",
    "json_transform@1.0.0": "reenact.builtin.json_transform",
    "kv_store@1.0.0": "reenact.builtin.kv_store",
    "llm_invoke@1.0.0": "reenact.builtin.llm.llm_invoke_1_0",
    "llm_invoke@1.1.0": "reenact.builtin.llm_invoke",
    "shell@1.0.0": "reenact.builtin.sandbox.shell_1_0",
    "shell@1.1.0": "reenact.builtin.shell",
    "webhook_send@1.0.0": "reenact.builtin.webhook_send",
}
