"""Types and sizes of pictures by their structure."""

import random
from collections.abc import Callable
from contextlib import suppress

import pytest

from backend.resources.attachments.pictures import BrokenPictureError, Picture, picture_type, read_picture
from tests.support.attachable import gif, jpeg, pdf, png, webp

KINDS = {
    "png": (png, "image/png"),
    "jpeg": (jpeg, "image/jpeg"),
    "gif": (gif, "image/gif"),
    "webp": (webp, "image/webp"),
    "lossless": (lambda width=2, height=2: webp(width, height, lossless=True), "image/webp"),
}
Make = Callable[..., bytes]
every_kind = pytest.mark.parametrize(("make", "media_type"), KINDS.values(), ids=KINDS)


def read(data: bytes) -> Picture:
    media_type = picture_type(data)
    assert media_type is not None
    return read_picture(data, media_type)


@every_kind
def test_type_and_size_are_read(make: Make, media_type: str) -> None:
    assert read(make(31, 17)) == Picture(media_type, 31, 17)


@every_kind
def test_a_picture_that_ends_too_early_is_broken(make: Make, media_type: str) -> None:
    whole = make()
    for end in range(12, len(whole) - (media_type == "image/webp" and len(whole) % 2)):
        with pytest.raises(BrokenPictureError):
            read(whole[:end])


@every_kind
def test_no_bytes_raise_anything_but_a_broken_picture(make: Make, media_type: str) -> None:
    chance = random.Random(7)
    for _ in range(2_000):
        data = bytearray(make())
        for _ in range(3):
            data[chance.randrange(12, len(data))] = chance.randrange(256)
        with suppress(BrokenPictureError):
            assert read_picture(bytes(data), media_type).width > 0


@pytest.mark.parametrize("data", [png(animated=True), gif(frames=2), webp(animated=True)], ids=["png", "gif", "webp"])
def test_several_frames_are_told_from_one(data: bytes) -> None:
    assert read(data).animated


@pytest.mark.parametrize(
    "data",
    [
        png(0, 2),
        png()[:8],
        png().replace(b"IDAT", b"IDAX"),
        gif().replace(b"\x2c", b"\x2d"),
        gif(frames=0),
        b"\xff\xd8\xff\xd9",
        b"\xff\xd8\xff" + b"\xff" * 100,
        webp().replace(b"\x9d\x01\x2a", b"\x9d\x01\x2b"),
    ],
)
def test_a_malformed_picture_is_broken(data: bytes) -> None:
    with pytest.raises(BrokenPictureError):
        read(data)


@pytest.mark.parametrize("data", [b"", b"RIFF\0\0\0\0WAVE", b"BM", b"<svg/>", pdf(), b"II*\0", png()[1:]])
def test_other_files_are_no_pictures(data: bytes) -> None:
    assert picture_type(data) is None
