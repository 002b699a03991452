import json
import math
import re
import string
from contextlib import suppress
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contract.refusals import Refusal
from edge.codec.json_body import parse_json_body

REASON = re.compile(r"malformed JSON at byte offset (\d+): .+")
steady = settings(deadline=None, derandomize=True)
MEBIBYTE = 1_048_576

numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(st.characters(exclude_categories=["Cs"])) | st.text('a:"\\{}[]\u003a', max_size=6)
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
    max_leaves=30,
)


def refused_at(body: bytes) -> int:
    with pytest.raises(Refusal) as refused:
        parse_json_body(body)
    assert refused.value.code == "invalid_request"
    assert isinstance(refused.value.details, list)
    [problem] = refused.value.details
    assert problem["name"] == "body"
    found = REASON.fullmatch(problem["reason"])
    assert found is not None
    return int(found[1])


def nested(levels: int, core: bytes = b"") -> bytes:
    return b"[" * levels + core + b"]" * levels


def depth(value: Any) -> int:
    levels = 0
    while isinstance(value, list):
        levels += 1
        value = value[0] if value else None
    return levels


def test_no_bytes_count_as_an_empty_object() -> None:
    assert parse_json_body(b"") == {}


@pytest.mark.parametrize(
    ("body", "offset"),
    [
        (b" ", 0),
        (b"\n\t \r", 0),
        (b"\xef\xbb\xbf{}", 0),
        (b'{"a":1', 6),
        (b'{"a":1}}', 7),
        (b'{"a":1} x', 8),
        (b"{}\x00", 2),
        (b'{"a" 1}', 5),
        (b"{a:1}", 1),
        (b"{'a':1}", 1),
        (b'{"a":1 "b":2}', 7),
        (b"[1,,2]", 3),
        (b"[01]", 1),
        (b"[1.]", 3),
        (b"[+1]", 1),
        (b"[NaN]", 1),
        (b"[1,Infinity]", 3),
        (b"[-Infinity]", 2),
        (b"[tru]", 1),
        (b'["\t"]', 2),
        (b'["\\x"]', 2),
        (b"// {}", 0),
    ],
)
def test_what_is_no_json_is_refused_where_it_stops_being_json(body: bytes, offset: int) -> None:
    assert refused_at(body) == offset


@pytest.mark.parametrize(
    ("body", "offset"),
    [
        ('{"é": x}'.encode(), 7),
        ('{"日本": x}'.encode(), 11),
        ('{"😀": "😀", }'.encode(), 15),
        ('{"é":1,"é":2}'.encode(), 8),
        ('["é", 1e999]'.encode(), 7),
        ('["é", "\\ud800"]'.encode(), 8),
    ],
)
def test_offsets_count_bytes_after_characters_of_several_bytes(body: bytes, offset: int) -> None:
    assert refused_at(body) == offset


@pytest.mark.parametrize(("body", "offset"), [(b'{"a": "\xff"}', 7), ('{"é": "'.encode() + b"\xc3", 8), (b"\x80", 0)])
def test_invalid_utf8_is_refused_at_its_first_byte(body: bytes, offset: int) -> None:
    assert refused_at(body) == offset


def test_utf8_that_encodes_a_surrogate_is_refused() -> None:
    assert refused_at(b'"\xed\xa0\x80"') == 1


@pytest.mark.parametrize("escape", ["\\ud800", "\\udc00", "\\ud800\\u0041", "\\udc00\\ud800"])
def test_lone_surrogate_escapes_are_refused(escape: str) -> None:
    assert refused_at(f'["{escape}"]'.encode()) in range(2, 9)


def test_a_surrogate_pair_is_one_character() -> None:
    assert parse_json_body(b'"\\ud83d\\ude00"') == "😀"


@pytest.mark.parametrize("number", [b"1e999", b"-1e400", b"1" * 400, b"123456789e300000"])
def test_numbers_beyond_a_double_are_refused(number: bytes) -> None:
    assert refused_at(b"[0," + number + b"]") == 3


@pytest.mark.parametrize("number", [2**63, 2**64 - 1, 2**64, -(2**63) - 1, 10**40, -(10**300)])
def test_integers_beyond_64_bits_stay_exact(number: int) -> None:
    value = parse_json_body(b'{"a":[%d]}' % number)
    assert value == {"a": [number]}
    assert type(value["a"][0]) is int


@pytest.mark.parametrize(("text", "kind"), [(b"1", int), (b"1.0", float), (b"1e2", float), (b"-0", int)])
def test_only_a_number_without_fraction_and_exponent_is_an_integer(text: bytes, kind: type) -> None:
    assert type(parse_json_body(text)) is kind


@pytest.mark.parametrize("levels", [1, 254, 255, 999, 1000])
def test_nesting_up_to_1000_is_read(levels: int) -> None:
    assert depth(parse_json_body(nested(levels))) == levels


@pytest.mark.parametrize(
    "body",
    [
        b"[  %s,%s]" % (nested(739), nested(200)),
        b'{  "v":%s,"0":%s}' % (nested(700), nested(300)),
        b'{  "parameters":[%s]}' % b",".join([nested(700)] * 9),
    ],
)
def test_bracket_after_bracket_is_read_however_it_is_laid_out(body: bytes) -> None:
    assert parse_json_body(body) == json.loads(body)


def test_nesting_of_1000_keeps_large_integers_exact() -> None:
    value = parse_json_body(nested(1000, b"9" * 30))
    while isinstance(value, list):
        [value] = value
    assert value == 10**30 - 1


@pytest.mark.parametrize("levels", [1001, 1024, 1025, 5000])
@pytest.mark.parametrize("closed", [True, False])
def test_deeper_nesting_is_refused_at_the_bracket_that_goes_too_deep(levels: int, closed: bool) -> None:
    assert refused_at(nested(levels) if closed else b"[" * levels) == 1000


def test_brackets_in_strings_do_not_nest() -> None:
    body = b'["%s", %s]' % (b'[\\"' * 2000, nested(300))
    assert depth(parse_json_body(body)[1]) == 300


def test_a_syntax_error_before_the_deep_nesting_comes_first() -> None:
    assert refused_at(b"[x" + b"[" * 2000) == 1


@pytest.mark.parametrize("levels", [200, 500, 999])
def test_nesting_that_nothing_closes_is_refused_at_the_end(levels: int) -> None:
    assert refused_at(b"[" * levels) == levels


@pytest.mark.parametrize(
    ("body", "offset"),
    [
        (b'{"a":1,"a":2}', 7),
        (b'{"a":1, "a" :2}', 8),
        (b'{"a":1,"\\u0061":2}', 7),
        (b'{"\\u0061":1,"a":2}', 12),
        (b'{"\\"":1,"\\"":2}', 8),
        (b'{"a":{"b":1},"c":[{"d":1,"d":2}]}', 25),
        (b'{"a":{"a":1},"a":2}', 13),
        (b'{"a":"\\u003a","a":1}', 14),
        (b'{"a":{},"b":{ },"a":{}}', 16),
        (b'[{"a":1},{"a":1},{"a":1,"a":1}]', 24),
        (b'{"":1,"":2}', 6),
        (b'{"a:":1,"a:":2}', 8),
        (b'{"a":1,"a":2,"b":1,"b":2}', 7),
    ],
)
def test_a_member_named_twice_is_refused_at_its_second_name(body: bytes, offset: int) -> None:
    assert refused_at(body) == offset


def test_a_member_named_twice_is_found_below_deep_nesting() -> None:
    assert refused_at(nested(600, b'{"a":1,"a":2}')) == 607


@pytest.mark.parametrize(
    ("body", "offset"),
    [
        (b'{"a":%s,"a":1}' % nested(1001), 1004),
        (b'{"a":1,"a":%s}' % nested(1001), 7),
        (b'{"a":1,"a":1,"b":%s}' % nested(1001), 7),
    ],
)
def test_of_too_deep_nesting_and_a_repeated_name_the_first_is_told(body: bytes, offset: int) -> None:
    assert refused_at(body) == offset


@pytest.mark.parametrize(
    "body",
    [
        b'{"a":{"a":{"a":1}},"b":["a","a"]}',
        b'[{"a":1},{"a":1}]',
        b'{"a":"\\"a\\":","b":"a\\\\"}',
        b'{"a":"\\u003a","b":"\\u007b"}',
        b'{"a":"b","b":"a"}',
    ],
)
def test_equal_names_in_different_objects_are_accepted(body: bytes) -> None:
    assert parse_json_body(body) == json.loads(body)


@steady
@given(values)
def test_whatever_json_can_say_is_read_as_the_standard_library_reads_it(value: Any) -> None:
    for ensure_ascii in (True, False):
        text = json.dumps(value, ensure_ascii=ensure_ascii)
        assert parse_json_body(text.encode()) == json.loads(text) == value


@settings(deadline=None, derandomize=True, max_examples=40)
@given(st.dictionaries(texts, values, min_size=1), values, st.data())
def test_repeating_any_name_is_refused_where_it_is_repeated(members: dict[str, Any], value: Any, data: Any) -> None:
    name = data.draw(st.sampled_from(sorted(members)))
    beginning = b'[%s,{"x":' % orjson.dumps(str(value)) + json.dumps(members)[:-1].encode() + b","
    body = beginning + json.dumps(name).encode() + b":1}}]"
    assert refused_at(body) == len(beginning)


@steady
@given(st.text(string.printable) | st.text('[]{}",:\\ 0123456789.eE+-truefalsn\u00e9', max_size=20))
def test_text_is_accepted_only_if_the_standard_library_accepts_it(text: str) -> None:
    body = text.encode()
    try:
        expected = json.loads(text, parse_constant=float)
    except json.JSONDecodeError:
        if body:
            assert refused_at(body) <= len(body)
        return
    try:
        found = parse_json_body(body)
    except Refusal:
        # What the standard library lets pass: constants, infinite numbers and repeated names.
        strict = json.dumps(expected)
        assert "NaN" in strict or "Infinity" in strict or text.count(":") > strict.count(":")
    else:
        assert found == expected


@steady
@given(values, st.data())
def test_a_cut_body_is_refused_no_later_than_at_its_end(value: Any, data: Any) -> None:
    body = json.dumps([value], ensure_ascii=False).encode()
    cut = body[: data.draw(st.integers(1, len(body) - 1))]
    assert refused_at(cut) <= len(cut)


COMB = nested(300) + b","
HOSTILE = {
    "empty objects": b"[" + b"{}," * (MEBIBYTE // 3 - 9) + b"1]",
    "strings": b"[" + b'"",' * (MEBIBYTE // 3 - 9) + b"1]",
    "members": b"{" + b",".join(b'"%x":1' % number for number in range(99_999)) + b"}",
    "members, the last twice": b"{" + b",".join(b'"%x":1' % number for number in range(99_999)) + b',"0":1}',
    "quotes": b'"' + b'\\"' * (MEBIBYTE // 2 - 9) + b'"',
    "backslashes": b'"' + b"\\" * (MEBIBYTE - 9),
    "open brackets": b"[" * MEBIBYTE,
    "open brackets and quotes": b'["' * (MEBIBYTE // 2),
    "deep combs": b"[" + COMB * (MEBIBYTE // len(COMB)) + b"1]",
    "digits": b"[" + b"9" * (MEBIBYTE - 9) + b"]",
    "large integers": b"[" + (b"9" * 300 + b",") * (MEBIBYTE // 301 - 9) + b"1]",
    "escapes": b'{"a":"' + b"\\u003a" * (MEBIBYTE // 6 - 9) + b'"}',
}


# The slowest needs a fifth of a second; anything quadratic takes minutes.
@pytest.mark.timeout(60)
@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_mebibyte_takes_linear_time(body: bytes) -> None:
    assert len(body) <= MEBIBYTE
    with suppress(Refusal):
        parse_json_body(body)


def test_floats_are_the_nearest_doubles() -> None:
    value = parse_json_body(b"[0.1,1e-400,5e-324,1.7976931348623157e308,12345678901234567890.5]")
    assert value == [0.1, 0.0, 5e-324, math.nextafter(math.inf, 0), 12345678901234567890.5]
