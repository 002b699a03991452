"""Starts a run of a workflow, which is found by name or id."""

import re
import uuid
from collections.abc import Mapping
from typing import Any, Final

from workflow_api_client.core import Core
from workflow_api_client.decoding import decode
from workflow_api_client.exchange import Steps
from workflow_api_client.generated import records, routes
from workflow_api_client.generated.errors import WorkflowNotFoundError
from workflow_api_client.operations.reading import body_of, get, page_of
from workflow_api_client.operations.waiting import wait as wait_for

_ID: Final = re.compile(r"wf_[0-9a-z]{26}")
_IDEMPOTENCY_KEY: Final = re.compile(r"[ -~]{1,128}")
_LONGEST_PREFIX: Final = 200


def find(core: Core, name_or_id: str) -> Steps[records.Workflow]:
    """Returns the workflow with this id, or the active workflow with exactly this name.

    Raises:
        WorkflowNotFoundError: no workflow within the key's reach has this name or id.
    """
    if _ID.fullmatch(name_or_id):
        return (yield from get(core, records.Workflow, routes.GET_WORKFLOW, {"workflow_id": name_or_id}))
    query, cursor = {"q": name_or_id[:_LONGEST_PREFIX]}, None
    while True:
        page = yield from page_of(core, records.ListWorkflowsResponse, routes.LIST_WORKFLOWS, query, cursor)
        found = next((item for item in page.items if item.name == name_or_id), None)
        if found is not None:
            return found
        cursor = page.next_cursor
        if not cursor:
            break
    raise WorkflowNotFoundError(
        f"No active workflow within the key's reach has the name {name_or_id!r}.",
        code="workflow_not_found",
        status=404,
        request_id=None,
    )


def find_id(core: Core, name_or_id: str) -> Steps[str]:
    """Returns the id of a workflow by name or id; makes no call for an id.

    Raises:
        WorkflowNotFoundError: no active workflow within the key's reach has this name.
    """
    if _ID.fullmatch(name_or_id):
        return name_or_id
    return (yield from find(core, name_or_id)).workflow_id


def parameters(core: Core, workflow: str) -> Steps[list[records.Parameter]]:
    """Returns the parameters of a workflow, by name or id."""
    path = {"workflow_id": (yield from find_id(core, workflow))}
    return (yield from get(core, records.ListParametersResponse, routes.LIST_PARAMETERS, path)).parameters


def start(
    core: Core,
    workflow: str,
    fields: Mapping[str, Any],
    *,
    idempotency_key: str | None,
    wait: bool,
    timeout: float | None,
) -> Steps[records.Run]:
    """Starts and returns a run, with `wait` once it is done, in at most `timeout` seconds in all.

    Raises:
        TimedOutError: the time has passed.
        ValueError: the idempotency key or the time is not valid.
    """
    begun = core.clock.now()
    run = yield from _start(core.within(timeout), workflow, fields, idempotency_key)
    return (yield from wait_for(core, run.run_id, timeout, begun=begun)) if wait else run


def _start(core: Core, workflow: str, fields: Mapping[str, Any], idempotency_key: str | None) -> Steps[records.Run]:
    """Starts and returns a run. Retries send one idempotency key, which is made here unless given."""
    idempotency_key = uuid.uuid4().hex if idempotency_key is None else idempotency_key
    if not _IDEMPOTENCY_KEY.fullmatch(idempotency_key):
        raise ValueError("`idempotency_key` must be 1 to 128 printable ASCII characters.")
    workflow_id = yield from find_id(core, workflow)
    answer = yield from core.call(
        routes.START_RUN,
        {"workflow_id": workflow_id},
        body={name: value for name, value in fields.items() if value is not None},
        headers={"Idempotency-Key": idempotency_key},
    )
    return decode(records.Run, body_of(answer))
