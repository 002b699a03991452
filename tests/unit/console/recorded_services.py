"""Services with prepared answers, and an administrator who calls them."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from types import ModuleType
from typing import Any

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from console.routes import PAGES
from console.visit import Page, PageResult, View, Visit
from contract.refusals import Refusal
from edge.admission.trial import try_call
from workflow_api.v1.keys_pb2 import ApiKey, KeyRecord, WorkflowAccess
from workflow_api.v1.options_pb2 import SCOPE_WORKFLOWS_READ
from workflow_api.v1.usage_pb2 import CountCallsByKeyResponse, ListUsageHoursResponse, ListUsageRecordsResponse
from workflow_api.v1.users_pb2 import ROLE_ADMINISTRATOR, User
from workflow_api.v1.webhooks_pb2 import ListWebhooksResponse
from workflow_api.v1.workflows_pb2 import WORKFLOW_STATUS_ACTIVE, ListWorkflowsResponse, Workflow

KEY_ID = "ak_0123456789ab"
DAY = 86_400
ADMINISTRATOR = User(name="ada", role=ROLE_ADMINISTRATOR)


class RecordedServices:
    """Answers RPCs by name, or raises a prepared refusal; records the requests."""

    def __init__(self, answers: Mapping[str, Message | Refusal]) -> None:
        self.answers = {
            "UsageService/ListUsageRecords": ListUsageRecordsResponse(),
            "UsageService/ListUsageHours": ListUsageHoursResponse(),
            "UsageService/CountCallsByKey": CountCallsByKeyResponse(),
            "WorkflowsService/ListWorkflows": ListWorkflowsResponse(
                items=[Workflow(workflow_id="wf_1", name="Summary", status=WORKFLOW_STATUS_ACTIVE)]
            ),
            "WebhooksService/ListWebhooks": ListWebhooksResponse(),
            **answers,
        }
        self.asked: list[tuple[str, Message]] = []

    async def call(self, rpc: str, request: Message) -> Any:
        self.asked.append((rpc, request))
        answer = self.answers[rpc]
        if isinstance(answer, Refusal):
            raise answer
        return answer

    def stream(self, rpc: str, request: Message, seconds: float) -> AsyncGenerator[Message, None]:
        raise NotImplementedError

    def asked_for(self, rpc: str) -> list[Any]:
        return [request for name, request in self.asked if name == rpc]


def answered(
    pages: Sequence[Page],
    method: str,
    path: str,
    services: RecordedServices,
    *,
    names: Mapping[str, str] | None = None,
    query: Mapping[str, str] | None = None,
    form: Mapping[str, Sequence[str]] | None = None,
) -> PageResult:
    """Returns the result of a page for an administrator."""
    (page,) = (page for page in pages if (page.method, page.path) == (method, path))
    visit = Visit(ADMINISTRATOR, services, names or {}, query or {}, form or {}, try_call=try_call)

    async def answer() -> PageResult:
        return await page.handler(visit)

    return asyncio.run(answer())


def viewed(*arguments: Any, **keywords: Any) -> View:
    """Returns the view of a page."""
    view = answered(*arguments, **keywords)
    assert isinstance(view, View)
    return view


def key_record(**other: Any) -> KeyRecord:
    fields: dict[str, Any] = {
        "key": ApiKey(
            key_id=KEY_ID,
            name="warehouse",
            deployment_id="dep_1",
            scopes=[SCOPE_WORKFLOWS_READ],
            workflow_access=WorkflowAccess(mode=WorkflowAccess.MODE_ALL_ACTIVE),
            expires_at=Timestamp(seconds=1_000_000_000 + 90 * DAY),
            rate_limit_rpm=60,
            daily_run_quota=100,
            max_concurrent_runs=10,
        ),
        "state": "active",
        "created_at": Timestamp(seconds=1_000_000_000),
    }
    return KeyRecord(**{**fields, **other})


def invalid(*problems: tuple[str, str]) -> Refusal:
    return Refusal("invalid_request", details=[{"name": name, "reason": reason} for name, reason in problems])


def pages_in(module: ModuleType) -> list[Page]:
    """Returns the pages whose handlers a module has."""
    return [page for page in PAGES if page.handler.__module__ == module.__name__]
