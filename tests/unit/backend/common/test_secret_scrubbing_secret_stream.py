import base64
import json

import pytest

from backend.common.secret_scrubbing import ScrubbedStream, Scrubber

KEY = "tok-Live/4f1D+7cQxZ09a"
TEXTS = [
    f"before {KEY} after {KEY}{KEY}\n",
    f"a line\n{KEY}\n{KEY}",
    f"{KEY[:9]} {KEY[9:]} {KEY[:9]}, {KEY[9:]}",
    " ".join(KEY) + " end",
    json.dumps({"token": KEY, "other": 1}),
    base64.encodebytes(3 * f"user:{KEY}".encode()).decode(),
    f"{KEY[:20]}\nand {KEY[12:]}",
    f"{KEY[:11]}{' ' * 50}{KEY[11:]}{' ' * 50}.",
]


def scrubbed(parts: list[bytes]) -> bytes:
    stream = ScrubbedStream(Scrubber([KEY]))
    return b"".join([*map(stream.add, parts), stream.finish()])


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 13, 21, 34])
def test_where_a_text_is_cut_makes_no_difference(text: str, size: int) -> None:
    data = text.encode()
    whole = Scrubber([KEY]).text(text)
    assert scrubbed([data[start : start + size] for start in range(0, len(data), size)]).decode() == whole
    assert [scrubbed([data[:cut], data[cut:]]).decode() for cut in range(len(data))] == [whole] * len(data)


def test_only_what_may_become_a_secret_waits() -> None:
    stream = ScrubbedStream(Scrubber([KEY]))
    assert stream.add(b"a whole line\n") == b"a whole line\n"
    assert stream.add(b"up to here: tok-") == b"up to here: "
    assert stream.add(b"pot!") == b"tok-pot!"
    assert stream.add(KEY.encode()) == b""
    assert stream.add(b"\n") == b""
    assert stream.finish() == b"[secret]\n"


def test_blanks_without_end_do_not_wait_without_end() -> None:
    stream = ScrubbedStream(Scrubber([KEY]))
    passed = sum(len(stream.add(b"t" + b" " * 100_000)) for _ in range(10))
    assert passed > 900_000


def test_a_secret_around_more_blanks_than_wait_is_removed_on_both_sides() -> None:
    stream = ScrubbedStream(Scrubber([KEY]))
    passed = stream.add(KEY[:11].encode()) + stream.add(b" " * 200_000) + stream.add(KEY[11:].encode())
    assert (passed + stream.finish()).split() == [b"[secret]", b"[secret]"]
