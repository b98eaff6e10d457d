"""Opening files beneath a root: what may be opened, what may not, and how a root is found."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from reenact.provenance.root import find_foreign_root, find_root
from reenact.provenance.safe_paths import FileRefused, Refusal, beneath, components, is_absolute, read_beneath


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = Path(os.path.realpath(tmp_path)) / "root"
    (root / "a/b").mkdir(parents=True)
    (root / "a/b/file").write_bytes(b"inside")
    (root.parent / "file").write_bytes(b"outside")
    return root


def refusal(root: Path, path: str, limit: int = 100) -> Refusal:
    with pytest.raises(FileRefused) as caught:
        read_beneath(root, components(path), limit)
    return caught.value.refusal


@pytest.mark.parametrize(
    ("link", "target", "path"),
    [
        ("a/link", "b/file", "a/link"),
        ("a/link", "b", "a/link/file"),
        ("a/b/link", "../../a/b/file", "a/b/link"),
        ("link", "@ROOT@/a/b/file", "link"),
        ("a/one", "two", "a/one"),
    ],
)
def test_links_are_followed_inside_the_root(link: str, target: str, path: str, root: Path) -> None:
    (root / "a/two").symlink_to("b/file")
    (root / link).symlink_to(target.replace("@ROOT@", str(root)))
    assert read_beneath(root, components(path)) == b"inside"


@pytest.mark.parametrize(
    ("link", "target", "path"),
    [
        ("link", "../file", "link"),
        ("a/link", "../../file", "a/link"),
        ("a/link", "../..", "a/link/file"),
        ("link", "@ROOT@/../file", "link"),
        ("link", "/etc/hostname", "link"),
        ("link", "link", "link"),
        ("link", "a/../../root/a/b/file", "link"),
    ],
)
def test_links_that_lead_out_are_refused_even_if_they_come_back(link: str, target: str, path: str, root: Path) -> None:
    (root / link).symlink_to(target.replace("@ROOT@", str(root)))
    assert refusal(root, path) is Refusal.OUTSIDE


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a", Refusal.FOLDER),
        ("a/none", Refusal.MISSING),
        ("a/b/file/x", Refusal.MISSING),
        ("fifo", Refusal.NOT_A_FILE),
        ("a/b/file", Refusal.TOO_LARGE),
        ("secret", Refusal.UNREADABLE),
        ("x" * 300, Refusal.UNREADABLE),
    ],
)
def test_each_refusal_has_its_reason(path: str, expected: Refusal, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(root / "fifo")
    if path == "secret":
        (root / "secret").write_bytes(b"x")
        monkeypatch.setattr(os, "open", denied(os.open))
    assert refusal(root, path, limit=5) is expected


def denied(real: object) -> object:
    """`os.open` as it is for a user who may not read `secret`; the tests may run as one who may read all."""

    def opened(path: object, flags: int, *rest: object, **options: object) -> int:
        if path == "secret":
            raise PermissionError(13, "Permission denied")
        return real(path, flags, *rest, **options)  # type: ignore[operator,no-any-return]

    return opened


def test_a_file_that_grows_while_it_is_read_is_still_bounded(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.read
    monkeypatch.setattr(os, "read", lambda handle, count: real(handle, count) or b"more")
    assert refusal(root, "a/b/file", limit=50) is Refusal.TOO_LARGE


def test_no_handle_is_left_open(root: Path) -> None:
    (root / "link").symlink_to("../file")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for path in ("a/b/file", "link", "a", "none"):
        with contextlib.suppress(FileRefused):
            read_beneath(root, components(path))
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.parametrize(
    "path", ["", "..", "a/../b", "a\0b", "a/\ud800", "x/" * 65, ".git/config", "a/.git/x", "/" * 5000]
)
def test_paths_that_name_nothing_inside_are_refused(path: str) -> None:
    with pytest.raises(FileRefused) as caught:
        components(path)
    assert caught.value.refusal is Refusal.OUTSIDE


def test_components_leave_out_what_says_nothing() -> None:
    assert components("./a//b/./c") == ("a", "b", "c")
    assert components("C:\\x\\y/z") == ("x", "y", "z")
    assert components("a\\b") == ("a\\b",)


def test_an_absolute_path_is_beneath_a_root_only_by_whole_names() -> None:
    root = Path("/work/root")
    assert beneath(root, "/work/root/a/b") == ("a", "b")
    assert beneath(root, "/work/rooted/a") is None
    assert beneath(root, "C:\\work\\root\\a") is None
    assert beneath(root, "a") == ("a",)
    assert [is_absolute(path) for path in ("/a", "C:/a", "\\\\host\\a", "a", "c:a")] == [True, True, True, False, False]


def test_the_root_is_the_package_then_the_work_tree_then_the_project_then_here(tmp_path: Path) -> None:
    top = Path(os.path.realpath(tmp_path))
    report = top / "one/two/three/report.md"
    report.parent.mkdir(parents=True)
    assert find_root(report, cwd=top) == top
    (top / "one/two/pyproject.toml").write_text("")
    assert find_root(report, cwd=top) == top / "one/two"
    (top / "one/.git").mkdir()
    assert find_root(report, cwd=top) == top / "one"
    (top / "package.json").write_text('{"name":"@adastracomputing/ahd"}')
    assert find_root(report, cwd=top / "one") == top
    assert find_root(Path("two/three/report.md"), cwd=top / "one") == top


@pytest.mark.parametrize("manifest", ['{"name":"other"}', "[]", "{", "[" * 5000, '{"name":1}', "\xff"])
def test_a_manifest_that_says_something_else_is_no_root(manifest: str, tmp_path: Path) -> None:
    (tmp_path / "package.json").write_bytes(manifest.encode("latin-1"))
    assert find_foreign_root(str(tmp_path / "report.md")) == Path.cwd()


def test_a_manifest_that_is_a_fifo_or_a_link_out_hangs_and_opens_nothing(tmp_path: Path) -> None:
    (tmp_path / "outside.json").write_text('{"name":"@adastracomputing/ahd"}')
    for name in ("fifo", "link"):
        (tmp_path / name).mkdir()
    os.mkfifo(tmp_path / "fifo/package.json")
    (tmp_path / "link/package.json").symlink_to("../outside.json")
    for name in ("fifo", "link"):
        assert find_foreign_root(str(tmp_path / name / "report.md")) == Path.cwd()
