"""GET /runs/{run_id}/outputs.zip. (contract 18.11 to 18.16)"""

import io
import zipfile
from typing import Any

import pytest

from tests.contract.test_outputs import TREE
from tests.support.client import Caller
from tests.support.expect import refused
from tests.support.service import Service
from tests.support.wire import Wire, request


def unzip(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_zip_holds_every_output_under_its_path(resident: Caller, tree_run: dict[str, Any]) -> None:
    answer = resident.get(f"/runs/{tree_run['run_id']}/outputs.zip")
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "application/zip"
    assert answer.headers["Content-Disposition"].startswith("attachment")
    assert ".zip" in answer.headers["Content-Disposition"]
    assert answer.headers["X-Request-Id"]
    assert unzip(answer.body) == TREE


def test_the_zip_holds_the_result_too(resident: Caller, echo_run: dict[str, Any]) -> None:
    entries = unzip(resident.get(f"/runs/{echo_run['run_id']}/outputs.zip").body)
    assert set(entries) == {"echo/echo.txt", "result.json"}
    assert entries["echo/echo.txt"] == b"hello"


def test_a_run_without_output_files_yields_an_empty_zip(resident: Caller, flows: dict[str, str]) -> None:
    run = resident.finished(flows["Silence"])
    answer = resident.get(f"/runs/{run['run_id']}/outputs.zip")
    assert answer.status == 200
    assert unzip(answer.body) == {}


def test_a_broken_off_zip_is_resumed_by_its_entity_tag(resident: Caller, tree_run: dict[str, Any]) -> None:
    path = f"/runs/{tree_run['run_id']}/outputs.zip"
    whole = resident.get(path)
    tag = whole.headers["ETag"]
    assert (whole.headers["Accept-Ranges"], whole.headers["Content-Length"]) == ("bytes", str(len(whole.body)))
    rest = resident.get(path, headers={"Range": "bytes=100-", "If-Range": tag})
    assert (rest.status, rest.body, rest.headers["ETag"]) == (206, whole.body[100:], tag)
    assert rest.headers["Content-Range"] == f"bytes 100-{len(whole.body) - 1}/{len(whole.body)}"
    assert resident.get(path, headers={"Range": "bytes=100-", "If-Range": '"other"'}).body == whole.body
    assert resident.get(path, headers={"If-None-Match": tag}).status == 304
    beyond = resident.get(path, headers={"Range": f"bytes={len(whole.body)}-"})
    refused(beyond, 416, "range_not_satisfiable")
    assert beyond.headers["Content-Range"] == f"bytes */{len(whole.body)}"


@pytest.mark.long
def test_two_thousand_files_fit_and_one_more_does_not(resident: Caller, flows: dict[str, str]) -> None:
    for count in (2000, 2001):
        run = resident.finished(flows["Files"], parameters={"count": count})
        assert run["status"] == "completed", run
        listed = resident.get(f"/runs/{run['run_id']}/outputs").json()
        assert len(listed["items"]) == run["counts"]["outputs"] == count
        answer = resident.get(f"/runs/{run['run_id']}/outputs.zip")
        if count == 2000:
            assert answer.status == 200
            entries = unzip(answer.body)
            assert len(entries) == 2000
            assert entries["write/1999.txt"] == b"1999"
        else:
            refused(answer, 413, "bundle_too_large")
            assert resident.get(listed["items"][0]["download"]["path"].removeprefix("/api/v1")).status == 200


@pytest.mark.long
def test_500_000_000_bytes_fit_in_constant_memory_and_one_more_does_not(
    resident: Caller, service: Service, flows: dict[str, str]
) -> None:
    for size in (500_000_000, 500_000_001):
        run = resident.wait(resident.started(flows["Whale"], parameters={"size": size}))
        assert run["status"] == "completed", run
        path = f"/runs/{run['run_id']}/outputs.zip"
        if size == 500_000_000:
            with Wire(resident.address) as wire:
                wire.send(request("GET", path, *resident.credential_headers, ("Connection", "close")))
                assert wire.head().status == 200
                received, peak = 0, 0
                while piece := wire.read(1 << 22):
                    received += len(piece)
                    peak = max(peak, service.memory())
            assert received > size
            assert peak < 300_000_000
        else:
            refused(resident.get(path), 413, "bundle_too_large")
        resident.delete(f"/runs/{run['run_id']}/data")
