import base64
import json
from typing import Any
from urllib.parse import quote, quote_plus

import pytest

from backend.common.json_text import JsonText
from backend.common.secret_scrubbing import Scrubber, without_key

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


@pytest.mark.parametrize("blank", ["\n", "\r\n", "\t", "\v", "\f", " "])
def test_blanks_that_json_escapes_do_not_count_either(blank: str) -> None:
    scrubber = Scrubber([KEY])
    assert scrubber.value({"text": blank.join(KEY)}) == {"text": "[secret]"}
    assert scrubber.value(JsonText(json.dumps([blank.join(KEY)]))) == '["[secret]"]'


def test_what_is_no_key_stays_as_it_is() -> None:
    text = "İstanbul: the key sk-proj is short,\n\tand ẞ is a letter"
    assert without_key(text, KEY) == text
    assert without_key("", KEY) == ""


def test_a_short_key_is_hidden_whole_alone() -> None:
    assert without_key("key4, key, KEY4", "key4") == "[secret], key, [secret]"


ODD = 'pass/"word" \\ with ü\nand a second line'


@pytest.mark.parametrize(
    "quoted",
    [
        ODD,
        json.dumps(ODD)[1:-1],
        json.dumps(ODD, ensure_ascii=False)[1:-1],
        ODD.replace(" ", ""),
        quote(ODD, safe=""),
        quote(ODD),
        quote_plus(ODD),
    ],
)
def test_a_secret_of_any_characters_is_hidden_in_any_spelling(quoted: str) -> None:
    assert Scrubber([ODD]).text(f"Got <{quoted}>") == "Got <[secret]>"


def test_no_character_is_cut_in_half() -> None:
    assert Scrubber(["éééééééé"]).text("ũéééééééx") == "[secret]x"


def test_each_of_several_secrets_is_hidden() -> None:
    scrubber = Scrubber([KEY, "another-value"])
    assert scrubber.text(f"{KEY} and another-value") == "[secret] and [secret]"
    assert not Scrubber([])


WEBHOOK = "https://hooks.example.com/services/T0/B1/4f1D7cQx"


def test_of_data_a_part_is_longer_so_that_other_addresses_stay() -> None:
    other = {"see": "https://example.com/a", "at": ["HTTPS://EXAMPLE.COM/B"]}
    assert Scrubber([WEBHOOK], data=True).value(other) is other
    assert "https://example.com/a" not in Scrubber([WEBHOOK]).text(str(other))
    for quoted in (WEBHOOK, WEBHOOK[8:24], WEBHOOK[-16:]):
        assert Scrubber([WEBHOOK], data=True).text(f"to {quoted}.") == "to [secret]."
    assert Scrubber([KEY], data=True).text(f"to {KEY[:8]}.") == "to [secret]."


@pytest.mark.parametrize(
    ("value", "scrubbed"),
    [
        (KEY, "[secret]"),
        ({"headers": [{"Authorization": f"Bearer {KEY}"}], KEY: None}, None),
        ([1, 2.5, True, None, "", "text", {}], [1, 2.5, True, None, "", "text", {}]),
        ([f'a "{KEY}" \\', "☃"], ['a "[secret]" \\', "☃"]),
        ({"number": 12345678901234}, {"number": "[secret]"}),
        ([KEY[:7], KEY[7:]], [KEY[:7], "[secret]"]),
    ],
)
def test_a_value_stays_json_of_the_same_shape(value: Any, scrubbed: Any) -> None:
    scrubber = Scrubber([KEY, "12345678901234"])
    expected = {"headers": [{"Authorization": "Bearer [secret]"}], "[secret]": None} if scrubbed is None else scrubbed
    assert scrubber.value(value) == expected
    text = scrubber.value(JsonText(json.dumps(value)))
    assert isinstance(text, JsonText)
    assert json.loads(text) == expected


def test_a_secret_that_is_json_leaves_the_structure_of_values_alone() -> None:
    secret = '{"user": "reader", "password": "4f1D+7cQxZ"}'
    value = {"user": "reader", "password": "4f1D+7cQxZ", "text": secret}
    assert Scrubber([secret], data=True).value(value) == {**value, "text": "[secret]"}
    assert Scrubber([secret]).value(value) == {"user": "reader", "[secret]": "[secret]", "text": "[secret]"}
