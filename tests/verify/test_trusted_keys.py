"""A list of trusted keys: read strictly, each mistake with its line, and what is written is read back."""

from __future__ import annotations

from base64 import urlsafe_b64encode

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from reenact.errors import UsageError
from reenact.verify.capability import PURPOSES
from reenact.verify.signed.signed_note import COSIGNATURE, VerifierKey
from reenact.verify.signed.trust import Trust, TrustedKey, read_trust, trusted_line, verifier_key

STORE, OTHER = "019b76da-a800-7000-8000-000000000001", "019b76da-a800-7000-8000-000000000002"
RAW = Ed25519PrivateKey.from_private_bytes(bytes(range(32))).public_key().public_bytes_raw()
KEY = urlsafe_b64encode(RAW).rstrip(b"=").decode()
VKEY = str(verifier_key(STORE, KEY))
ELSEWHERE = str(verifier_key(OTHER, KEY))


def test_names_purposes_and_keys_are_read() -> None:
    text = f"# who we buy from\n\nacme billing  seals,capabilities  {VKEY}\r\n  us\tlog {ELSEWHERE}"
    first, second = read_trust(text.encode(), "list").keys
    assert (first.name, first.purposes, first.store_id) == ("acme billing", {"seals", "capabilities"}, STORE)
    assert (second.name, second.purposes, second.store_id) == ("us", {"log"}, OTHER)
    assert first.kid == second.kid


def test_a_verifier_key_is_for_its_store_and_a_public_key_for_all() -> None:
    one = read_trust(f"acme  seals  {VKEY}".encode(), "list")
    assert one.of_store(STORE)
    assert one.of_store(OTHER) == one.of_store(None) == {}
    every = read_trust(f"acme  seals  {KEY}".encode(), "list")
    assert every.of_store(STORE)
    assert every.of_store(OTHER)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("acme", "NAME  PURPOSES  KEY"),
        (f"seals {VKEY}", "NAME  PURPOSES  KEY"),
        (f"acme  results  {VKEY}", "'results' is none of them"),
        (f"acme  seals,seals  {VKEY}", "twice"),
        (f"acme  seals,  {VKEY}", "'' is none of them"),
        (f"acme  seals , log  {VKEY}", "'log' is none|none of them|single spaces"),
        (f"ac  me  seals  {VKEY}", "single spaces"),
        (f"{'a' * 101}  seals  {VKEY}", "100 printable"),
        (f"ac\x1bme  seals  {VKEY}", "printable"),
        (f"ac\u202eme  seals  {VKEY}", "printable"),
        (f"acme  seals  {VKEY[:-1]}", "base64"),
        (f"acme  seals  {VKEY.replace('+', '+0', 1)[:-1]}", "verifier key"),
        (f"acme  seals  {VKEY.replace('01+', '02+', 1)}", "changed on its way"),
        (f"acme  seals  {KEY[:-1]}", "43 characters"),
        (f"acme  seals  {VerifierKey(f'reenact/{STORE}', COSIGNATURE, RAW)}", "kind 4"),
        (f"acme  seals  {VerifierKey('example.com/log', 1, RAW)}", "reenact/"),
        (f"acme  seals  {VKEY}\nagain  log  {VKEY}", "line 4: .*in line 3 already"),
        (f"acme  seals  {VKEY}\nagain  log  {KEY}", "line 4: .*in line 3 already"),
    ],
)
def test_each_mistake_is_told_with_its_line(line: str, says: str) -> None:
    with pytest.raises(UsageError, match=says) as told:
        read_trust(f"# a list\n\n{line}\n".encode(), "list")
    assert f"list, line {4 if 'already' in says else 3}: " in str(told.value)
    assert "\n" not in str(told.value)


def test_what_is_no_text_and_what_has_no_end_is_told() -> None:
    with pytest.raises(UsageError, match="line 2: this is not UTF-8"):
        read_trust(b"# ok\n\xff\n", "list")
    with pytest.raises(UsageError, match="at most 1048576 bytes"):
        read_trust(b"#" * ((1 << 20) + 1), "list")


@given(
    name=st.text("ab é#,+/.", min_size=1, max_size=30).map(lambda text: " ".join(text.split())).filter(bool),
    purposes=st.sets(st.sampled_from(PURPOSES), min_size=1),
    store=st.sampled_from([None, STORE, OTHER]),
)
def test_what_is_written_is_read_back(name: str, purposes: set[str], store: str | None) -> None:
    if name.startswith("#"):
        name = f"a{name}"
    key = TrustedKey(KEY, name, frozenset(purposes), store)
    assert read_trust(trusted_line(key).encode(), "list").keys == (key,)


def test_a_mapping_of_keys_is_trusted_for_everything_and_nobody_else_is() -> None:
    trust = Trust.of({"4a43b330478cb49d": KEY})
    assert trust.only
    assert trust.of_store(STORE)["4a43b330478cb49d"].purposes == set(PURPOSES)
    assert Trust.of(trust) is trust
    assert not Trust.of(None).only
