"""The client against the real service."""

import asyncio
import json
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from tests.support.client import Caller
from workflow_api_client import AsyncClient, Client, RunFailedError, TimedOutError, errors

SOURCE = Path(__file__).parents[2] / "clients" / "python"


def address_of(caller: Caller) -> str:
    host, port = caller.address
    return f"http://{host}:{port}"


def test_health_key_and_workflows_are_read(client: Client, caller: Caller) -> None:
    assert client.health().status == "ok"
    assert client.me().key_id == caller.key_id
    listed = {workflow.name: workflow for workflow in client.workflows.list()}
    assert [each.name for each in client.workflows.list(q="ech")] == ["Echo"]
    assert client.workflows.get("Echo") == client.workflows.get(listed["Echo"].workflow_id) == listed["Echo"]
    [seconds] = client.workflows.parameters("Sleep")
    assert (seconds.name, seconds.type, seconds.default) == ("seconds", "number", 60)


def test_options_raw_answers_and_pages_are_of_the_service(client: Client) -> None:
    reference = uuid.uuid4().hex
    hasty = client.with_options(timeout=20, headers={"X-Tenant": "blue"})
    runs = [hasty.runs.start("Echo", client_reference=reference, wait=True, timeout=90) for _ in range(3)]
    assert {run.status for run in runs} == {"completed"}
    pages = list(client.runs.list(client_reference=reference).pages(limit=2))
    assert [[each.run_id for each in page.items] for page in pages] == [[runs[2].id, runs[1].id], [runs[0].id]]
    raw = client.with_raw_response.runs.get(runs[0].id)
    assert (raw.status, raw.headers["content-type"]) == (200, "application/json")
    assert json.loads(raw.content)["run_id"] == raw.parsed.id == runs[0].id
    assert raw.request_id
    named = {type(event).__name__ for event in runs[0].stream()}
    assert {"RunCompletedEvent", "StepCompletedEvent"} <= named


def test_a_run_is_started_by_name_followed_and_downloaded(client: Client, tmp_path: Path) -> None:
    reference = uuid.uuid4().hex
    run = client.runs.start("Echo", input_text="hello", labels={"team": "blue"}, client_reference=reference)
    events = list(run.events(live=True))
    assert events[-1].type == "segment.ended"
    assert {"segment.started", "step.completed", "run.completed"} <= {event.type for event in events}
    run.wait(timeout=60)
    assert run.result["text"] == "hello"
    assert run.summary == "# Echo"
    assert run.fetch_result() == run.result
    assert [event.id for event in run.events()] == [event.id for event in events]
    assert [event.id for event in run.events(after=events[2].id)] == [event.id for event in events[3:]]
    assert [step.status for step in run.steps()] == ["completed"]
    assert [each.run_id for each in client.runs.list(client_reference=reference)] == [run.id]
    assert sorted(path.relative_to(tmp_path).as_posix() for path in run.outputs.download(tmp_path)) == [
        "echo/echo.txt",
        "result.json",
    ]
    assert (tmp_path / "echo/echo.txt").read_text() == "hello"
    assert run.download_zip(tmp_path / "all.zip").stat().st_size > 0
    assert run.erase("done").data_purged_at is not None
    assert run.refresh().record.data_purged_at is not None
    with pytest.raises(errors.AlreadyPurgedError):
        run.erase()


def test_a_start_with_the_same_key_is_the_same_run(client: Client) -> None:
    key = uuid.uuid4().hex
    first = client.runs.start("Echo", input_text="once", idempotency_key=key)
    assert client.runs.start("Echo", input_text="once", idempotency_key=key).id == first.id
    with pytest.raises(errors.IdempotencyConflictError):
        client.runs.start("Echo", input_text="twice", idempotency_key=key)


def test_a_parked_run_tells_its_approval_times_out_and_is_cancelled(client: Client) -> None:
    run = client.runs.start("Park").wait(timeout=60, or_approval=True)
    assert [approval.title for approval in run.approvals()] == ["May it go on?"]
    with pytest.raises(TimedOutError):
        run.wait(timeout=0.5)
    run.cancel("enough")
    with pytest.raises(RunFailedError, match="cancelled"):
        _ = run.wait(timeout=60).result
    assert [event.type for event in run.events(live=True)][-1] == "segment.ended"


def test_refusals_have_their_classes(client: Client, caller: Caller) -> None:
    with pytest.raises(errors.InvalidParametersError) as refused:
        client.runs.start("Sleep", parameters={"seconds": "many"})
    assert refused.value.details[0]["name"] == "seconds"
    with pytest.raises(errors.RunNotFoundError):
        client.runs.get("run_/../me")
    stranger = Client(address_of(caller), key=caller.key, external_id="ake_00000000")
    with stranger, pytest.raises(errors.UnauthorizedError):
        stranger.me()


def test_a_task_does_the_same(caller: Caller, tmp_path: Path) -> None:
    async def work() -> None:
        host, port = caller.address
        async with AsyncClient(
            f"http://{host}:{port}/api/v1", key=caller.key, external_id=caller.external_id
        ) as client:
            runs = await asyncio.gather(*(client.runs.start("Echo", input_text=str(number)) for number in range(3)))
            await asyncio.gather(*(run.wait(timeout=60) for run in runs))
            assert [run.result["text"] for run in runs] == ["0", "1", "2"]
            assert [event.type async for event in runs[0].events(live=True)][-1] == "segment.ended"
            assert len(await runs[0].outputs.download(tmp_path)) == 2

    asyncio.run(work())


def test_the_command_starts_watches_and_downloads(caller: Caller, tmp_path: Path) -> None:
    environment = {
        "PYTHONPATH": str(SOURCE),
        "WORKFLOW_API_URL": address_of(caller),
        "WORKFLOW_API_KEY": caller.key,
        "WORKFLOW_API_EXTERNAL_ID": caller.external_id,
    }
    command = [sys.executable, "-m", "workflow_api_client.command", "start", "Echo", "--input-text", "hello"]
    done = subprocess.run(
        [*command, "--watch", "--download", str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "run.completed" in done.stdout
    assert json.loads((tmp_path / "result.json").read_text())["text"] == "hello"
