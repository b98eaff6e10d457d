"""A policy (C2SP `tlog-policy`): which logs and witnesses are known, and whose cosignatures are enough."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from reenact.errors import UsageError
from reenact.verify.log.checkpoint import read_number
from reenact.verify.signed.signed_note import COSIGNATURE, ED25519, VerifierKey, read_vkey

MAX_POLICY_BYTES: Final = 1 << 18
MAX_LINES: Final = 1000
NONE: Final = "none"
_ALLOWED: Final = frozenset(b"\t\n") | frozenset(range(0x20, 0x7F)) | frozenset(range(0x80, 0x100))


class Witness(NamedTuple):
    """`name` is the policy's own; its key has another one."""

    name: str
    key: VerifierKey
    url: str | None = None


class Group(NamedTuple):
    needed: int
    members: tuple[str, ...]


class Policy(NamedTuple):
    logs: tuple[VerifierKey, ...]
    witnesses: tuple[Witness, ...]
    groups: dict[str, Group]
    quorum: str

    def is_met(self, cosigned: Collection[str]) -> bool:
        """Whether these witnesses, by the policy's names, are enough."""
        met = set(cosigned)
        for name, group in self.groups.items():  # a group names only what stands before it
            if sum(member in met for member in group.members) >= group.needed:
                met.add(name)
        return self.quorum == NONE or self.quorum in met

    @property
    def needed(self) -> str:
        """The quorum in words."""
        group = self.groups.get(self.quorum)
        if self.quorum == NONE:
            return "no witness is needed"
        return f"{self.quorum} is needed" if group is None else f"{group.needed} of {len(group.members)} are needed"


def all_of(witnesses: Collection[Witness], needed: int, logs: Collection[VerifierKey] = ()) -> Policy:
    """A policy that asks for `needed` of these."""
    group = Group(needed, tuple(each.name for each in witnesses))
    return Policy(tuple(logs), tuple(witnesses), {"all": group} if witnesses else {}, "all" if witnesses else NONE)


def write_policy(policy: Policy) -> str:
    """As a file that `read_policy` reads."""
    lines = [f"log {key}" for key in policy.logs]
    lines += [" ".join(filter(None, ("witness", each.name, str(each.key), each.url))) for each in policy.witnesses]
    lines += [f"group {name} {group.needed} {' '.join(group.members)}" for name, group in policy.groups.items()]
    return "".join(f"{line}\n" for line in [*lines, f"quorum {policy.quorum}"])


def read_policy(data: bytes) -> Policy:
    """UsageError, with the line, for what is no policy."""
    if len(data) > MAX_POLICY_BYTES:
        raise UsageError(f"a witness policy has at most {MAX_POLICY_BYTES} bytes")
    if not _ALLOWED.issuperset(data):
        raise UsageError("a witness policy has no control characters but tab and newline")
    reading = _Reading()
    for number, line in enumerate(data.decode("utf-8", "surrogateescape").split("\n"), start=1):
        if number > MAX_LINES:
            raise UsageError(f"a witness policy has at most {MAX_LINES} lines")
        words = line.replace("\t", " ").strip(" ").split(" ")
        words = [word for word in words if word]
        if words and not words[0].startswith("#"):
            try:
                reading.take(words)
            except UsageError as error:
                raise UsageError(f"witness policy, line {number}: {error}") from None
    if reading.quorum is None:
        raise UsageError("a witness policy says whose word is enough: `quorum NAME`, or `quorum none`")
    return Policy(tuple(reading.logs), tuple(reading.witnesses), reading.groups, reading.quorum)


class _Reading:
    def __init__(self) -> None:
        self.logs: list[VerifierKey] = []
        self.witnesses: list[Witness] = []
        self.groups: dict[str, Group] = {}
        self.quorum: str | None = None
        self._members: set[str] = set()

    def take(self, words: list[str]) -> None:
        kinds = {"log": self._log, "witness": self._witness, "group": self._group, "quorum": self._quorum}
        act = kinds.get(words[0])
        if act is None:
            raise UsageError("a line begins with log, witness, group, quorum or #")
        act(words[1:])

    def _log(self, words: list[str]) -> None:
        if len(words) not in (1, 2):
            raise UsageError("a log is written `log VKEY [URL]`")
        key = read_vkey(words[0])
        if key.kind != ED25519:
            raise UsageError("a log's key is an Ed25519 key, of kind 1")
        if any(key.public_key == other.public_key for other in self.logs):
            raise UsageError("this log stands there twice")
        self.logs.append(key)

    def _witness(self, words: list[str]) -> None:
        if len(words) not in (2, 3):
            raise UsageError("a witness is written `witness NAME VKEY [URL]`")
        self._refuse_taken(words[0])
        key = read_vkey(words[1])
        if key.kind != COSIGNATURE:
            raise UsageError("a witness's key is one for cosignatures, of kind 4")
        if any(key.public_key == other.key.public_key for other in self.witnesses):
            raise UsageError("this witness stands there twice")
        self.witnesses.append(Witness(words[0], key, words[2] if len(words) > 2 else None))

    def _group(self, words: list[str]) -> None:
        if len(words) < 3:
            raise UsageError("a group is written `group NAME all|any|K MEMBER…`")
        name, needed, *members = words
        self._refuse_taken(name)
        for member in members:
            if not self._is_known(member) or member in self._members or members.count(member) > 1:
                raise UsageError("a group names witnesses and groups of lines above, each of which is in one group")
        count = {"all": len(members), "any": 1}.get(needed, read_number(needed))
        if count is None or not 1 <= count <= len(members):
            raise UsageError(f"of {len(members)} members 1 to {len(members)} can be needed")
        self._members.update(members)
        self.groups[name] = Group(count, tuple(members))

    def _quorum(self, words: list[str]) -> None:
        if len(words) != 1 or not (words[0] == NONE or self._is_known(words[0])):
            raise UsageError("the quorum is a witness or a group of a line above, or none")
        if self.quorum is not None:
            raise UsageError("there is one quorum")
        self.quorum = words[0]

    def _is_known(self, name: str) -> bool:
        return name in self.groups or any(each.name == name for each in self.witnesses)

    def _refuse_taken(self, name: str) -> None:
        if name == NONE or self._is_known(name):
            raise UsageError("the name of this one is taken")
