"""Values beside the chain: changed, exchanged, taken away, added; in a folder and packed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tools.vectors.bundle_vectors import stored
from tools.vectors.writer import packed_lines

from reenact.values.digest import sha256_hex
from tests.tampering.evidence import whole
from tests.tampering.forging import PACKED, Forgery, envelopes, forged, remade, with_envelopes
from tests.tampering.kinds.kind import Change, Files, Kind, both, drop, put
from tests.tampering.kinds.manifests import SECOND, said

Payloads = dict[str, bytes]


def named(files: Files, what: str) -> str:
    """The commitment of one value of the last step, or of the plan."""
    forgery = Forgery(files)
    effect = forgery.records("tool_effect")[-1]
    return {
        "arguments": forgery.records("action_request")[-1]["proposal"]["args"].get("$commit"),
        "output": effect["document_hashes"][0]["hash"],
        "outcome": effect["document_hashes"][1]["hash"],
        "plan": forgery.records("run")[0]["plan"],
        "response": forgery.records("attempt")[0]["response"] or forgery.records("attempt")[-1]["response"],
    }[what]


def of_value(what: str, change: Callable[[Payloads, str], object]) -> Change:
    def changed(files: Files) -> Files:
        payloads = envelopes(files)
        change(payloads, named(files, what))
        return remade(with_envelopes(files, payloads))

    return changed


def flip(payloads: Payloads, name: str) -> None:
    payloads[name] = payloads[name][:-1] + bytes([payloads[name][-1] ^ 1])


def flip_salt(payloads: Payloads, name: str) -> None:
    payloads[name] = bytes([payloads[name][0] ^ 1]) + payloads[name][1:]


def cut(payloads: Payloads, name: str) -> None:
    payloads[name] = payloads[name][:-1]


def gone(payloads: Payloads, name: str) -> None:
    del payloads[name]


def empty(payloads: Payloads, name: str) -> None:
    payloads[name] = b""


def exchange(payloads: Payloads, name: str) -> None:
    other = next(each for each in sorted(payloads) if each != name)
    payloads[name], payloads[other] = payloads[other], payloads[name]


def replace(payloads: Payloads, name: str) -> None:
    """By one of another run."""
    payloads[name] = next(iter(envelopes(whole("refusals")).values()))


HOW = {
    "with a flipped bit": flip,
    "with another salt": flip_salt,
    "cut": cut,
    "taken away": gone,
    "emptied": empty,
    "exchanged with another": exchange,
    "of another run": replace,
}


def reformed(content: bytes) -> Callable[[Forgery], None]:
    """An envelope that holds something else than canonical JSON, and its commitment."""

    def change(forgery: Forgery) -> None:
        output = forgery.records("attempt")[-1]["response"]
        envelope = forgery.payloads[output][:32] + content
        forgery.payloads[sha256_hex(envelope)] = envelope
        forgery.new[output] = sha256_hex(envelope)
        del forgery.payloads[output]

    return change


def lines(change: Callable[[list[bytes]], list[bytes]]) -> Change:
    def changed(files: Files) -> Files:
        found = packed_lines(envelopes(files)).splitlines(keepends=True)
        return remade({**files, PACKED: stored(b"".join(change(found)))})

    return changed


def bytes_of(change: Callable[[bytes], bytes]) -> Change:
    return lambda files: remade({**files, PACKED: change(stored(packed_lines(envelopes(files))))})


def _beside(files: Files) -> Files:
    """Under the name of one that is packed, with that name as its digest in the manifest."""
    name = next(iter(envelopes(files)))
    made = remade({**files, f"payloads/{name}": b"garbage"})
    return said(lambda manifest: manifest["files"].update({f"payloads/{name}": name}))(made)


def _packed_beside(files: Files) -> Files:
    name, digest = "reenact.bundle.v1", sha256_hex(b"garbage")
    change = said(lambda manifest: manifest.update(schema=name, files={**manifest["files"], PACKED: digest}))
    return put(PACKED, b"garbage")(change(files))


def kinds() -> Iterator[Kind]:
    for what in ("arguments", "output", "outcome", "plan", "response"):
        for how, change in HOW.items():
            yield Kind(f"the payload of the {what} {how}", "plan", of_value(what, change))
    for how, change in HOW.items():
        yield Kind(f"a packed payload {how}", "packed", of_value("output", change))
    more = {sha256_hex(b"x"): b"x"}
    yield Kind(
        "a payload that the journal does not name",
        "plan",
        lambda files: remade(with_envelopes(files, envelopes(files) | more)),
    )
    yield Kind(
        "a packed payload that the journal does not name",
        "packed",
        lambda files: remade(with_envelopes(files, envelopes(files) | more)),
    )
    yield Kind("a payload whose name is none", "plan", put("payloads/letter", b"x"))
    yield Kind("all payloads taken away", "plan", lambda files: remade(with_envelopes(files, {})))
    yield Kind("all payloads taken away, the manifest as it was", "packed", drop(PACKED))
    for name, content in (("is not JSON", b"{"), ("is not canonical", b'{ "a": 1}'), ("is nothing but salt", b"")):
        yield Kind(
            f"a value that {name}, with everything up to the seal",
            "plan",
            lambda files, content=content: forged(files, reformed(content)),
        )
    packed: dict[str, Change] = {
        "out of order": lines(lambda found: [found[1], found[0], *found[2:]]),
        "twice": lines(lambda found: [found[0], *found]),
        "of which a line is none": lines(lambda found: [found[0].replace(b'":"', b'": "', 1), *found[1:]]),
        "of which a line is not base64": lines(lambda found: [found[0].replace(b'envelope":"', b'envelope":"!')]),
        "of which the last line is cut": lines(lambda found: [*found[:-1], found[-1][:-1]]),
        "cut": bytes_of(lambda data: data[:-9]),
        "followed by bytes": bytes_of(lambda data: data + b"x"),
        "with a time": bytes_of(lambda data: data[:4] + b"\x01" + data[5:]),
        "with another sum": bytes_of(lambda data: data[:-8] + bytes(4) + data[-4:]),
    }
    for how, each in packed.items():
        yield Kind(f"packed payloads {how}", "packed", each)
    sums = stored(b"")
    second = {
        "that is garbage": b"garbage",
        "with another sum": sums[:-8] + b"\x01" + sums[-7:],
        "that cannot be unpacked": sums[:10] + b"\xff" * 5 + sums[-8:],
    }
    for how, data in second.items():
        empty_one = both(put(SECOND, sums), remade)
        yield Kind(f"a second file of packed payloads {how}", "packed", both(empty_one, put(SECOND, data)))
    no_line = both(put(SECOND, stored(b"{}\n")), remade)
    yield Kind("a second file of packed payloads of a line that is none", "packed", no_line)
    yield Kind("a value beside packed ones, which nobody reads", "packed", _beside)
    yield Kind("packed payloads beside others, which nobody reads", "plan", _packed_beside)
    yield Kind(
        "a view in a bundle that says values are left out", "withheld", both(put("REPLAY.jsonl", b"garbage"), remade)
    )
    yield Kind(
        "a value of a withheld bundle put beside it",
        "withheld",
        both(put("payloads/" + sha256_hex(b"x"), b"x"), remade),
    )
