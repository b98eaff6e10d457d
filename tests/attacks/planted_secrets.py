"""Campaign: secrets of many kinds come back through every door, in every encoding, and nothing that is left holds one.

    python -m tests.attacks.planted_secrets [SECRETS] [SEED] [DOORS A SECRET]      SHARE=1/4 takes every fourth batch

Each secret is bound by the host, handed to a skill, and given back in all encodings at once: as output, as the name of
a field, in errors, progress, side effects, by every built-in skill, in plans and in sessions. Then all that is left is
searched: the database byte by byte and cell by cell, bundles, temporary files, notices, logs, spans, metrics, results,
histories and conversations, what commands show.
"""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os
import random
import re
import string
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiosmtpd.smtp import SMTP, Envelope, Session
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry, generate_latest

from reenact import Runtime, SkillContext, SkillError, StructuredOutcome, skill
from reenact.builtin.llm.messages import ModelRequest
from reenact.builtin.llm.stub import STUB_SERVICE
from reenact.builtin.llm.translation import texts_of
from reenact.record.export import export_run
from reenact.record.training.dataset import write_dataset
from reenact.runtime.listeners import Notice
from reenact.runtime.structured_log import StructuredLog
from reenact.store.checks.verification import verify_run
from reenact.store.sqlite.connection import Connection
from reenact.telemetry.metrics import RuntimeMetrics
from reenact.telemetry.spans import Spans
from tests.attacks.encodings import ENCODINGS, folded, in_base64
from tests.builtin.servers import Request, Server
from tests.builtin.test_email_send import Inbox, serving
from tests.cli.harness import Command
from tests.secrets.planting import readings, rows
from tests.simulation.schedule import memory_folder

BATCH = 10
"""What is left of a batch is searched for each of its secrets: that grows with the square."""
SHORTEST_PIECE = 12


@dataclass(frozen=True)
class Planted:
    """A secret as its host has it, and what of it opens the door."""

    name: str
    value: str
    core: str


def plant(number: int, chance: random.Random) -> Planted:
    plain = "".join(chance.choices(string.ascii_letters + string.digits, k=24)) + "7x"
    odd = "".join(chance.choices(string.ascii_letters + string.digits + "<>&\"'\\/+=%? ü", k=24)).strip() + "a7"
    kinds = [
        (plain, plain), (odd, odd), (f"Bearer {plain}", plain), (f"agent:{plain}", plain),
        (f"postgres://agent:{plain}@db.example.com/main", plain),
        (f"https://hooks.example.com/services/T0/{plain}", plain),
        (f"https://blob.example.com/c?sv=1&sig={plain}", plain), (f"sid={plain}; theme=dark", plain),
        (f"-----BEGIN KEY-----\n{plain}{plain[::-1]}\nQ{plain}\n-----END KEY-----", plain + plain[::-1]),
        (json.dumps({"type": "account", "private_key": plain}), plain),
    ]  # fmt: skip
    value, core = kinds[number % len(kinds)]
    return Planted(f"PLANTED_{number}", value, core)


def disguised(text: str) -> dict[str, str]:
    return {name: encode(text) for name, encode in ENCODINGS.items()}


def spelt(text: str) -> dict[str, Any]:
    """What a list says item by item."""
    return {
        "hex": [f"{byte:02x}" for byte in text.encode()],
        "octal": [f"0o{byte:o}" for byte in text.encode()],
        "by place": {str(at): byte for at, byte in enumerate(text.encode())},
        "lines": folded(in_base64(text), 16, "|").split("|"),
    }


def core_of(secret: str) -> str:
    return CORES.get(secret, secret)


CORES: dict[str, str] = {}
BATCH_NOW: list[Planted] = []


@skill("leak", version="1.0.0", tool_class="write", honours_key=True, side_effects=["http_request"])
def leak(ctx: SkillContext, door: str, secret: str) -> Any:
    secret = secret.removeprefix("key ")
    core = core_of(secret)
    said = {
        **disguised(secret),
        **({} if core == secret else {f"core {name}": t for name, t in disguised(core).items()}),
    }
    together = " | ".join(said.values())
    match door:
        case "output":
            return said
        case "lists":
            return {
                "bytes": list(secret.encode()),
                "characters": list(secret),
                "deep": [[list(core.encode())]],
                **spelt(core),
            }
        case "names":
            return {text: name for name, text in said.items()}
        case "text":
            return together
        case "exception":
            raise ValueError(together)
        case "cause":
            raise RuntimeError("wrapped") from KeyError(together)
        case "details":
            raise SkillError.of("ERR_VALIDATION_FAILED", together, about=said)
        case "progress":
            for text in said.values():
                ctx.progress(text)
        case "target":
            for text in said.values():
                ctx.side_effect("http_request", text)
        case "report":
            ctx.request_id(together)
            ctx.finish_reason(together)
            ctx.response(said)
        case "exit":
            raise SystemExit(together)
    return None


@skill("say", version="1.0.0", tool_class="read")
def say(name: str) -> str:
    """What a model may call: it knows a name, and the tool has the secret from elsewhere."""
    return " | ".join(disguised(next(planted.value for planted in BATCH_NOW if planted.name == name)).values())


def voice(request: ModelRequest) -> dict[str, Any]:
    """A model that says again what it was told, or asks for a tool."""
    told = texts_of(request.messages[-1].get("content"))
    if told.startswith("PLANTED_"):
        return {"text": "", "tool_calls": [{"name": "say", "arguments": {"name": told}}]}
    return {"text": " | ".join(disguised(told).values())}


async def echo(request: Request, writer: asyncio.StreamWriter) -> None:
    body = json.dumps({"headers": request.headers, "target": request.target, "body": request.body.decode()}).encode()
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
    await writer.drain()


class Careless(Inbox):
    """A mail server that says again what it was sent, and refuses it."""

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        assert isinstance(envelope.content, bytes)
        said = envelope.content.decode().partition("\r\n\r\n")[2]
        return "554 refused: " + " ".join(said.split())[:400]


LEAKS = ["output", "lists", "names", "text", "exception", "cause", "details", "progress", "target", "report", "exit"]
BUILTIN = [
    "http_call", "webhook_send", "email_send", "kv_store", "json_transform", "llm_invoke", "file_read", "file_write",
    "shell",
]  # fmt: skip
DOORS = [*LEAKS, *BUILTIN, "step", "step that raises", "tool of a model", "plan"]


@dataclass
class Left:
    """Everything that came of a batch, besides its files."""

    folder: Path
    notices: list[Notice] = field(default_factory=list)
    log: io.BytesIO = field(default_factory=io.BytesIO)
    logged: io.StringIO = field(default_factory=io.StringIO)
    spans: InMemorySpanExporter = field(default_factory=InMemorySpanExporter)
    metrics: CollectorRegistry = field(default_factory=CollectorRegistry)
    returned: list[object] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)

    @property
    def workspace(self) -> Path:
        """What a call writes here, it was asked to write."""
        return self.folder / "work"

    def traced(self) -> Spans:
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self.spans))
        return Spans(provider, capture_content=True)

    @property
    def url(self) -> str:
        return f"sqlite:///{self.folder}/store.db"


def builtin_call(door: str, planted: Planted, server: Server, mail: int, left: Left) -> tuple[Any, dict[str, str]]:
    """(parameters, secrets at their pointers)"""
    at = planted.name
    match door:
        case "http_call":
            return {"url": server.url, "method": "POST", "body": {"a": 1}}, {"/body/a": at}
        case "webhook_send":
            return {"url": server.url, "payload": {"a": 1}}, {"/payload/a": at}
        case "email_send":
            to = {"to": ["ann@example.org"], "subject": "Hello", "sender": "agent@example.com", "body": ""}
            return {**to, "smtp_host": "127.0.0.1", "smtp_port": mail, "security": "none"}, {"/body": at}
        case "kv_store":
            return {"operation": "set", "key": f"k{planted.name}", "value": ""}, {"/value": at}
        case "json_transform":
            return {"operation": "extract", "data": {"a": 1}, "path": "a"}, {"/data/a": at}
        case "llm_invoke":
            return {"model": "stub", "messages": [{"role": "user", "content": ""}]}, {"/messages/0/content": at}
        case "file_write":
            return {"path": f"{planted.name}.out", "content": ""}, {"/content": at}
        case "shell":
            (left.workspace / "said").write_text(" | ".join(disguised(planted.value).values()), encoding="utf-8")
            return {"argv": ["sh", "-c", "cat; cat said; cat said >&2; exit 3"], "stdin": ""}, {"/stdin": at}
    (left.workspace / f"{planted.name}.txt").write_text(" | ".join(disguised(planted.value).values()), encoding="utf-8")
    return {"path": f"{planted.name}.txt"}, {}


async def in_a_session(
    runtime: Runtime, left: Left, server: Server, mail: int, work: list[tuple[Planted, str]]
) -> None:
    context = {
        "allow_hosts": [server.name, f"127.0.0.1:{mail}"], "workspace": str(left.workspace),
        "shell": {"allow": True, "confine": "best-effort"},
    }  # fmt: skip
    async with runtime.session(context=context) as session:
        left.runs.append(session.run_id)
        for planted, door in work:
            if door.startswith("step"):

                def body(value: str = planted.value, *, raises: bool = door != "step") -> dict[str, str]:
                    if raises:
                        raise ValueError(" | ".join(disguised(value).values()))
                    return disguised(value)

                with suppress(ValueError):  # the program's own, which it has anyway
                    left.returned.append(repr(await session.step(body)))
            elif door == "tool of a model":
                asked = await session.call("llm_invoke", {"model": "stub", "prompt": planted.name})
                left.returned += [asked, *[await session.call_tool(each) for each in asked.output["tool_calls"]]]
            elif door in BUILTIN:
                parameters, secrets = builtin_call(door, planted, server, mail, left)
                left.returned.append(await session.call(door, parameters, secrets=secrets))
            else:
                left.returned.append(await session.call("leak", {"door": door}, secrets={"/secret": planted.name}))
        left.returned.append(await session.history())
        for style in ("openai", "anthropic"):
            left.returned.append(await session.conversation(style=style))


def in_a_plan(runtime: Runtime, left: Left, work: list[tuple[Planted, str]]) -> None:
    steps = [
        {
            "step_id": f"s{index}", "skill_id": "leak", "on_error": "continue",
            "parameters": {"door": LEAKS[index % len(LEAKS)], "secret": {"$secret": planted.name, "prefix": "key "}},
        }
        for index, (planted, _) in enumerate(work)
    ]  # fmt: skip
    result = runtime.run({"plan_id": "planted", "agent_id": "agent", "steps": steps})
    left.runs.append(result.run_id)
    left.returned += [result.outcomes, repr(result)]


FOLDS = re.compile(rb"(?:=?(?:\r?\n|\\+r\\+n|\\+n)|\s)+")
"""Line ends, also as JSON and Python write them, and blanks."""


def pieces(planted: Planted) -> Iterator[tuple[str, bytes]]:
    """What must be nowhere: of each encoding the middle half, so that less than the whole is found too."""
    for text in {planted.value, planted.core}:
        for name, written in {**disguised(text), "characters": json.dumps(list(text))}.items():
            for form in {written.encode(), json.dumps(written)[1:-1].encode()}:
                piece = FOLDS.sub(b"", form)
                piece = piece[len(piece) // 4 : -(len(piece) // 4) or None]
                if len(piece) >= SHORTEST_PIECE:
                    yield name, piece


def searched(left: Left) -> Iterator[tuple[str, bytes]]:
    for path in sorted(left.folder.rglob("*")):
        if path.is_file() and left.workspace not in path.parents:
            yield path.name, path.read_bytes()
    with closing(Connection(str(left.folder / "store.db"))) as connection:
        read = (readings(connection, table, cell) for table, row in rows(connection.db) for cell in row)
        yield "cells", b"\n".join(cell for cells in read for cell in cells)
    yield "log", left.log.getvalue()
    yield "metrics", generate_latest(left.metrics)
    for name, said in (
        ("notices", repr(left.notices)), ("process log", left.logged.getvalue()), ("returned", repr(left.returned)),
        ("spans", "".join(span.to_json() for span in left.spans.get_finished_spans())),
    ):  # fmt: skip
        yield name, said.encode("utf-8", "backslashreplace")
    command = Command(left.folder)
    shown = [(name, run_id, *more) for run_id in left.runs for name, *more in SHOWN]
    for arguments in (*shown, ("doctor",), ("doctor", "--json"), ("lint", "--json", str(left.folder / "bundles"))):
        done = command(*arguments)
        yield " ".join(arguments), (done.out + done.err).encode("utf-8", "backslashreplace")


SHOWN = (("show", "--values", "--json"), ("show", "--values"), ("verify",))


def was_refused(outcome: StructuredOutcome) -> bool:
    return "gate" in (outcome.details or {})


def one_batch(folder: Path, batch: list[Planted], work: list[tuple[Planted, str]], counts: Counter[str]) -> list[str]:
    left = Left(folder)
    left.workspace.mkdir()
    (folder / "temporary").mkdir()
    handler, root = logging.StreamHandler(left.logged), logging.getLogger()
    root.addHandler(handler)
    BATCH_NOW[:] = batch
    CORES.clear()
    CORES.update({planted.value: planted.core for planted in batch})
    before, tempfile.tempdir = tempfile.tempdir, str(folder / "temporary")
    listeners = [left.notices.append, StructuredLog(left.log, redact=str), RuntimeMetrics(left.metrics), left.traced()]
    runtime = Runtime(
        left.url, skills=[leak, say], secrets={planted.name: planted.value for planted in batch}, listeners=listeners
    )
    runtime.services[STUB_SERVICE] = voice
    try:
        with Server(echo) as server, serving(Careless()) as mail:
            asyncio.run(in_a_session(runtime, left, server, mail, [each for each in work if each[1] != "plan"]))
            in_a_plan(runtime, left, [each for each in work if each[1] == "plan"] or work[:1])
            for run_id in left.runs:
                export_run(str(left.folder / "store.db"), run_id, left.folder / "bundles" / run_id)
                assert verify_run(left.url, run_id).exit_code == 0
            write_dataset(runtime.store, left.runs, left.folder / "bundles" / "training")
            refused = [each for each in left.returned if isinstance(each, StructuredOutcome) and was_refused(each)]
            assert refused == [], f"a door that was shut is not searched: {refused}"
            tempfile.tempdir = before  # what is left there is searched with the rest
            places = list(searched(left))
    finally:
        tempfile.tempdir = before
        root.removeHandler(handler)
        runtime.close()
    looked_for: dict[bytes, list[str]] = {}
    """Each piece once, with whose it is and how that may be written."""
    for planted in batch:
        for name, piece in pieces(planted):
            looked_for.setdefault(piece, []).append(f"{planted.name} ({name})")
    counts["bytes searched"] += sum(len(data) for _, data in places)
    counts["pieces looked for"] += len(looked_for)
    unfolded = [(where, FOLDS.sub(b"", data)) for where, data in places]
    found = ((where, whose) for where, data in unfolded for piece, whose in looked_for.items() if piece in data)
    return [f"{each} in {where}" for where, whose in found for each in whose]


def campaign(secrets: int, seed: int, doors_each: int, share: str = "1/1") -> tuple[list[str], Counter[str]]:
    chance, counts, found = random.Random(seed), Counter[str](), list[str]()
    planted = [plant(number, chance) for number in range(secrets)]
    part, parts = map(int, share.split("/"))
    for start in range((part - 1) * BATCH, secrets, parts * BATCH):
        batch = planted[start : start + BATCH]
        work: list[tuple[Planted, str]] = []
        turn = start * min(doors_each, len(DOORS))
        for each in batch:
            for _ in range(min(doors_each, len(DOORS))):
                work.append((each, DOORS[turn % len(DOORS)]))
                counts[f"through {DOORS[turn % len(DOORS)]}"] += 1
                turn += 1
        with tempfile.TemporaryDirectory(dir=memory_folder()) as folder:
            found += one_batch(Path(folder), batch, work, counts)
        counts["secrets"] += len(batch)
        counts["planted"] += len(work) * len(ENCODINGS)
    return found, counts


def main() -> int:
    given = [int(text) for text in sys.argv[1:]]
    secrets, seed, doors = (*given, *(200, 20261116, len(DOORS))[len(given) :])
    began = time.monotonic()
    found, counts = campaign(secrets, seed, doors, os.environ.get("SHARE", "1/1"))
    for name, count in sorted(counts.items()):
        sys.stdout.write(f"{count:>12,} {name}\n")
    sys.stdout.write(f"seed {seed}, {len(ENCODINGS)} encodings, {time.monotonic() - began:.0f} s, {len(found)} found\n")
    for each in found[:50]:
        sys.stdout.write(f"FOUND {each}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
