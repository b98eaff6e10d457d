"""Time stamps of RFC 3161: asked for over loopback, made by OpenSSL's own authority, and believed by whom one names."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from cryptography.x509 import Certificate, load_pem_x509_certificates

from reenact.errors import DamagedRecord
from reenact.store.log.rows import Peer
from reenact.values.clock import FixedClock
from reenact.verify.log.timestamp import forged, read_response, untrusted, write_request
from reenact.witness.collecting import collect
from reenact.witness.cosigner import Answer
from tests.witness.stores import a_store, answering

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed: no authority to ask")

CONFIG = """
[tsa]
default_tsa = t
[t]
serial = serial
signer_cert = tsa.pem
signer_key = tsa.key
signer_digest = sha256
default_policy = 1.2.3.4.1
digests = sha256
accuracy = secs:1
ess_cert_id_alg = sha256
"""


class Authority:
    def __init__(self, folder: Path, *, kind: tuple[str, ...], usage: str = "critical,timeStamping") -> None:
        self.folder = folder
        folder.mkdir()
        (folder / "tsa.cnf").write_text(CONFIG, encoding="utf-8")
        (folder / "serial").write_text("01\n", encoding="utf-8")
        (folder / "ext").write_text(f"extendedKeyUsage={usage}\n", encoding="utf-8")
        new = ("-newkey", *kind, "-nodes")
        ca = ("-addext", "basicConstraints=critical,CA:TRUE")
        self.openssl("req", "-x509", *new, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=CA", *ca)
        self.openssl("req", *new, "-keyout", "tsa.key", "-out", "tsa.csr", "-subj", "/CN=TSA")
        signs = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "ext")
        self.openssl("x509", "-req", "-in", "tsa.csr", "-out", "tsa.pem", *signs)

    def put_between(self, is_ca: str) -> None:
        """Another authority between the root and the certificate for stamps: a CA, or something that is none."""
        (self.folder / "middle").write_text(f"basicConstraints=critical,CA:{is_ca}\n", encoding="utf-8")
        signs = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "middle")
        new = ("-newkey", *CURVE, "-nodes", "-keyout", "middle.key", "-out", "middle.csr")
        self.openssl("req", *new, "-subj", "/CN=Between")
        self.openssl("x509", "-req", "-in", "middle.csr", "-out", "middle.pem", *signs)
        signs = ("-CA", "middle.pem", "-CAkey", "middle.key", "-CAcreateserial", "-days", "2", "-extfile", "ext")
        self.openssl("x509", "-req", "-in", "tsa.csr", "-out", "tsa.pem", *signs)
        (self.folder / "tsa.cnf").write_text(CONFIG + "certs = middle.pem\n", encoding="utf-8")

    def openssl(self, *words: str) -> None:
        subprocess.run(["openssl", *words], cwd=self.folder, check=True, capture_output=True)

    def reply(self, query: bytes) -> bytes:
        (self.folder / "query").write_bytes(query)
        self.openssl("ts", "-reply", "-config", "tsa.cnf", "-section", "t", "-queryfile", "query", "-out", "reply")
        return (self.folder / "reply").read_bytes()

    @property
    def roots(self) -> tuple[Certificate, ...]:
        return tuple(load_pem_x509_certificates((self.folder / "ca.pem").read_bytes()))


RSA, CURVE = ("rsa:2048",), ("ec", "-pkeyopt", "ec_paramgen_curve:P-256")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tsa") / "rsa", kind=RSA)


def test_a_head_is_stamped_once_and_the_stamp_is_over_its_text(authority: Authority, tmp_path: Path) -> None:
    def answer(_: str, body: bytes) -> Answer:
        return Answer(200, authority.reply(body), "application/timestamp-reply")

    with a_store(tmp_path) as store, answering(answer) as url:
        store.log.ask(Peer(f"tsa:{url}", "anchor", f"tsa:{url}"))
        assert [each.state for each in collect(store, FixedClock())] == ["kept"]
        assert [each.state for each in collect(store, FixedClock())] == ["has it"]
        head = store.log.rows.newest()
        assert head is not None
        ((_, token),) = store.log.rows.timestamps(head.size)
        stamp, text = read_response(token), store.log.head(head).text()
        assert forged(stamp, text) is None
        assert untrusted(stamp, authority.roots) is None
        assert forged(stamp, text + b"x") == "the time stamp is over something else"
        assert untrusted(stamp, ()) == "no certificate that is trusted vouches for the authority"


@pytest.mark.parametrize("what", ["refused", "garbage", "of another query"])
def test_an_answer_that_is_no_stamp_over_this_head_is_not_kept(authority: Authority, tmp_path: Path, what: str) -> None:
    answers = {"refused": bytes.fromhex("30053003020102"), "garbage": b"\x30\x84\xff\xff\xff\xff"}
    body = answers.get(what) or authority.reply(write_request(b"something else", 7))
    with a_store(tmp_path) as store, answering(lambda *_: Answer(200, body, "application/timestamp-reply")) as url:
        store.log.ask(Peer(f"tsa:{url}", "anchor", f"tsa:{url}"))
        assert [each.state for each in collect(store, FixedClock())] == ["failed"]
        assert store.log.rows.timestamps(3) == []


def test_a_stamp_in_which_any_byte_was_changed_is_none(authority: Authority) -> None:
    good = authority.reply(write_request(b"text", 7))
    stamp = read_response(good)
    assert forged(stamp, b"text") is None
    taken = 0
    for place in range(0, len(good), 3):
        changed = bytearray(good)
        changed[place] ^= 1
        try:
            read = read_response(bytes(changed))
        except DamagedRecord:
            continue
        if forged(read, b"text") is None and untrusted(read, authority.roots) is None:
            taken += 1
            assert (read.info, read.imprint, read.time) == (stamp.info, stamp.imprint, stamp.time)
    assert taken < 20, "but for the envelope, which nobody signs"


def test_authorities_of_other_kinds(authority: Authority, tmp_path: Path) -> None:
    curve = Authority(tmp_path / "ec", kind=CURVE)
    stamp = read_response(curve.reply(write_request(b"text", 7)))
    assert (forged(stamp, b"text"), untrusted(stamp, curve.roots)) == (None, None)
    assert untrusted(stamp, authority.roots) is not None
    stamp = stamp._replace(time=stamp.time.replace(year=stamp.time.year + 5))
    assert untrusted(stamp, curve.roots) == "a certificate of the time stamp was not valid then"
