"""Ranges and conditions on one output of 1,024 bytes. (contract 18.11 to 18.13; RFC 9110)"""

from typing import Any

import pytest

from tests.support.client import Caller
from tests.support.expect import refused

CONTENT = bytes(range(256)) * 4
SIZE = len(CONTENT)

PARTIAL = {
    "bytes=0-0": (0, 0),
    "bytes=0-1023": (0, 1023),
    "bytes=10-19": (10, 19),
    "bytes=1000-": (1000, 1023),
    "bytes=0-": (0, 1023),
    "bytes=1023-": (1023, 1023),
    "bytes=1000-99999": (1000, 1023),
    "bytes=1000-999999999999999999999999": (1000, 1023),
    "bytes=-1": (1023, 1023),
    "bytes=-1024": (0, 1023),
    "bytes=-5000": (0, 1023),
    "bytes=-99999999999999999999999999": (0, 1023),
    "bytes=0-1,": (0, 1),
    "bytes=,0-1": (0, 1),
    "bytes=, , -1 ,": (1023, 1023),
}
UNSATISFIABLE = ["bytes=1024-", "bytes=1024-2000", "bytes=-0", "bytes=5000-", "bytes=99999999999999999999999999-"]
WHOLE = [
    "bytes=0-1,3-4",
    "bytes=0-1, 2000-",
    "bytes=5-2",
    "bytes=a-b",
    "bytes=",
    "bytes=,",
    "bytes=-",
    "bytes",
    "bytes 0-1",
    "bytes=1-2-3",
    "bytes=0x0-1",
    "bytes=1_0-20",
    "bytes=+1-2",
    "bytes=--1",
    "items=0-1",
    "",
]


@pytest.fixture(scope="module")
def path(resident: Caller, tree_run: dict[str, Any]) -> str:
    output: str = resident.outputs(tree_run["run_id"])["grow/bytes.bin"]["download"]["path"]
    return output.removeprefix("/api/v1")


@pytest.fixture(scope="module")
def etag(resident: Caller, path: str) -> str:
    tag: str = resident.get(path).headers["ETag"]
    return tag


@pytest.mark.parametrize("value", PARTIAL)
def test_one_range_is_answered_with_206(resident: Caller, path: str, etag: str, value: str) -> None:
    first, last = PARTIAL[value]
    answer = resident.get(path, headers={"Range": value})
    assert (answer.status, answer.body) == (206, CONTENT[first : last + 1])
    assert answer.headers["Content-Range"] == f"bytes {first}-{last}/{SIZE}"
    assert answer.headers["Content-Length"] == str(last + 1 - first)
    assert answer.headers["ETag"] == etag


@pytest.mark.parametrize("value", UNSATISFIABLE)
def test_a_range_that_does_not_fit_is_answered_with_the_size(resident: Caller, path: str, value: str) -> None:
    answer = resident.get(path, headers={"Range": value})
    refused(answer, 416, "range_not_satisfiable")
    assert answer.headers["Content-Range"] == f"bytes */{SIZE}"


@pytest.mark.parametrize("value", WHOLE)
def test_several_ranges_or_a_malformed_header_get_the_whole_file(resident: Caller, path: str, value: str) -> None:
    answer = resident.get(path, headers={"Range": value})
    assert (answer.status, answer.body) == (200, CONTENT)
    assert answer.headers["Content-Range"] is None


@pytest.mark.parametrize("value", ["bytes=0-", "bytes=0-0", "bytes=-0"])
def test_no_range_fits_an_empty_file(resident: Caller, tree_run: dict[str, Any], value: str) -> None:
    output = resident.outputs(tree_run["run_id"])["grow/empty.bin"]["download"]["path"].removeprefix("/api/v1")
    answer = resident.get(output, headers={"Range": value})
    refused(answer, 416, "range_not_satisfiable")
    assert answer.headers["Content-Range"] == "bytes */0"


def test_the_last_bytes_of_an_empty_file_are_the_whole_file(resident: Caller, tree_run: dict[str, Any]) -> None:
    output = resident.outputs(tree_run["run_id"])["grow/empty.bin"]["download"]["path"].removeprefix("/api/v1")
    answer = resident.get(output, headers={"Range": "bytes=-1"})
    assert (answer.status, answer.body, answer.headers["Content-Length"]) == (200, b"", "0")
    assert answer.headers["Content-Range"] is None


def test_if_range_with_the_entity_tag_gives_the_range(resident: Caller, path: str, etag: str) -> None:
    answer = resident.get(path, headers={"Range": "bytes=0-9", "If-Range": etag})
    assert (answer.status, answer.body) == (206, CONTENT[:10])


@pytest.mark.parametrize("value", ['"other"', "Wed, 21 Oct 2026 07:28:00 GMT", "W/{etag}", "{bare}", "nonsense"])
def test_if_range_with_anything_else_gives_the_whole_file(resident: Caller, path: str, etag: str, value: str) -> None:
    condition = value.format(etag=etag, bare=etag.strip('"'))
    for asked in ("bytes=0-9", "bytes=5000-"):
        answer = resident.get(path, headers={"Range": asked, "If-Range": condition})
        assert (answer.status, answer.body) == (200, CONTENT)


@pytest.mark.parametrize("value", ["{etag}", "*", '"other", {etag}', "W/{etag}"])
def test_if_none_match_with_the_entity_tag_answers_304(resident: Caller, path: str, etag: str, value: str) -> None:
    answer = resident.get(path, headers={"If-None-Match": value.format(etag=etag)})
    assert (answer.status, answer.body) == (304, b"")
    assert answer.headers["ETag"] == etag
    assert answer.headers["X-Request-Id"]


def test_if_none_match_comes_before_a_range(resident: Caller, path: str, etag: str) -> None:
    for asked in ("bytes=0-9", "bytes=5000-"):
        assert resident.get(path, headers={"Range": asked, "If-None-Match": etag}).status == 304


@pytest.mark.parametrize("value", ['"other"', 'W/"other", "another"'])
def test_if_none_match_with_other_tags_gives_the_file(resident: Caller, path: str, value: str) -> None:
    answer = resident.get(path, headers={"If-None-Match": value})
    assert (answer.status, answer.body) == (200, CONTENT)
