"""`with_raw_response`: status, headers and body of answers, beside their parsed values."""

import asyncio
import json

import pytest

from workflow_api_client import AsyncRun, Run, errors, records
from workflow_api_client.testing import FakeApi, complete


def test_a_call_returns_its_answer_beside_the_parsed_value(api: FakeApi) -> None:
    api.workflow("Digest")
    client = api.client()
    me = client.with_raw_response.me()
    assert me.parsed == client.me()
    assert (me.status, me.headers["Content-Type"]) == (200, "application/json")
    assert json.loads(me.content)["key_id"] == me.parsed.key_id
    assert me.request_id == api.requests[0].headers["x-request-id"]


def test_a_start_tells_a_new_run_from_a_replay(api: FakeApi) -> None:
    api.workflow("Digest")
    runs = api.client().with_raw_response.runs
    first, again = (runs.start("Digest", idempotency_key="order-7") for _ in range(2))
    assert (first.status, again.status) == (201, 200)
    assert again.headers["idempotency-replayed"] == "true"
    assert isinstance(again.parsed, Run)
    assert again.parsed.id == first.parsed.id


def test_pages_runs_and_outputs_have_raw_answers(api: FakeApi) -> None:
    workflow_id = api.workflow("Digest", script=[complete(outputs={"work/a.txt": "a"})])
    client = api.client()
    run = client.runs.start("Digest", wait=True)
    page = client.with_raw_response.runs.page(limit=1)
    assert [item["run_id"] for item in json.loads(page.content)["items"]] == [page.parsed.items[0].run_id] == [run.id]
    assert client.with_raw_response.workflows.get("Digest").parsed.workflow_id == workflow_id
    assert run.with_raw_response.refresh().headers["ETag"]
    [output] = run.with_raw_response.outputs.list().parsed
    assert output.path == "work/a.txt"
    assert run.with_raw_response.erase("no more").status == 202


def test_a_refusal_is_raised_and_later_calls_are_as_before(api: FakeApi) -> None:
    client = api.client()
    with pytest.raises(errors.RunNotFoundError):
        client.with_raw_response.runs.get("run_none")
    assert isinstance(client.me(), records.ApiKey)


def test_tasks_at_once_have_their_own_answers(api: FakeApi) -> None:
    api.workflow("Digest")

    async def work() -> None:
        async with api.async_client() as client:
            runs = client.with_raw_response.runs
            started = await asyncio.gather(*(runs.start("Digest") for _ in range(5)))
            assert all(isinstance(each.parsed, AsyncRun) for each in started)
            assert [json.loads(each.content)["run_id"] for each in started] == [each.parsed.id for each in started]
            assert (await started[0].parsed.with_raw_response.steps()).status == 200

    asyncio.run(work())
