"""Who recomputes every digest without having the key: what he can change unseen, and what not, as bundle.md says."""

from __future__ import annotations

from reenact.store.base import Store
from reenact.verify import Report, verify_lines
from tests.replay.compare.forge import Forge
from tests.replay.compare.mutating import recording


class Envelopes:
    def __init__(self, store: Store, run_id: str) -> None:
        self._kept = dict(store.payloads(run_id))

    def get(self, commitment: str, /) -> bytes | None:
        return self._kept.get(commitment)


def judge(forge: Forge) -> Report:
    store = forge.store()
    with store.evidence() as lying:
        kept, keys = Envelopes(store, forge.run_id), store.public_keys()
        return verify_lines(store.bodies(forge.run_id), kept, keys=keys, notes=lying.notes(), store_id=store.store_id)


def another_answer(forge: Forge) -> Forge:
    effect = forge.artifact("next", "tool_effect")
    output, response = effect["document_hashes"][0], forge.attempts("next")[-1]["response"]
    assert output["hash"] == response
    other = forge.put({"value": "something that no tool said"})
    forge.attempts("next")[-1]["response"] = output["hash"] = other
    output["size_bytes"] = len(forge.values[other])
    return forge


def test_what_a_call_returned_is_signed_with_the_seal() -> None:
    forge = Forge(recording())
    forge.signer = None
    report = judge(another_answer(forge))
    assert [finding.code for finding in report.findings] == ["SEAL_NOT_SIGNED"]
    assert (report.exit_code, report.authenticity, report.integrity) == (1, "broken", "holds")


def test_who_has_the_key_can_write_another_answer() -> None:
    report = judge(another_answer(Forge(recording())))
    assert (report.exit_code, report.authenticity, report.signature.by) == (0, "holds", "own_key"), report.first_break


def test_what_a_call_was_approved_for_is_signed() -> None:
    forge = Forge(recording())
    other = {"$commit": forge.put({"script": ["ok"], "value": "another"})}
    forge.artifact("next", "action_request")["proposal"]["args"] = other
    forge.artifact("next", "tool_call")["call"]["args"] = other
    report = judge(forge)
    assert report.first_break is not None
    assert report.exit_code == 1
    assert "CAPABILITY_MISMATCH" in {finding.code for finding in report.findings}
