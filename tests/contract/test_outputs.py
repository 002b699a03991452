"""Listing and fetching outputs. (contract 18)"""

import hashlib
from typing import Any

import pytest

from tests.support.client import Caller
from tests.support.expect import is_timestamp, refused

FIELDS = {"output_id", "name", "path", "step", "media_type", "size_bytes", "sha256", "created_at", "download"}
TREE = {
    'grow/deep/er/naïve plan "b".txt': b"plan b",
    "grow/empty.bin": b"",
    "grow/table.csv": b"a,b\n1,2\n",
    "grow/bytes.bin": bytes(range(256)) * 4,
}


def content_path(output: dict[str, Any]) -> str:
    path: str = output["download"]["path"]
    return path.removeprefix("/api/v1")


def test_outputs_are_listed_with_all_their_fields(resident: Caller, tree_run: dict[str, Any]) -> None:
    answer = resident.get(f"/runs/{tree_run['run_id']}/outputs").json()
    assert set(answer) == {"items", "total_bytes", "bundle"}
    assert answer["bundle"] == {"path": f"/api/v1/runs/{tree_run['run_id']}/outputs.zip"}
    assert answer["total_bytes"] == sum(len(content) for content in TREE.values())
    assert {item["path"] for item in answer["items"]} == set(TREE)
    for item in answer["items"]:
        content = TREE[item["path"]]
        assert set(item) == FIELDS
        assert item["name"] == item["path"].rsplit("/", 1)[1]
        assert item["step"] == "grow"
        assert item["size_bytes"] == len(content)
        assert item["sha256"] == hashlib.sha256(content).hexdigest()
        assert item["output_id"].startswith("out_")
        assert is_timestamp(item["created_at"])
        assert item["download"] == {"path": f"/api/v1/runs/{tree_run['run_id']}/outputs/{item['output_id']}/content"}
    assert tree_run["counts"]["outputs"] == len(TREE)


@pytest.mark.parametrize("path", TREE)
def test_content_is_the_bytes_with_their_headers(resident: Caller, tree_run: dict[str, Any], path: str) -> None:
    output = resident.outputs(tree_run["run_id"])[path]
    answer = resident.get(content_path(output))
    assert (answer.status, answer.body) == (200, TREE[path])
    assert answer.headers["Content-Type"].split(";")[0] == output["media_type"].split(";")[0]
    assert answer.headers["Content-Length"] == str(len(TREE[path]))
    assert answer.headers["Content-Disposition"].startswith("attachment")
    assert answer.headers["ETag"] == f'"{output["sha256"]}"'
    assert answer.headers["Accept-Ranges"] == "bytes"
    assert answer.headers["X-Request-Id"]
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cache-Control"] == "no-store"


def test_media_types_follow_the_file_names(resident: Caller, tree_run: dict[str, Any]) -> None:
    types = {path: output["media_type"].split(";")[0] for path, output in resident.outputs(tree_run["run_id"]).items()}
    assert types["grow/table.csv"] == "text/csv"
    assert types['grow/deep/er/naïve plan "b".txt'] == "text/plain"
    assert types["grow/bytes.bin"] == "application/octet-stream"


def test_file_names_are_encoded_as_rfc_6266_says(resident: Caller, tree_run: dict[str, Any]) -> None:
    outputs = resident.outputs(tree_run["run_id"])
    plain = resident.get(content_path(outputs["grow/table.csv"])).headers["Content-Disposition"]
    assert "filename=table.csv" in plain.replace('"', "")
    odd = resident.get(content_path(outputs['grow/deep/er/naïve plan "b".txt'])).headers["Content-Disposition"]
    assert "filename*=utf-8''na%c3%afve%20plan%20%22b%22.txt" in odd.lower()


def test_an_unknown_output_is_not_found(resident: Caller, tree_run: dict[str, Any]) -> None:
    refused(resident.get(f"/runs/{tree_run['run_id']}/outputs/out_none/content"), 404, "output_not_found")


def test_a_run_without_output_files_lists_none(resident: Caller, flows: dict[str, str]) -> None:
    run = resident.finished(flows["Silence"])
    answer = resident.get(f"/runs/{run['run_id']}/outputs").json()
    assert (answer["items"], answer["total_bytes"]) == ([], 0)


@pytest.mark.parametrize("suffix", ["outputs", "outputs.zip", "outputs/out_none/content"])
def test_outputs_of_an_unfinished_run_are_refused_with_its_status(
    resident: Caller, parked_run: dict[str, Any], flows: dict[str, str], suffix: str
) -> None:
    details = {"status": "waiting_for_approval"}
    refused(resident.get(f"/runs/{parked_run['run_id']}/{suffix}"), 409, "run_not_terminal", details)
    running = resident.started(flows["Sleep"])
    resident.wait_for_event(running, "step.progress")
    refused(resident.get(f"/runs/{running}/{suffix}"), 409, "run_not_terminal", {"status": "running"})
    resident.post(f"/runs/{running}/cancel")


def test_outputs_of_a_failed_run_are_what_completed_steps_left(resident: Caller, flows: dict[str, str]) -> None:
    run = resident.finished(flows["Failure"], input_text="kept")
    outputs = resident.outputs(run["run_id"])
    assert set(outputs) == {"first/echo.txt"}
    assert resident.get(content_path(outputs["first/echo.txt"])).body == b"kept"


def test_outputs_are_available_as_soon_as_the_run_has_completed(caller: Caller, flows: dict[str, str]) -> None:
    """With redaction off there is no sweep to wait for."""
    for _ in range(5):
        run = caller.finished(flows["Echo"], input_text="at once")
        assert caller.get(f"/runs/{run['run_id']}/outputs").status == 200
        assert run["result"]["text"] == "at once"


def test_an_output_of_25_000_000_bytes_is_served_and_one_byte_more_is_not(
    resident: Caller, flows: dict[str, str]
) -> None:
    for size in (25_000_000, 25_000_001):
        run = resident.finished(flows["Whale"], parameters={"size": size})
        assert run["status"] == "completed", run
        path = content_path(resident.outputs(run["run_id"])["sing/whale.bin"])
        if size == 25_000_000:
            answer = resident.get(path)
            assert (answer.status, len(answer.body)) == (200, size)
            continue
        bundle = {"bundle": f"/api/v1/runs/{run['run_id']}/outputs.zip"}
        refused(resident.get(path), 413, "use_bundle", bundle)
        # The bound counts the file, not the range; the size comes before the range.
        for value in ("bytes=0-9", f"bytes={size}-"):
            refused(resident.get(path, headers={"Range": value}), 413, "use_bundle", bundle)
