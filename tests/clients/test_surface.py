"""What callers see: the same in threads and in tasks, with the types of the protos."""

import ast
import asyncio
import inspect
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

import workflow_api_client
from contract.refusals import BY_CODE as REASONS
from workflow_api_client import AsyncClient, Client, errors, records
from workflow_api_client.decoding import decode, decode_event
from workflow_api_client.generated.errors import BY_CODE
from workflow_api_client.testing import FakeApi, complete, progress


def group(client: Client | AsyncClient, name: str) -> type:
    return type(getattr(client, name))


CLIENT, TASK_CLIENT = (kind("http://x", key="k", external_id="e") for kind in (Client, AsyncClient))
TWINS = [
    *((getattr(workflow_api_client, name), getattr(workflow_api_client, f"Async{name}")) for name in ("Client", "Run")),
    *(
        (getattr(workflow_api_client, name), getattr(workflow_api_client, f"Async{name}"))
        for name in ("Outputs", "Listing", "Page")
    ),
    *((group(CLIENT, name), group(TASK_CLIENT, name)) for name in ("runs", "workflows")),
]


def surface(kind: type) -> dict[str, str]:
    """The public members with their parameters, and what they document."""
    members = {name: member for name, member in inspect.getmembers(kind) if not name.startswith("_")}
    return {name: f"{parameters_of(member)} {member.__doc__}" for name, member in members.items()}


def parameters_of(member: object) -> list[str]:
    if not callable(member):
        return []
    return [str(one).replace("Async", "") for one in inspect.signature(member).parameters.values()]


@pytest.mark.parametrize(("threads", "tasks"), TWINS, ids=[threads.__name__ for threads, _ in TWINS])
def test_tasks_have_the_same_names_parameters_and_words(threads: type, tasks: type) -> None:
    assert surface(threads) == surface(tasks)


def raw_names(raw: object) -> dict[str, object]:
    """The methods of `with_raw_response`, by group."""
    return {name: None if callable(one) else raw_names(one) for name, one in vars(raw).items()}


def test_tasks_have_the_same_raw_answers() -> None:
    assert raw_names(CLIENT.with_raw_response) == raw_names(TASK_CLIENT.with_raw_response)
    api = FakeApi()
    api.workflow("Digest")
    run = asyncio.run(api.async_client().runs.start("Digest"))
    assert raw_names(api.client().runs.get(run.id).with_raw_response) == raw_names(run.with_raw_response)


def test_a_task_starts_follows_and_waits() -> None:
    async def work() -> list[str]:
        api = FakeApi()
        api.workflow("Digest", script=[progress("page 1"), complete({"pages": 1}, outputs={"work/a.txt": "a"})])
        async with api.async_client() as client:
            assert [each.name async for each in client.workflows.list("dig")] == ["Digest"]
            run = await client.runs.start("Digest")
            seen: list[str] = [event.type async for event in run.events(live=True)]
            await run.wait(timeout=5)
            assert run.result == {"pages": 1}
            assert await run.fetch_result() == {"pages": 1}
            assert await run.outputs.read("work/a.txt") == b"a"
            assert [each.run_id async for each in client.runs.list(status=["completed"])] == [run.id]
            with pytest.raises(errors.AlreadyTerminalError):
                await run.cancel()
            assert (await run.erase()).run_id == run.id
            return seen

    assert asyncio.run(work())[-2:] == ["run.completed", "segment.ended"]


def test_lists_go_over_all_pages_and_read_them_as_they_are_needed(api: FakeApi) -> None:
    for number in range(250):
        api.workflow(f"Flow {number:03}")
    listing = api.client().workflows.list(q="flow")
    assert next(listing).name == "Flow 000"
    assert len(api.requests) == 1
    assert len(list(listing)) == 249
    assert [each.query["limit"] for each in api.requests] == ["100"] * 3


def test_a_workflow_is_named_exactly_or_by_its_id(api: FakeApi) -> None:
    client = api.client()
    api.workflow("Digest of all")
    workflow_id = api.workflow("Digest")
    assert client.workflows.get("Digest").workflow_id == workflow_id
    assert client.runs.start(workflow_id).record.workflow_name == "Digest"
    with pytest.raises(errors.WorkflowNotFoundError, match="'digest'"):
        client.runs.start("digest")


def test_times_are_dates_and_records_are_typed(api: FakeApi) -> None:
    run = api.client().runs.start(api.workflow("Digest"))
    assert run.record.created_at == datetime(2026, 1, 1, tzinfo=UTC)
    assert isinstance(run.record.counts, records.RunCounts)
    assert isinstance(run.record.pii_policy, records.PiiPolicy)
    assert run.record.pii_policy.categories == "all"
    assert run.record.error is None


def test_what_is_new_or_missing_in_an_answer_does_no_harm(api: FakeApi) -> None:
    record = decode(records.Health, {"status": "sleepy", "deployment_id": "d", "added_later": 1})
    assert repr(record) == "Health(status='sleepy', deployment_id='d', api_version=None)"
    at = "2026-01-01T00:00:00.000+00:00"
    event = {"seq": 3, "type": "step.dreamt", "at": at, "step": None, "data": {"of": "sheep"}}
    dreamt = decode_event(event, "seg_1")
    assert isinstance(dreamt, records.Event)
    assert dreamt.id == "seg_1:3"
    assert dict(dreamt.data) == {"of": "sheep"}


def test_it_imports_httpx_and_nothing_of_the_service() -> None:
    package = Path(workflow_api_client.__file__).parent
    files = [file for file in package.rglob("*.py") if package / "mcp" not in file.parents]
    nodes = [node for file in files for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))]
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
    imported = {name.partition(".")[0] for name in names} - sys.stdlib_module_names
    assert imported == {"httpx", "workflow_api_client"}


def test_every_code_of_the_service_has_a_class() -> None:
    assert BY_CODE.keys() == REASONS.keys()
    assert all(getattr(errors, kind.__name__) is kind for kind in BY_CODE.values())
