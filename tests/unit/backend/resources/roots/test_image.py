"""Image archives of roots: layers over one another, and hostile ones."""

import gzip
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from backend.resources.roots import image, tree
from backend.resources.roots.image import unpack_image
from backend.resources.roots.tree import RootError, RootTree
from tests.support.roots import Entry, entry, folder_entry, sha256, tar, write_docker_image, write_image

LINK = tarfile.SYMTYPE
HARD = tarfile.LNKTYPE


@pytest.fixture
def unpacked(tmp_path: Path) -> Callable[..., Path]:
    def unpack(archive: Path, **bounds: int) -> Path:
        folder, scratch = tmp_path / "root", tmp_path / "scratch"
        folder.mkdir()
        scratch.mkdir()
        written = RootTree(folder, **bounds)
        unpack_image(archive, written, scratch)
        written.finish()
        assert list(scratch.iterdir()) == []
        return folder

    return unpack


def files(root: Path) -> dict[str, str]:
    return {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}


def test_layers_hide_and_replace_what_is_below_them(tmp_path: Path, unpacked: Callable[..., Path]) -> None:
    first = tar([entry(f"usr/share/{name}", b"1") for name in ("a/kept", "a/hidden", "b/one", "c")])
    second = tar(
        [
            entry("usr/share/b/new", b"2"),
            entry("usr/share/a/.wh.hidden"),
            entry("usr/share/b/.wh..wh..opq"),
            folder_entry("usr/share/c"),
            entry("usr/share/c/inside", b"2"),
            entry("./usr/share/a/kept", b"2"),
        ]
    )
    assert files(unpacked(write_image(tmp_path / "image.tar", first, second))) == {
        "usr/share/a/kept": "2",
        "usr/share/b/new": "2",
        "usr/share/c/inside": "2",
    }


def test_a_folder_above_the_kept_parts_can_be_hidden(tmp_path: Path, unpacked: Callable[..., Path]) -> None:
    layers = tar([entry("etc/fonts/x", b"1"), entry("usr/y", b"1")]), tar([entry(".wh.etc")])
    root = unpacked(write_image(tmp_path / "image.tar", *layers))
    assert [path.name for path in root.iterdir()] == ["usr"]


def test_an_image_of_docker_save_is_read_too(tmp_path: Path, unpacked: Callable[..., Path]) -> None:
    root = unpacked(write_docker_image(tmp_path / "image.tar", tar([entry("usr/x", b"1")])))
    assert files(root) == {"usr/x": "1"}


def test_only_the_parts_that_steps_see_are_kept(tmp_path: Path, unpacked: Callable[..., Path]) -> None:
    layer = tar(
        [entry(name, b"1") for name in ("usr/x", "etc/shadow", "root/.ssh/id", "var/lib/dpkg/status", "home/y")]
    )
    assert files(unpacked(write_image(tmp_path / "image.tar", layer))) == {"usr/x": "1"}


def test_rights_beyond_reading_and_executing_and_devices_are_dropped(
    tmp_path: Path, unpacked: Callable[..., Path]
) -> None:
    layer = tar(
        [
            entry("usr/bin/su", b"1", mode=0o6755),
            entry("usr/private", b"1", mode=0o600),
            entry("usr/sda", type=tarfile.BLKTYPE, devmajor=8),
            entry("usr/pipe", type=tarfile.FIFOTYPE),
        ]
    )
    root = unpacked(write_image(tmp_path / "image.tar", layer))
    modes = {path.name: oct(path.lstat().st_mode & 0o7777) for path in root.rglob("*")}
    assert modes == {"usr": "0o555", "bin": "0o555", "su": "0o555", "private": "0o444"}


@pytest.mark.parametrize("target", ["/outside", "../../outside", "/../../../outside"])
def test_nothing_is_written_through_a_link_out_of_the_root(
    tmp_path: Path, unpacked: Callable[..., Path], target: str
) -> None:
    (tmp_path / "outside").mkdir()
    layer = tar([entry("usr/out", type=LINK, linkname=target), entry("usr/out/file", b"1")])
    root = unpacked(write_image(tmp_path / "image.tar", layer))
    assert list((tmp_path / "outside").iterdir()) == []
    assert (root / "outside" / "file").read_text() == "1"


def test_a_file_replaces_a_link_and_is_not_written_through_it(tmp_path: Path, unpacked: Callable[..., Path]) -> None:
    victim = tmp_path / "victim"
    victim.write_text("whole")
    layer = tar([entry("usr/x", type=LINK, linkname=str(victim)), entry("usr/x", b"1")])
    root = unpacked(write_image(tmp_path / "image.tar", layer))
    assert (victim.read_text(), (root / "usr" / "x").read_text()) == ("whole", "1")


def test_a_second_name_is_of_a_file_of_the_root(tmp_path: Path, unpacked: Callable[..., Path]) -> None:
    layer = tar([entry("usr/a", b"1"), entry("usr/b", type=HARD, linkname="usr/a")])
    assert files(unpacked(write_image(tmp_path / "image.tar", layer))) == {"usr/a": "1", "usr/b": "1"}


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([entry("usr/../../x", b"1")], "a path that is not allowed: 'usr/../../x'"),
        ([entry("usr/b", type=HARD, linkname="etc/passwd")], "a link to a file that is not kept: usr/b"),
        ([entry("usr/b", type=HARD, linkname="usr/missing")], "a link to a file that it does not have: usr/missing"),
        ([entry("usr/.wh...", b"")], "a path that is not allowed"),
        ([entry("usr/l", type=LINK, linkname="l"), entry("usr/l/x", b"1")], "Too many levels of symbolic links"),
        ([entry("usr/f", b"1"), entry("usr/f/x", b"1")], "an entry below a file: usr/f/x"),
        ([entry("usr/" + "d/" * 70 + "x", b"1")], "a path that is not allowed"),
        ([entry("usr/big", b"1" * 2_000)], "more than 0 MB of files"),
        ([entry("usr/late", pax_headers={"mtime": "inf"})], "its description is not as it must be"),
        ([entry(f"usr/{number}") for number in range(20)], "more than 10 files"),
    ],
)
def test_a_hostile_layer_is_refused(
    tmp_path: Path, unpacked: Callable[..., Path], entries: list[Entry], message: str
) -> None:
    archive = write_image(tmp_path / "image.tar", tar([folder_entry("usr"), *entries]))
    with pytest.raises((RootError, OSError), match=message.replace("(", "[(]")):
        unpacked(archive, most_files=10, most_bytes=1_000)


def test_a_header_that_is_too_long_is_not_read(
    tmp_path: Path, unpacked: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image, "LARGEST_READ", 2_048)
    monkeypatch.setattr(tree, "CHUNK", 1_024)
    archive = write_image(tmp_path / "image.tar", tar([entry("usr/" + "n" * 4_000)]))
    monkeypatch.setattr(image, "CHUNK", 1_024)
    with pytest.raises(RootError, match="a header that is too long"):
        unpacked(archive)


def test_what_differs_from_its_digest_is_refused(tmp_path: Path, unpacked: Callable[..., Path]) -> None:
    good, other = tar([entry("usr/x", b"1")]), tar([entry("usr/x", b"2")])
    packed = gzip.compress(good, 1, mtime=0)
    archive = write_image(tmp_path / "image.tar", good, replaced={sha256(packed): gzip.compress(other)})
    with pytest.raises(RootError, match=f"must have {sha256(packed)}"):
        unpacked(archive)


def test_a_layer_with_other_content_than_the_image_names_is_refused(
    tmp_path: Path, unpacked: Callable[..., Path]
) -> None:
    named = {"diff_ids": [sha256(b"other")]}
    archive = write_image(tmp_path / "image.tar", tar([entry("usr/x", b"1")]), rootfs=named)
    with pytest.raises(RootError, match=f"must have {sha256(b'other')}"):
        unpacked(archive)


def test_an_image_for_another_machine_is_refused(tmp_path: Path, unpacked: Callable[..., Path]) -> None:
    archive = write_image(tmp_path / "image.tar", tar([entry("usr/x", b"1")]), architecture="s390x")
    with pytest.raises(RootError, match="it is for linux/s390x, and this machine is linux/"):
        unpacked(archive)


@pytest.mark.parametrize(
    "content", [b"", b"not an archive" * 100, tar([entry("x", b"1")]), tar([entry("index.json", b"[]")])]
)
def test_what_is_no_image_archive_is_refused(tmp_path: Path, unpacked: Callable[..., Path], content: bytes) -> None:
    (tmp_path / "image.tar").write_bytes(content)
    with pytest.raises(RootError, match="it is not an image archive"):
        unpacked(tmp_path / "image.tar")


def test_an_archive_of_very_many_files_is_refused(tmp_path: Path, unpacked: Callable[..., Path]) -> None:
    (tmp_path / "image.tar").write_bytes(tar([entry(f"blobs/{number}") for number in range(10_001)]))
    with pytest.raises(RootError, match="it has more than 10,000 entries"):
        unpacked(tmp_path / "image.tar")
