"""The key file: made whole or not at all, its owner's alone, and never stopped by what a crash left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from reenact.errors import KeyUnavailable, StoreUnavailable, UsageError
from reenact.store import private_file
from reenact.store.encryption import KeyFile
from reenact.store.keys.here import given_places
from reenact.store.keys.keeping import list_keys, make_key, rotate_key
from reenact.store.private_file import DRAFT, make_private_file, read_private_file
from reenact.store.sqlite.store import SqliteStore
from tests.crash.harness import in_child


def kid_of(path: Path) -> str:
    return SqliteStore(str(path)).signing_key.kid


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


# -- crashes while it is made ----------------------------------------------------------------------------------------


def dying(owner: object, name: str, *, after: bool) -> Callable[[], None]:
    """The process ends at this call, before it or right behind it."""

    def arm() -> None:
        real = getattr(owner, name)

        def call(*args: object, **more: object) -> object:
            done = real(*args, **more) if after else None
            os.kill(os.getpid(), signal.SIGKILL)
            return done

        setattr(owner, name, call)

    return arm


DEATHS = [
    dying(owner, name, after=after)
    for owner, name in (
        (private_file, "mkstemp"),
        (os, "fdopen"),
        (os, "fsync"),
        (os, "link"),
        (private_file, "sync_folder"),
        (Path, "unlink"),
    )
    for after in (False, True)
]


@pytest.mark.parametrize("what", ["signing", "encryption"])
@pytest.mark.parametrize("death", range(len(DEATHS)))
def test_a_crash_while_it_is_made_stops_nobody_and_leaves_nothing(path: Path, death: int, what: str) -> None:
    SqliteStore(str(path)).close()

    def make() -> None:
        store = SqliteStore(str(path))
        DEATHS[death]()
        if what == "signing":
            assert store.signing_key.kid
        else:
            assert store.encryption_file is not None
            store.encryption_file.first()

    assert in_child(make) == signal.SIGKILL
    store = SqliteStore(str(path))
    first = store.signing_key.kid
    assert store.encryption_file is not None
    encrypting = store.encryption_file.first()
    store.close()
    assert kid_of(path) == first
    again = SqliteStore(str(path)).encryption_file
    assert again is not None
    assert again.first() == encrypting
    assert [file.name for file in path.parent.iterdir() if private_file.DRAFT in file.name] == []


def test_many_that_make_it_at_once_get_the_same_one(path: Path) -> None:
    SqliteStore(str(path)).close()
    code = "import sys; from reenact.store.sqlite.store import SqliteStore as S; print(S(sys.argv[1]).signing_key.kid)"
    started = [
        subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True) for _ in range(6)
    ]
    assert len({process.communicate()[0] for process in started}) == 1
    assert [line.state for line in list_keys(SqliteStore(str(path)))] == ["signs"]


def test_a_draft_that_somebody_is_making_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "key"
    made: list[bool] = []

    def slow(folder: Path) -> None:
        del folder
        if not made:
            made.append(True)
            private_file.sweep(file)
            assert list(tmp_path.glob("key.draft-*"))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(private_file, "sync_folder", slow)
        assert make_private_file(file, b"x", "the key")
    assert made


def test_a_file_system_without_hard_links_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    file = tmp_path / "key"
    assert make_private_file(file, b"one", "the key")
    assert not make_private_file(file, b"two", "the key")
    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (b"one", 0o600)
    assert [entry.name for entry in tmp_path.iterdir()] == ["key"]


# -- whose it is -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o644, 0o666, 0o601])
def test_one_that_others_can_open_is_refused_in_one_line(path: Path, mode: int) -> None:
    kid = kid_of(path)
    key = Path(f"{path}.key")
    key.chmod(mode)
    with pytest.raises(StoreUnavailable, match=f"chmod 600 {key}") as refused:
        kid_of(path)
    assert "\n" not in str(refused.value)
    key.chmod(0o400)
    assert kid_of(path) == kid


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")
def test_one_that_belongs_to_another_is_refused(path: Path) -> None:
    kid_of(path)
    os.chown(f"{path}.key", 12345, -1)
    with pytest.raises(StoreUnavailable, match="belongs to another user"):
        kid_of(path)


def test_a_link_is_not_followed(path: Path, tmp_path: Path) -> None:
    kid_of(path)
    Path(f"{path}.key").rename(tmp_path / "elsewhere")
    Path(f"{path}.key").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreUnavailable, match="is a link"):
        kid_of(path)


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "key", 0o600)
    with pytest.raises(StoreUnavailable, match="is not a file"):
        read_private_file(tmp_path / "key", "the key")


def test_the_encryption_key_is_looked_at_the_same_way(tmp_path: Path) -> None:
    file = KeyFile(tmp_path / "key")
    file.first()
    (tmp_path / "key").chmod(0o644)
    with pytest.raises(StoreUnavailable, match="chmod 600"):
        file.keys()


def test_no_key_is_made_for_a_store_that_had_one(path: Path) -> None:
    kid = kid_of(path)
    Path(f"{path}.key").unlink()
    with pytest.raises(KeyUnavailable) as refused:
        kid_of(path)
    assert refused.value.kid == kid
    assert not Path(f"{path}.key").exists()


# -- where the host says ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("", ()),
        ("/a", ("/a",)),
        ("/a:/b::/c", ("/a", "/b", "/c")),
        ("exec:/bin/signer", ("exec:/bin/signer",)),
        ("/a:exec:/bin/signer:/b", ("/a", "exec:/bin/signer", "/b")),
    ],
)
def test_keys_are_named_as_in_path(text: str, places: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REENACT_SIGNING_KEY", text)
    assert given_places() == places


def test_a_command_without_a_name_is_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REENACT_SIGNING_KEY", "exec:")
    with pytest.raises(UsageError):
        given_places()


def test_the_first_that_is_named_signs_and_another_only_after_a_rotation(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = make_key(tmp_path / "one.pem"), make_key(tmp_path / "two.pem")
    monkeypatch.setenv("REENACT_SIGNING_KEY", str(tmp_path / "one.pem"))
    assert kid_of(path) == one.kid
    assert not Path(f"{path}.key").exists()
    monkeypatch.setenv("REENACT_SIGNING_KEY", f"{tmp_path}/two.pem:{tmp_path}/one.pem")
    with pytest.raises(KeyUnavailable, match="not on record"):
        kid_of(path)
    done = rotate_key(SqliteStore(str(path)), who="ops")
    assert (done.old_kid, done.new_kid) == (one.kid, two.kid)
    store = SqliteStore(str(path))
    assert store.signing_key.kid == two.kid
    assert store.key_of(one.kid) is not None
    assert {tmp_path / "one.pem", tmp_path / "two.pem"} <= set(store.files.paths())
    monkeypatch.setenv("REENACT_SIGNING_KEY", str(tmp_path / "absent.pem"))
    with pytest.raises(StoreUnavailable, match="is not there"):
        kid_of(path)


# -- a command that signs --------------------------------------------------------------------------------------------

SIGNER = """#!{python}
import sys
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
key = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
if sys.argv[1] == "public":
    sys.stdout.buffer.write(key.public_key().public_bytes_raw())
else:
    said = sys.stdin.buffer.read()
    sys.stdout.buffer.write(key.sign(said{change}))
"""


def signer(tmp_path: Path, change: str = "") -> str:
    file = tmp_path / "signer"
    file.write_text(SIGNER.format(python=sys.executable, change=change))
    file.chmod(0o700)
    return f"exec:{file}"


def test_a_command_signs_and_its_mac_key_lies_beside_the_store(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REENACT_SIGNING_KEY", signer(tmp_path))
    store = SqliteStore(str(path))
    key = store.signing_key
    assert len(key.sign(b"text")) == 64
    mac_file = Path(f"{path}.mac-key")
    assert mac_file.stat().st_mode & 0o777 == 0o600
    first = key.mac.of(b"a head")
    store.close()
    again = SqliteStore(str(path))
    assert again.signing_key.mac.of(b"a head") == first
    again.close()
    mac_file.unlink()
    lost = SqliteStore(str(path))
    with pytest.raises(KeyUnavailable, match="mac-key"):
        assert lost.signing_key.mac
    assert not mac_file.exists()


@pytest.mark.parametrize(
    ("change", "said"), [(" + b'x'", "no signature of its key"), (")[:9] + (b''", "64 bytes"), (" + 1", "exit code 1")]
)
def test_a_command_that_does_otherwise_is_told(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str, said: str
) -> None:
    monkeypatch.setenv("REENACT_SIGNING_KEY", signer(tmp_path, change))
    with pytest.raises(StoreUnavailable, match=said):
        kid_of(path)
    monkeypatch.setenv("REENACT_SIGNING_KEY", "exec:/no/such/signer")
    with pytest.raises(StoreUnavailable, match="cannot be started"):
        kid_of(path)


def test_what_a_killed_rotation_left_goes_with_the_next_one(path: Path) -> None:
    """Each later key has a name of its own, so that nobody would ever find its draft again."""
    store = SqliteStore(str(path))
    assert store.signing_key
    left = Path(f"{path}.key.0123456789abcdef{DRAFT}x1y2z3")
    left.write_bytes(b"half a k")
    rotate_key(store, who="ops")
    store.close()
    assert not left.exists()
