import base64
from urllib.parse import quote

import pytest

from backend.secret_scrubbing import without_key

KEY = "sk-proj/4f1D+7cQx"


@pytest.mark.parametrize(
    "quoted",
    [
        KEY,
        KEY[:-1],
        KEY[1:],
        KEY[3:11],
        KEY.upper(),
        KEY.lower(),
        f"{KEY[:7]} {KEY[7:]}",
        f"{KEY[:5]}\n{KEY[5:]}",
        " ".join(KEY),
        KEY + KEY,
        quote(KEY, safe=""),
        base64.b64encode(KEY.encode()).decode().rstrip("="),
        base64.urlsafe_b64encode(KEY.encode()).decode()[:12],
    ],
)
def test_a_key_is_hidden_whole_or_in_part_however_it_is_spelt(quoted: str) -> None:
    assert without_key(quoted, KEY) == "[secret]"
    assert without_key(f"Wrong key '{quoted}' & so on, {quoted}.", KEY) == ("Wrong key '[secret]' & so on, [secret].")


@pytest.mark.parametrize("before", ["", "x", "xx", "Bearer "])
def test_a_key_is_hidden_inside_of_base64(before: str) -> None:
    encoded = base64.b64encode(f"{before}{KEY}, after".encode()).decode()
    scrubbed = without_key(f"Got {encoded}", KEY)
    assert "[secret]" in scrubbed
    assert base64.b64encode(KEY.encode()).decode()[:8] not in scrubbed
    assert len(scrubbed) < len(encoded)


def test_what_is_no_key_stays_as_it_is() -> None:
    text = "İstanbul: the key sk-proj is short,\n\tand ẞ is a letter"
    assert without_key(text, KEY) == text
    assert without_key("", KEY) == ""


def test_a_short_key_is_hidden_whole_alone() -> None:
    assert without_key("key4, key, KEY4", "key4") == "[secret], key, [secret]"
