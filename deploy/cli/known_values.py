"""Ids and names that a deployment knows, for completion: read from the backend, within a short time."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from deploy.cli.options import DEFAULT_GRPC, GRPC_VARIABLE
from deploy.client.backend import BackendClient, connected
from deploy.failures import CommandError
from workflow_api.v1 import keys_pb2, runs_pb2, users_pb2, webhooks_pb2, workflows_pb2

_SECONDS: Final = 1.5
_PAGE: Final = 100

Completion = tuple[str, str]
"""A value, and its explanation."""
CompletionSource = Callable[[BackendClient, str], Iterator[Completion]]
"""Reads values with explanations from a backend, for the text typed so far."""


def known_values(metavar: str, path: Sequence[str], options: Mapping[str, str], typed: str) -> list[Completion]:
    """Returns values of a parameter with explanations; none if none are known, or no backend answers in time."""
    reader = _READERS.get(metavar) or _READERS.get(f"{path[0] if path else ''} {metavar}")
    if reader is None:
        return []
    address = options.get("--grpc") or os.environ.get(GRPC_VARIABLE) or DEFAULT_GRPC
    try:
        with connected(address) as backend:
            return list(reader(backend, typed))
    except (CommandError, ValueError):
        return []


def _workflows(backend: BackendClient, typed: str) -> Iterator[Completion]:
    request = workflows_pb2.ListWorkflowsRequest(page_size=_PAGE, include_inactive=True)
    for item in backend.call(backend.workflows.ListWorkflows, request, _SECONDS).items:
        yield (item.workflow_id, item.name) if typed.startswith("wf_") else (item.name, item.description)


def _keys(backend: BackendClient, typed: str) -> Iterator[Completion]:  # noqa: ARG001 - as above
    request = keys_pb2.ListKeysRequest(page_size=_PAGE)
    for item in backend.call(backend.keys.ListKeys, request, _SECONDS).items:
        yield item.key.key_id, item.key.name


def _runs(backend: BackendClient, typed: str) -> Iterator[Completion]:  # noqa: ARG001 - as above
    request = runs_pb2.ListRunsRequest(page_size=_PAGE)
    for item in backend.call(backend.runs.ListRuns, request, _SECONDS).items:
        status = runs_pb2.RunStatus.Name(item.status).removeprefix("RUN_STATUS_").lower()
        yield item.run_id, f"{item.workflow_name}, {status}"


def _approvals(backend: BackendClient, typed: str) -> Iterator[Completion]:  # noqa: ARG001 - as above
    request = runs_pb2.ListPendingApprovalsRequest(page_size=_PAGE)
    for item in backend.call(backend.runs.ListPendingApprovals, request, _SECONDS).items:
        yield item.approval.approval_id, f"{item.workflow_name}: {item.approval.title}"


def _webhooks(backend: BackendClient, typed: str) -> Iterator[Completion]:  # noqa: ARG001 - as above
    request = webhooks_pb2.ListWebhooksRequest(page_size=_PAGE)
    for item in backend.call(backend.webhooks.ListWebhooks, request, _SECONDS).items:
        yield item.webhook_id, f"{item.key_id}, {item.state}"


def _users(backend: BackendClient, typed: str) -> Iterator[Completion]:  # noqa: ARG001 - as above
    request = users_pb2.ListUsersRequest(page_size=_PAGE)
    for item in backend.call(backend.users.ListUsers, request, _SECONDS).items:
        yield item.name, "disabled" if item.disabled else ""


def _resources(kind: "workflows_pb2.ResourceKind.ValueType") -> CompletionSource:
    def read(backend: BackendClient, typed: str) -> Iterator[Completion]:  # noqa: ARG001 - as above
        request = workflows_pb2.ListResourcesRequest(kind=kind, page_size=_PAGE)
        for item in backend.call(backend.workflows.ListResources, request, _SECONDS).items:
            yield item.name, item.type

    return read


_READERS: Final[Mapping[str, CompletionSource]] = {
    "WORKFLOW": _workflows,
    "KEY_ID": _keys,
    "RUN_ID": _runs,
    "APPROVAL_ID": _approvals,
    "WEBHOOK_ID": _webhooks,
    "users NAME": _users,
    "agents NAME": _resources(workflows_pb2.RESOURCE_KIND_AGENT),
    "environments NAME": _resources(workflows_pb2.RESOURCE_KIND_ENVIRONMENT),
    "connectors NAME": _resources(workflows_pb2.RESOURCE_KIND_CONNECTOR),
    "graphs NAME": _resources(workflows_pb2.RESOURCE_KIND_KNOWLEDGE_GRAPH),
}
"""Readers by metavar of a parameter, or by command and metavar."""
