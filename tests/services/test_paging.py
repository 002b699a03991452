"""Pages of every list: each item once, also where items come in between; tokens of other lists are refused."""

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from sqlalchemy import bindparam, update

from backend.common.clock import DAY_MS, HOUR_MS
from backend.services.logs import sql as logs_sql
from backend.services.model_usage.sql import AttemptUsage, record
from backend.services.users import sql as users_sql
from backend.storage.statements import Command
from backend.storage.tables.runs import runs
from contract.routes import FILES
from contract.times import to_timestamp
from tests.services.calls import Caller, RefusedError
from tests.services.runs.world import World
from workflow_api.v1 import edge_pb2, runs_pb2, usage_pb2, webhooks_pb2, workflows_pb2
from workflow_api_testing import TestBackend

METHODS = {
    method.name: method
    for file in FILES
    for service in file.services_by_name.values()
    for method in service.methods
    if method.name.startswith("List")
}
PUBLIC_TOKENS = {"ListRuns", "ListWorkflows"}


@dataclass
class Lists:
    """All services over one database, and calls of their lists."""

    world: World
    call: Caller
    run_id: str = ""
    webhook_id: str = ""
    has_agent: bool = False
    numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    def page(self, method: str, **asked: Any) -> Any:
        request: Message = GetMessageClass(METHODS[method].input_type)(**asked)
        caller = None if method in INTERNAL else self.world.key
        return self.call(method, request, caller)

    def refusal(self, method: str, **asked: Any) -> tuple[str, list[str]]:
        with pytest.raises(RefusedError) as refused:
            self.page(method, **asked)
        return refused.value.reason, list(refused.value.problems)

    def of_run(self) -> dict[str, Any]:
        return {"run_id": self.run_id}

    def of_workflow(self) -> dict[str, Any]:
        return {"workflow_id": self.world.workflows["Plain"]}

    def of_environments(self) -> dict[str, Any]:
        return {"kind": workflows_pb2.RESOURCE_KIND_ENVIRONMENT}

    def add_key(self) -> None:
        self.world.clock.advance(seconds=next(self.numbers) % 2)
        self.world.new_key()

    def add_user(self) -> None:
        number = next(self.numbers)
        columns = {"role": "approver", "password_hash": "", "password_is_temporary": 1, "created_at": 1}
        unset = dict.fromkeys(("disabled_at", "signed_in_at", "workflow_ids"))
        name = f"{'zma'[number % 3]}{number}"
        self.world.services.database.write(lambda tx: users_sql.add(tx, {"name": name, **columns, **unset}))

    def add_graph(self) -> None:
        number = next(self.numbers)
        self.world.apply(f"kind: KnowledgeGraph\nname: {'zma'[number % 3]}{number}\n")

    def add_environment(self) -> None:
        number = next(self.numbers)
        self.world.apply(f"kind: Environment\nname: {'zma'[number % 3]}{number}\n")

    def add_workflow(self) -> None:
        number = next(self.numbers)
        self.world.apply(f"kind: Workflow\nname: {'Zma'[number % 3]}{number}\nstatus: active\nsteps: []\n")

    def of_agent(self) -> dict[str, Any]:
        if not self.has_agent:
            self.add_version()
        return {"kind": "Agent", "definition": "listed"}

    def add_version(self) -> None:
        self.has_agent = True
        code = f"def run(context): return {next(self.numbers)}"
        self.world.apply(f"kind: Agent\nname: listed\ntype: python\ncode: '{code}'\n")

    def add_use(self) -> None:
        self.of_agent()
        number = next(self.numbers)
        steps = "[{step: a, agent: listed}]"
        self.world.apply(f"kind: Workflow\nname: {'Zma'[number % 3]}{number}\nsteps: {steps}\n")

    def add_run(self) -> None:
        self.world.clock.advance(seconds=next(self.numbers) % 2)
        self.world.started()

    def add_child(self) -> None:
        self.run_id = self.run_id or self.world.started(key=self.world.new_key())
        self.world.clock.advance(seconds=next(self.numbers) % 2)
        child = self.world.started(key=self.world.new_key())
        adopt = update(runs).where(runs.c.run_id == bindparam("of")).values(parent_run_id=self.run_id, parent_step="a")
        self.world.services.database.write(lambda tx: tx.run(Command(adopt), of=child))

    def add_parked_run(self) -> None:
        self.run_id = self.world.started("Gated", key=self.world.new_key())
        self.world.park(self.run_id, self.world.begin(self.run_id), "review", "other")

    def add_own_parked_run(self) -> None:
        self.run_id = self.run_id or self.world.started("Gated")
        if not self.world.steps(self.run_id)["review"].HasField("started_at"):
            self.world.park(self.run_id, self.world.begin(self.run_id), "review", "other")

    def add_decision(self) -> None:
        self.add_own_parked_run()
        request = runs_pb2.ListRunApprovalsRequest(run_id=self.run_id)
        waiting: Any = self.call("ListRunApprovals", request, self.world.key).items
        if waiting:
            self.world.decide(waiting[0].approval_id, approve=True)

    def add_decision_of_a_run(self) -> None:
        self.world.clock.advance(seconds=next(self.numbers) % 2)
        self.add_parked_run()
        request = runs_pb2.ListPendingApprovalsRequest(page_size=1)
        (waiting,) = self.call("ListPendingApprovals", request).items
        self.world.decide(waiting.approval.approval_id, approve=True)

    def add_webhook(self) -> None:
        self.world.clock.advance(seconds=next(self.numbers) % 2)
        url = f"https://example.org/{next(self.numbers)}"
        made: Any = self.call("CreateWebhook", webhooks_pb2.CreateWebhookRequest(key_id=self.world.key, url=url))
        self.webhook_id = self.webhook_id or made.webhook.webhook_id

    def add_delivery(self) -> None:
        if not self.webhook_id:
            self.add_webhook()
        self.world.clock.advance(seconds=next(self.numbers) % 2)
        self.world.finished()

    def add_schedule(self) -> None:
        name = f"Timed {(next(self.numbers) * 7) % 100:02}"
        steps = "steps: [{step: first, agent: worker, environment: standard}]"
        self.world.apply(
            f"kind: Workflow\nname: {name}\nstatus: active\nschedules: [{{name: nightly, cron: '@daily'}}]\n{steps}"
        )

    def add_set(self) -> None:
        number = next(self.numbers)
        content = f"kind: Environment\nname: e{number}\n"
        request = workflows_pb2.ApplyManifestsRequest(
            files=[workflows_pb2.ManifestFile(name="f.yaml", content=content)], set_name=f"{'zma'[number % 3]}{number}"
        )
        self.call("ApplyManifests", request)

    def of_webhook(self) -> dict[str, Any]:
        return {"webhook_id": self.webhook_id}

    def add_log(self) -> None:
        self.run_id = self.run_id or self.world.started()
        number, at = next(self.numbers), self.world.clock()
        step = "cab"[number % 3]
        self.world.services.database.write(lambda tx: logs_sql.LOGS.begin(tx, self.run_id, step, number, at))

    def add_event(self) -> None:
        if not self.run_id:
            self.run_id = self.world.started()
            self.world.begin(self.run_id)
        segment_id = self.world.events(self.run_id).segment_id
        self.world.write(segment_id, "step.progress", step="first", data={"number": next(self.numbers)})

    def add_output(self) -> None:
        if not self.run_id:
            self.run_id = self.world.finished()
        number = next(self.numbers)
        self.world.output(self.run_id, f"first/{'zma'[number % 3]}{number}.txt", b"abc")

    def add_usage(self) -> None:
        number = next(self.numbers)
        at = to_timestamp(HOUR_MS * (10 + number // 4))
        records = [
            usage_pb2.UsageRecord(at=at, key_id=key_id, method="GET", route="/me", status=200 + number % 4)
            for key_id in ("ak_2", "ak_1")
        ]
        request = edge_pb2.RecordUsageRequest(batch_id=f"b{number * 7 % 10}{number}", records=records)
        self.call("RecordUsage", request)

    def add_model_usage(self) -> None:
        number = next(self.numbers)
        started = self.world.dump("runs")
        run_id = started[0].run_id if started else self.world.started()
        usage = AttemptUsage("first", -1, number, f"openai:m{number % 3}", 1, 2, 3, 0, None)
        at = (10 + number // 3) * DAY_MS
        self.world.services.database.write(lambda tx: record(tx, run_id, at, [usage]))


class Listing(NamedTuple):
    """How a list gets one item more, or several, and what its request names."""

    add: Callable[[Lists], object] = lambda _: None
    asked: Callable[[Lists], dict[str, Any]] = lambda _: {}


LISTS = {
    "ListAllDecisions": Listing(Lists.add_decision_of_a_run),
    "ListAuditRecords": Listing(Lists.add_key),
    "ListChildRuns": Listing(Lists.add_child, Lists.of_run),
    "ListDecisions": Listing(Lists.add_decision, Lists.of_run),
    "ListDefinitionUses": Listing(Lists.add_use, Lists.of_agent),
    "ListDefinitionVersions": Listing(Lists.add_version, Lists.of_agent),
    "ListEnvironmentBuilds": Listing(Lists.add_environment),
    "ListFoundRuns": Listing(Lists.add_run),
    "ListKeys": Listing(Lists.add_key),
    "ListKnowledgeGraphs": Listing(Lists.add_graph),
    "ListOutputs": Listing(Lists.add_output, Lists.of_run),
    "ListParameters": Listing(asked=Lists.of_workflow),
    "ListPendingApprovals": Listing(Lists.add_parked_run),
    "ListResources": Listing(Lists.add_environment, Lists.of_environments),
    "ListRunApprovals": Listing(Lists.add_own_parked_run, Lists.of_run),
    "ListRunEvents": Listing(Lists.add_event, Lists.of_run),
    "ListRunLogs": Listing(Lists.add_log, Lists.of_run),
    "ListRunSteps": Listing(Lists.add_own_parked_run, Lists.of_run),
    "ListRuns": Listing(Lists.add_run),
    "ListSchedules": Listing(Lists.add_schedule),
    "ListSets": Listing(Lists.add_set),
    "ListModelUsageDays": Listing(Lists.add_model_usage),
    "ListUsageHours": Listing(Lists.add_usage),
    "ListUsageRecords": Listing(Lists.add_usage),
    "ListUsers": Listing(Lists.add_user),
    "ListWebhookDeliveries": Listing(Lists.add_delivery, Lists.of_webhook),
    "ListWebhooks": Listing(Lists.add_webhook),
    "ListWorkflowSizes": Listing(Lists.add_workflow),
    "ListWorkflows": Listing(Lists.add_workflow),
}
INTERNAL = {
    "ListModelUsageDays",
    "ListAllDecisions",
    "ListAuditRecords",
    "ListChildRuns",
    "ListDecisions",
    "ListDefinitionUses",
    "ListDefinitionVersions",
    "ListEnvironmentBuilds",
    "ListFoundRuns",
    "ListKeys",
    "ListKnowledgeGraphs",
    "ListPendingApprovals",
    "ListResources",
    "ListRunLogs",
    "ListSchedules",
    "ListSets",
    "ListUsageHours",
    "ListUsageRecords",
    "ListUsers",
    "ListWebhookDeliveries",
    "ListWebhooks",
    "ListWorkflowSizes",
}


@pytest.fixture
def lists(backend: TestBackend, tmp_path: Path) -> Lists:
    return Lists(World(backend.composition.services, backend.clock, tmp_path), Caller.of_backend(backend))


def items_of(page: Any) -> list[Message]:
    """Returns the members of the only repeated field of messages, or of that named as the items."""
    repeated = [
        each.name for each in page.DESCRIPTOR.fields if each.is_repeated and each.type == FieldDescriptor.TYPE_MESSAGE
    ]
    [name] = {"items", "events", "parameters"} & set(repeated)
    return list(getattr(page, name))


def read_in_pages(
    lists: Lists, method: str, size: int, between: Callable[[], object] = lambda: None
) -> tuple[list[Message], int]:
    """Returns the items of all pages, and how many pages there were; `between` is called after the first."""
    asked = LISTS[method].asked(lists)
    page = lists.page(method, page_size=size, **asked)
    items, count = items_of(page), 1
    between()
    while page.HasField("next_page_token"):
        assert len(items_of(page)) == size
        page = lists.page(method, page_size=size, page_token=page.next_page_token, **asked)
        items += items_of(page)
        count += 1
        assert count < 50
    return items, count


def filled(lists: Lists, method: str) -> list[Message]:
    """Adds items to a list, and returns all that it has then."""
    for _ in range(5):
        LISTS[method].add(lists)
    asked = LISTS[method].asked(lists)
    most = {"page_size": 100} if method in {"ListRuns", "ListWorkflows", "ListAuditRecords"} else {}
    whole = lists.page(method, **most, **asked)
    assert not whole.HasField("next_page_token")
    return items_of(whole)


def test_every_list_is_tested_here() -> None:
    assert set(LISTS) == set(METHODS)


@pytest.mark.parametrize("method", LISTS)
def test_pages_have_every_item_once_and_in_order(lists: Lists, method: str) -> None:
    every = filled(lists, method)
    assert len(every) > 1
    for size in (1, 2, len(every) - 1, len(every), len(every) + 1):
        items, count = read_in_pages(lists, method, size)
        assert items == every
        assert count == -(-len(every) // size)


@pytest.mark.parametrize("method", sorted(LISTS.keys() - {"ListParameters", "ListRunApprovals", "ListRunSteps"}))
def test_what_comes_in_between_pages_changes_nothing_of_what_was_there(lists: Lists, method: str) -> None:
    every = filled(lists, method)

    def add() -> None:
        for _ in range(3):
            LISTS[method].add(lists)

    items, _ = read_in_pages(lists, method, 2, add)
    assert [item for item in items if item in every] == every


def test_what_is_decided_between_pages_leaves_the_others(lists: Lists) -> None:
    every = filled(lists, "ListRunApprovals")
    first: Any = every[0]
    items, _ = read_in_pages(lists, "ListRunApprovals", 1, lambda: lists.world.decide(first.approval_id, approve=True))
    assert items == every


@pytest.mark.parametrize("method", LISTS)
def test_a_token_that_was_not_issued_for_the_list_is_refused(lists: Lists, method: str) -> None:
    filled(lists, method)
    asked = LISTS[method].asked(lists)
    token = lists.page(method, page_size=1, **asked).next_page_token
    other = "ListKeys" if method != "ListKeys" else "ListAuditRecords"
    for _ in range(2):
        lists.add_key()
    foreign = lists.page(other, page_size=1).next_page_token
    changed = ("B" if token[0] != "B" else "C") + token[1:]
    expected = ("invalid_cursor", []) if method in PUBLIC_TOKENS else ("invalid_request", ["page_token"])
    for wrong in ("none", changed, foreign, token + "A"):
        assert lists.refusal(method, page_token=wrong, **asked) == expected


@pytest.mark.parametrize("method", sorted(PUBLIC_TOKENS))
def test_a_cursor_is_bound_to_the_rpcs_name_as_in_earlier_releases(lists: Lists, method: str) -> None:
    filled(lists, method)
    cursor = lists.page(method, page_size=1, **LISTS[method].asked(lists)).next_page_token
    assert lists.world.services.cursors.read(method, lists.world.key, cursor)


@pytest.mark.parametrize("method", ["ListOutputs", "ListRunApprovals", "ListRunEvents", "ListRunLogs", "ListRunSteps"])
def test_a_token_is_good_for_its_run_alone(lists: Lists, method: str) -> None:
    filled(lists, method)
    token = lists.page(method, page_size=1, run_id=lists.run_id).next_page_token
    lists.run_id = ""
    filled(lists, method)
    assert lists.refusal(method, page_token=token, run_id=lists.run_id) == ("invalid_request", ["page_token"])


def test_a_page_of_parameters_is_of_the_active_version(lists: Lists) -> None:
    token = lists.page("ListParameters", page_size=1, **lists.of_workflow()).next_page_token
    definition = {"kind": "Workflow", "name": "Plain", "status": "active", "steps": []}
    names = [{"name": name, "type": "string"} for name in ("language", "count", "more")]
    lists.world.apply(json.dumps(definition | {"parameters": names}))
    assert lists.refusal("ListParameters", page_token=token, **lists.of_workflow()) == (
        "invalid_request",
        ["page_token"],
    )
    assert len(read_in_pages(lists, "ListParameters", 1)[0]) == 3


@pytest.mark.parametrize("beside", [{"after_seq": 0}, {"segment": "seg_1"}])
def test_a_token_of_events_says_itself_where_to_go_on(lists: Lists, beside: dict[str, Any]) -> None:
    filled(lists, "ListRunEvents")
    token = lists.page("ListRunEvents", page_size=1, run_id=lists.run_id).next_page_token
    refused = lists.refusal("ListRunEvents", page_token=token, run_id=lists.run_id, **beside)
    assert refused == ("invalid_request", ["page_token"])


def test_a_page_of_outputs_tells_the_bytes_of_all(lists: Lists) -> None:
    every: list[Any] = filled(lists, "ListOutputs")
    page = lists.page("ListOutputs", page_size=1, run_id=lists.run_id)
    assert (len(page.items), page.total_bytes) == (1, sum(item.size_bytes for item in every))


@pytest.mark.parametrize("method", LISTS)
def test_a_page_has_bounds(lists: Lists, method: str) -> None:
    filled(lists, method)
    name = "limit" if method in {*PUBLIC_TOKENS, "ListRunEvents"} else "page_size"
    for size in (0, 100_000):
        assert lists.refusal(method, page_size=size, **LISTS[method].asked(lists)) == ("invalid_request", [name])
