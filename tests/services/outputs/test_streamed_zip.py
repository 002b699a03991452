"""The zip of a run is read from a pipe, as programs do that unpack it while it is received. (contract 18.14)"""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from stream_unzip import stream_unzip

from tests.services.outputs.test_bundle import FILES, bundle, filled
from tests.services.runs.world import World

# Content that is a zip by itself shows whether a reader looks for the end of an entry.
CONTENT: Final = FILES | {
    "first/inner.zip": b"PK\5\6" + bytes(18),
    "first/deep/Grüße 日本.txt": b"text\n" * 9,
    "first/signatures": b"PK\7\x08PK\3\4PK\1\2" * 1_000,
    "result.json": b"{}",
}

_PERL: Final = """
use strict; use warnings; use IO::Uncompress::Unzip qw($UnzipError);
binmode STDIN; binmode STDOUT;
my $zip = IO::Uncompress::Unzip->new(\\*STDIN) or die $UnzipError;
my $status;
for ($status = 1; $status > 0; $status = $zip->nextStream()) {
    my ($content, $block) = ("", "");
    while (($status = $zip->read($block)) > 0) { $content .= $block }
    die $UnzipError if $status < 0;
    printf "%s\\0%d\\0", $zip->getHeaderInfo()->{Name}, length $content;
    print $content;
}
die $UnzipError if $status < 0;
"""
_JAVA: Final = """
import java.io.*;
import java.nio.charset.StandardCharsets;
import java.util.zip.*;

class Unzip {
    public static void main(String[] arguments) throws IOException {
        ZipInputStream zip = new ZipInputStream(System.in, StandardCharsets.UTF_8);
        for (ZipEntry entry; (entry = zip.getNextEntry()) != null; ) {
            byte[] content = zip.readAllBytes();
            System.out.write((entry.getName() + "\\0" + content.length + "\\0").getBytes(StandardCharsets.UTF_8));
            System.out.write(content);
        }
        System.out.flush();
    }
}
"""


def piped(command: list[str], data: bytes) -> bytes:
    made = subprocess.run(command, input=data, capture_output=True, check=False)
    assert made.returncode == 0, made.stderr.decode(errors="replace")
    return made.stdout


def entries(listed: bytes) -> Iterator[tuple[str, bytes]]:
    """Yields names and contents from `name NUL size NUL content` over and over."""
    while listed:
        name, size, rest = listed.split(b"\0", 2)
        yield name.decode(), rest[: int(size)]
        listed = rest[int(size) :]


def by_python(data: bytes, _: Path) -> dict[str, bytes]:
    parts = (data[at : at + 1_000] for at in range(0, len(data), 1_000))
    return {name.decode(): b"".join(content) for name, _, content in stream_unzip(parts)}


def by_perl(data: bytes, _: Path) -> dict[str, bytes]:
    return dict(entries(piped(["perl", "-e", _PERL], data)))


def by_libarchive(data: bytes, folder: Path) -> dict[str, bytes]:
    if shutil.which("bsdtar") is None:
        pytest.skip("bsdtar is not installed (Debian: apt-get install libarchive-tools)")
    piped(["env", "LC_ALL=C.UTF-8", "bsdtar", "-x", "-C", str(folder), "-f", "-"], data)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def by_java(data: bytes, folder: Path) -> dict[str, bytes]:
    if shutil.which("java") is None:
        pytest.skip("java is not installed (Debian: apt-get install default-jdk-headless)")
    program = folder / "Unzip.java"
    program.write_text(_JAVA)
    return dict(entries(piped(["java", str(program)], data)))


@pytest.mark.parametrize(
    "unzip", [by_python, by_perl, by_libarchive, pytest.param(by_java, marks=pytest.mark.optional)]
)
def test_any_streaming_reader_takes_the_zip(
    world: World, tmp_path: Path, unzip: Callable[[bytes, Path], dict[str, bytes]]
) -> None:
    folder = tmp_path / "unpacked"
    folder.mkdir()
    assert unzip(bundle(world, filled(world, CONTENT))[1], folder) == CONTENT
