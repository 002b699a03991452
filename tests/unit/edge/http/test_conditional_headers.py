from collections.abc import Sequence
from types import SimpleNamespace
from typing import cast

import pytest
from multidict import CIMultiDict

from edge.http.conditional_headers import take_conditions
from edge.http.request import HttpRequest
from workflow_api.v1.outputs_pb2 import ByteRange, GetOutputContentRequest

FAR = 2**63 - 1


def asked(*headers: tuple[str, str]) -> GetOutputContentRequest:
    given = CIMultiDict(headers)
    request = SimpleNamespace(header=given.get, header_values=lambda name: given.getall(name, ()))
    message = GetOutputContentRequest()
    take_conditions(cast("HttpRequest", request), message)
    return message


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("bytes=0-0", ByteRange(first=0, last=0)),
        ("bytes=5-", ByteRange(first=5)),
        ("bytes=-5", ByteRange(suffix_length=5)),
        ("bytes=-0", ByteRange(suffix_length=0)),
        ("Bytes= 1-2 ", ByteRange(first=1, last=2)),
        ("bytes=007-0010", ByteRange(first=7, last=10)),
        ("bytes=0-99999999999999999999999999", ByteRange(first=0, last=FAR)),
        (f"bytes={'9' * 5000}-", ByteRange(first=FAR)),
        (f"bytes=000{FAR - 1}-", ByteRange(first=FAR - 1)),
        (f"bytes={FAR + 1}-", ByteRange(first=FAR)),
        ("bytes=0-1,", ByteRange(first=0, last=1)),
        ("bytes=,0-1", ByteRange(first=0, last=1)),
        ("bytes= , ,\t5- , ,", ByteRange(first=5)),
        ("bytes=,-5,", ByteRange(suffix_length=5)),
    ],
    ids=lambda value: str(value)[:40],
)
def test_one_well_formed_range_is_taken(value: str, expected: ByteRange) -> None:
    assert asked(("Range", value)).range == expected


@pytest.mark.parametrize(
    "values",
    [
        ["bytes=0-1,3-4"],
        ["bytes=5-1"],
        ["bytes=-"],
        ["bytes="],
        ["bytes=,"],
        ["bytes= , "],
        ["bytes=,0-1,,2-3"],
        ["bytes=0-1 2-3"],
        ["bytes=0 -1"],
        ["bytes=0-1;"],
        ["bytes=a-b"],
        ["bytes=1_0-20"],
        ["bytes=\u0661-"],
        ["bytes=+1-2"],
        ["bytes=--1"],
        ["bytes=1-2\n"],
        ["bytes 1-2"],
        ["lines=1-2"],
        [""],
        ["bytes=0-1", "bytes=0-1"],
        ["bytes=\udcc3-1"],
    ],
    ids=repr,
)
def test_several_ranges_or_a_malformed_one_mean_the_whole_file(values: Sequence[str]) -> None:
    assert not asked(*[("Range", value) for value in values]).HasField("range")


def test_if_range_travels_with_the_range() -> None:
    message = asked(("Range", "bytes=0-1"), ("If-Range", '"abc"'))
    assert (message.HasField("range"), message.if_range) == (True, "abc")


@pytest.mark.parametrize("value", ['W/"abc"', "Wed, 21 Oct 2015 07:28:00 GMT", "abc", '""', '"\udcff"'], ids=repr)
def test_an_if_range_that_can_never_hold_means_the_whole_file(value: str) -> None:
    assert not asked(("Range", "bytes=0-1"), ("If-Range", value)).HasField("range")


def test_if_range_without_range_says_nothing() -> None:
    assert not asked(("If-Range", '"abc"')).HasField("if_range")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (['"abc"'], ["abc"]),
        (['W/"abc"'], ["abc"]),
        (['"a", W/"b" ,"c"'], ["a", "b", "c"]),
        (['"a"', '"b"'], ["a", "b"]),
        (["*"], ["*"]),
        ([" * "], ["*"]),
        (['"*"'], []),
        (['"a", W/"*"'], ["a"]),
        (["abc"], []),
        (['"a" "b"'], []),
        (['"a", b'], []),
        (['"\udcff"'], []),
        (["," * 1000], []),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_if_none_match_is_a_list_of_tags(values: Sequence[str], expected: list[str]) -> None:
    assert list(asked(*[("If-None-Match", value) for value in values]).if_none_match) == expected


def test_a_hostile_tag_list_is_judged_quickly() -> None:
    assert not asked(("If-None-Match", '"a",' * 8000 + "x")).if_none_match
    assert not asked(("If-None-Match", " \t" * 16000 + "x")).if_none_match
