"""Parts of several bundles as one: older states of a run, other runs, runs that it continues."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tools.vectors.pieces import uid
from tools.vectors.scenarios import refusals, three_steps
from tools.vectors.writer import bundle_files

from tests.tampering.evidence import PROOF, dressed, whole
from tests.tampering.forging import JOURNAL, Forgery, envelopes, remade, with_envelopes
from tests.tampering.kinds.kind import Change, Files, Kind, both, drop, edit
from tests.verify.changing import split_bodies

SIGNED = ("seal.json", "seal.note", "notes.jsonl", PROOF)
PARENT = f"parents/{uid(0x1)}/"


def rolled_back(commits: int, *left: str) -> Change:
    """The run as it was after so many commits, with payloads that fit; `left` of what tells of its end stays."""

    def changed(files: Files) -> Files:
        made = {name: data for name, data in files.items() if name not in set(SIGNED) - set(left)}
        made = {name: data for name, data in made.items() if name not in ("REPLAY.jsonl", "RECEIPT.json")}
        made[JOURNAL] = b"".join(split_bodies(files[JOURNAL])[:commits])
        named = {name: data for name, data in envelopes(files).items() if name.encode() in made[JOURNAL]}
        return remade(with_envelopes(made, named))

    return changed


def older(files: Files) -> Files:
    """An earlier export of the same run, while it was not sealed, with the notes of today."""
    made = bundle_files(three_steps(seal=False))
    return remade({**made, "notes.jsonl": files["notes.jsonl"], "keys.json": files["keys.json"]})


def from_other(*names: str, other: str = "refusals") -> Change:
    """Files of another run of the same store, each whole and signed."""
    return lambda files: remade({**files, **{name: whole(other)[name] for name in names}})


def spliced(change: Callable[[list[bytes], list[bytes]], list[bytes]]) -> Change:
    """The commits of two runs of one store."""

    def changed(files: Files) -> Files:
        other = whole("refusals")
        mine, his = split_bodies(files[JOURNAL]), split_bodies(other[JOURNAL])
        both_of = {**envelopes(files), **envelopes(other)}
        return remade(with_envelopes({**files, JOURNAL: b"".join(change(mine, his))}, both_of))

    return changed


def of_parent(change: Change, *, manifest: bool = True) -> Change:
    """In the bundle of the run that is continued."""

    def changed(files: Files) -> Files:
        inner = {name.removeprefix(PARENT): data for name, data in files.items() if name.startswith(PARENT)}
        outer = {name: data for name, data in files.items() if not name.startswith(PARENT)}
        made = {**outer, **{f"{PARENT}{name}": data for name, data in change(inner).items()}}
        return remade(made) if manifest else made

    return changed


def moved(files: Files) -> Files:
    """The other bundle in a folder of another name."""
    return remade({name.replace(PARENT, f"parents/{uid(0x99)}/"): data for name, data in files.items()})


def kinds() -> Iterator[Kind]:
    yield Kind("rolled back to before its last commit", "plan", rolled_back(5))
    yield Kind("rolled back to its first commit", "plan", rolled_back(1))
    yield Kind("rolled back, and the seal's copy left", "plan", rolled_back(5, "seal.json"))
    yield Kind("rolled back, and the note about the seal left", "plan", rolled_back(5, "notes.jsonl"))
    yield Kind("rolled back, and the note's copy left", "plan", rolled_back(5, "seal.note"))
    yield Kind("rolled back, and the proof left", "plan", rolled_back(5, PROOF))
    yield Kind("an older export of the run with the notes of today", "plan", older)
    yield Kind("a session rolled back to before the vote", "session", rolled_back(3))
    yield Kind("a replaced key's run rolled back to before that", "replaced", rolled_back(1, "notes.jsonl"))
    for names in (
        ("seal.json",),
        ("seal.note",),
        ("notes.jsonl",),
        ("plan.json",),
        (PROOF,),
        ("journal.jsonl",),
        ("seal.json", "seal.note", "notes.jsonl"),
        ("seal.json", "seal.note", "notes.jsonl", PROOF),
        ("REPLAY.jsonl", "RECEIPT.json"),
        ("journal.jsonl", "seal.json", "seal.note", "notes.jsonl"),
    ):
        yield Kind(f"{', '.join(names)} of another run of the store", "plan", from_other(*names))
    yield Kind("the commits of another run appended", "plan", spliced(lambda mine, his: mine + his))
    yield Kind("the first commit of another run", "plan", spliced(lambda mine, his: [his[0], *mine[1:]]))
    yield Kind(
        "a commit of another run in the middle", "plan", spliced(lambda mine, his: [*mine[:2], his[1], *mine[2:]])
    )
    yield Kind("the last commit of another run", "plan", spliced(lambda mine, his: [*mine[:-1], his[-1]]))
    yield Kind("the whole bundle of another run under this run's manifest", "plan", _under_the_manifest)
    yield Kind("a step of another run in the place of one", "packed", _step_of_another)
    yield Kind("the run that is continued taken away", "continued", lambda files: remade(_outer(files)))
    yield Kind("the run that is continued taken away, the manifest as it was", "continued", _outer)
    yield Kind("the run that is continued under another name", "continued", moved)
    yield Kind(
        "another run in the place of the one that is continued",
        "continued",
        of_parent(lambda inner: dressed(refusals())),
    )
    yield Kind(
        "a bit of the run that is continued",
        "continued",
        of_parent(both(edit(JOURNAL, lambda data: data.replace(b"r-7", b"r-8")), remade)),
    )
    yield Kind(
        "a bit of the run that is continued, its manifest as it was",
        "continued",
        of_parent(edit(JOURNAL, lambda data: data.replace(b"r-7", b"r-8")), manifest=False),
    )
    yield Kind(
        "the manifest of the run that is continued, the outer one as it was",
        "continued",
        of_parent(both(drop("seal.note"), remade), manifest=False),
    )
    yield Kind(
        "the run that is continued with other keys",
        "continued",
        of_parent(both(edit("keys.json", lambda _: b"{}\n"), remade)),
    )
    yield Kind(
        "the run that is continued without its notes",
        "continued",
        of_parent(both(drop("notes.jsonl", "seal.note"), remade)),
    )
    yield Kind(
        "the run that is continued with another log: who kept a checkpoint",
        "continued",
        of_parent(lambda inner: dressed(three_steps())),
        "checkpoint",
    )
    yield Kind("the run that is continued rolled back", "continued", of_parent(rolled_back(5)))
    yield Kind("a run that is not continued came along", "plan", _with_stranger)


def _outer(files: Files) -> Files:
    return {name: data for name, data in files.items() if not name.startswith("parents/")}


def _under_the_manifest(files: Files) -> Files:
    return {**whole("refusals"), "manifest.json": files["manifest.json"]}


def _with_stranger(files: Files) -> Files:
    other = dressed(refusals())
    return remade({**files, **{f"parents/{uid(0x2)}/{name}": data for name, data in other.items()}})


def _step_of_another(files: Files) -> Files:
    """All lines of its first trace, ids and all."""
    mine, his = Forgery(files), Forgery(whole("refusals"))
    trace, other = (forgery.records("action_request")[0]["trace_id"] for forgery in (mine, his))
    theirs = [line for line in his.lines if other in str(line)]
    kept = [line for line in mine.lines if trace not in str(line)]
    mine.lines = [*kept[:2], *theirs, *kept[2:]]
    mine.payloads |= his.payloads
    return mine.written("seal")
