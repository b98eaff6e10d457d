"""Lines and commits of a journal, as bytes: what is taken away, repeated, exchanged or moved is not made to fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.tampering.forging import JOURNAL, lines_of, remade
from tests.tampering.kinds.kind import Change, Kind, both, edit
from tests.verify.changing import split_bodies

Lines = list[bytes]
RECORDS = {
    "the run record": ("plan", "run", 0),
    "a request": ("plan", "action_request", 1),
    "a decision": ("plan", "supervisor_decision", 1),
    "a call": ("plan", "tool_call", 1),
    "an attempt": ("plan", "attempt", 0),
    "an effect": ("plan", "tool_effect", 1),
    "an event": ("session", "event", 0),
    "a vote": ("session", "vote", 0),
    "a checkpoint": ("session", "checkpoint", 0),
    "a run checkpoint": ("plan", "run_checkpoint", 0),
    "the seal": ("plan", "seal", 0),
    "a commit line": ("plan", "commit", 2),
}


def place(data: bytes, kind: str, number: int) -> int:
    kinds = [
        line["entry"]["artifact_type"] if line["kind"] == "entry" and kind != "entry" else line["kind"]
        for line in lines_of(data)
    ]
    return [at for at, found in enumerate(kinds) if found == kind][number]


def at_line(kind: str, number: int, change: Callable[[Lines, int], object]) -> Change:
    def changed(data: bytes) -> bytes:
        lines = data.splitlines(keepends=True)
        change(lines, place(data, kind, number))
        return b"".join(lines)

    return both(edit(JOURNAL, changed), remade)


def deleted(lines: Lines, at: int) -> None:
    del lines[at]


def repeated(lines: Lines, at: int) -> None:
    lines.insert(at, lines[at])


def exchanged(lines: Lines, at: int) -> None:
    """With the one before it, or after it for the first."""
    other = at - 1 if at > 1 else at + 1
    lines[at], lines[other] = lines[other], lines[at]


def put_last(lines: Lines, at: int) -> None:
    lines.insert(len(lines) - 1, lines.pop(at))


def spaced(lines: Lines, at: int) -> None:
    lines[at] = lines[at].replace(b",", b", ", 1)


def grown(lines: Lines, at: int) -> None:
    """A key that no record has; where it keeps the line canonical."""
    lines[at] = lines[at].rstrip(b"}\n") + b"}" * (len(lines[at]) - 1 - len(lines[at].rstrip(b"}\n")))
    lines[at] = lines[at][:-1] + b',"zz":1}\n'


def cut(lines: Lines, at: int) -> None:
    lines[at] = lines[at][:-20] + b"\n"


OF_LINES = {
    "taken out": deleted,
    "repeated": repeated,
    "exchanged with its neighbour": exchanged,
    "put near the end": put_last,
    "written with a space": spaced,
    "with a key more": grown,
    "cut short": cut,
}


def bodies(change: Callable[[Lines], Lines]) -> Change:
    return both(edit(JOURNAL, lambda data: b"".join(change(split_bodies(data)))), remade)


def kinds() -> Iterator[Kind]:
    for name, (of, kind, number) in RECORDS.items():
        for how, change in OF_LINES.items():
            if (kind, how) != ("seal", "put near the end"):
                yield Kind(f"{name} {how}", of, at_line(kind, number, change))
    commits: dict[str, Callable[[Lines], Lines]] = {
        "the first commit taken out": lambda b: b[1:],
        "a commit in the middle taken out": lambda b: b[:2] + b[3:],
        "the last commit taken out": lambda b: b[:-1],
        "all commits but the first taken out": lambda b: b[:1],
        "two commits exchanged": lambda b: [b[0], b[2], b[1], *b[3:]],
        "a commit repeated": lambda b: [*b[:2], b[1], *b[2:]],
        "the last commit repeated": lambda b: [*b, b[-1]],
        "a commit put last": lambda b: [b[0], *b[2:], b[1]],
        "two commits made one": lambda b: [*b[:2], b[2].partition(b"\n")[2], *b[3:]],
        "a commit emptied": lambda b: [*b[:2], b[2].partition(b"\n")[0] + b"\n", *b[3:]],
        "all commits in reverse": lambda b: b[::-1],
    }
    for name, change in commits.items():
        yield Kind(name, "plan", bodies(change))
        yield Kind(f"{name}, of a session", "session", bodies(change))
    texts: dict[str, Callable[[bytes], bytes]] = {
        "an empty line in the journal": lambda data: data.replace(b"\n", b"\n\n", 1),
        "a line of text in the journal": lambda data: data.replace(b"\n", b"\nhello\n", 1),
        "a line that is no object": lambda data: data.replace(b"\n", b"\n[]\n", 1),
        "a line of a kind that nobody knows": lambda data: data.replace(b"\n", b'\n{"kind":"rumour"}\n', 1),
        "a line that is too long": lambda data: data.replace(b"\n", b"\n" + b"x" * (1 << 20) + b"\n", 1),
        "a line before the first commit": lambda data: data.splitlines(keepends=True)[2] + data,
        "the journal's last newline taken away": lambda data: data[:-1],
        "NUL in the journal": lambda data: data.replace(b":", b":\0", 1),
        "a number spelled otherwise": lambda data: data.replace(b'"n":1,', b'"n":1.0,', 1),
        "a key twice in one object": lambda data: data.replace(b'"n":1,', b'"n":1,"n":1,', 1),
        "a line after the seal": lambda data: data + data.splitlines(keepends=True)[2],
        "a commit after the seal": lambda data: data + split_bodies(data)[1],
    }
    for name, text in texts.items():
        yield Kind(name, "plan", both(edit(JOURNAL, text), remade))
    yield Kind("two commits in one row of a store", "open", lambda files: rows(files, merged), "store")
    yield Kind("the last commit in two rows of a store", "open", lambda files: rows(files, parted), "store")
    yield Kind("an unknown version of a record", "plan", at_line("run", 0, _newer))


def rows(files: dict[str, bytes], change: Callable[[Lines], Lines]) -> dict[str, bytes]:
    """What stands in each row of a store's table of commits."""
    found = change(split_bodies(files[JOURNAL]))
    return {**files, **{f"row {number:02}": data for number, data in enumerate(found)}}


def merged(found: Lines) -> Lines:
    return [found[0] + found[1], *found[2:]]


def parted(found: Lines) -> Lines:
    first, second, *others = found[-1].splitlines(keepends=True)
    return [*found[:-1], first + second, b"".join(others)]


def _newer(lines: Lines, at: int) -> None:
    lines[at] = lines[at].replace(b"reenact.run.v1", b"reenact.run.v7")
