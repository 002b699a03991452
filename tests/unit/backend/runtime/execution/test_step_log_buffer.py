from backend.runtime.execution.step_log import (
    MOST_KEPT_CHARS,
    MOST_NEW_CHARS,
    PART_CHARS,
    LogBuffer,
    LogParts,
)

LINE = "x" * 99 + "\n"


def taken(text: LogBuffer, *parts: bytes) -> str:
    for part in parts:
        text.add(part)
    return text.take()


def test_text_is_decoded_over_the_boundaries_of_what_is_read() -> None:
    text = LogBuffer(lines_only=False)
    assert taken(text, "z\u00fc".encode()[:2]) == "z"
    assert taken(text, "z\u00fc".encode()[2:], b"\0\xff") == "\u00fc\ufffd\ufffd"
    assert text.take() == ""


def test_what_is_to_be_swept_is_taken_in_whole_lines() -> None:
    text = LogBuffer(lines_only=True)
    assert taken(text, b"one\ntw") == "one\n"
    assert taken(text, b"o\nthree") == "two\n"
    assert text.take(final=True) == "three"


def test_beyond_the_beginning_only_the_latest_is_taken_and_the_rest_counted() -> None:
    text = LogBuffer(lines_only=True)
    assert len(taken(text, LINE.encode() * (MOST_KEPT_CHARS // 100 + 1))) > MOST_KEPT_CHARS
    latest = taken(text, LINE.encode() * 1_000)
    assert latest.startswith(f"[{100_000 - MOST_NEW_CHARS // 100 * 100} characters of the log are cut here]\n{LINE}")
    assert taken(text, LINE.encode()) == LINE


def test_no_more_waits_than_twice_what_is_taken() -> None:
    text = LogBuffer(lines_only=False)
    for _ in range(100):
        text.add(LINE.encode() * 1_000)
    assert len(text.take()) <= 2 * MOST_KEPT_CHARS + 100


def test_no_half_of_a_cut_line_is_taken_that_is_to_be_swept() -> None:
    text = LogBuffer(lines_only=True)
    text.add(b"j" * (2 * MOST_KEPT_CHARS + 1))
    text.add(b"ane.roe@example.com")
    text.add(b" is left out\nthe next line\n")
    assert text.take().endswith("characters of the log are cut here]\nthe next line\n")


def test_of_the_parts_those_of_the_beginning_and_the_latest_are_kept() -> None:
    kept = LogParts()
    part = "x" * PART_CHARS
    beginning = MOST_KEPT_CHARS // PART_CHARS
    for _ in range(2 * beginning):
        assert kept.add(part) == ([part], None)
    first = beginning + 1
    assert kept.add(part) == ([part], (first, first + 1))
    assert kept.add(part * 2) == ([part, part], (first + 1, first + 3))
    assert kept.next_seq == 2 * beginning + 4
