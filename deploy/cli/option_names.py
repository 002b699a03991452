"""Translates fields in problems of requests to options of the command line: `--hours`, not `allowed_hours`."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from deploy.failures import CommandError

START_OPTIONS: Final = {
    "input_text": "--input-text",
    "client_reference": "--client-reference",
    "labels": "--label",
    "version": "--version",
    "parameters": "--param",
    "workflow_id": "WORKFLOW",
    "at": "--at",
}
RESUME_OPTIONS: Final = {**START_OPTIONS, "run_id": "RUN_ID", "from_step": "--from"}
KEY_OPTIONS: Final = {
    "name": "--name",
    "description": "--description",
    "scopes": "--scopes",
    "workflow_access": "--workflows",
    "source_allow_list": "--cidr",
    "allowed_hours": "--hours",
    "expires_days": "--expires-days",
    "lifetime": "--expires-days",
    "rate_limit_rpm": "--rpm",
    "daily_run_quota": "--daily-quota",
    "max_concurrent_runs": "--max-concurrent",
    "daily_tokens": "--daily-tokens",
    "daily_cost_microusd": "--daily-cost",
    "priority": "--priority",
    "deployment_id": "--deployment",
    "overlap_hours": "--overlap",
    "overlap": "--overlap",
    "page_size": "--limit",
    "limit": "--limit",
    "key_id": "KEY_ID",
}
WEBHOOK_OPTIONS: Final = {
    "url": "--url",
    "description": "--description",
    "events": "--event",
    "overlap_hours": "--overlap",
    "overlap": "--overlap",
    "key_id": "KEY_ID",
    "webhook_id": "WEBHOOK_ID",
    "message_id": "MESSAGE_ID",
    "page_size": "--limit",
}
USER_OPTIONS: Final = {
    "name": "NAME",
    "role": "--role",
    "decides_for": "--workflow",
    "decides_for.workflow_ids": "--workflow",
}
APPROVAL_OPTIONS: Final = {"approval_id": "APPROVAL_ID", "comment": "--comment"}
NAMED_OPTIONS: Final = {"workflow": "WORKFLOW", "name": "NAME", "resource": "NAME", "version": "--version", "q": "--q"}
"""Options of commands whose argument names the object."""
LIST_OPTIONS: Final = {
    "key_id": "KEY_ID",
    "page_size": "--limit",
    "limit": "--limit",
    "page_token": "--cursor",
    "cursor": "--cursor",
    "workflow_id": "--workflow",
    "created_after": "--created-after",
    "created_before": "--created-before",
    "client_reference": "--client-reference",
    "status": "--status",
    "segment": "--segment",
    "after_seq": "--after-seq",
    "timeout_seconds": "--timeout",
    "timeout": "--timeout",
    "since": "--since",
    "until": "--until",
    "target": "--target",
    "reason": "--reason",
    "comment": "--comment",
    "q": "--q",
    "run_id": "RUN_ID",
    "query": "SPARQL",
    "role": "--role",
}


@contextmanager
def option_names(options: Mapping[str, str]) -> Iterator[None]:
    """Names problems of the calls in the context by the options that set the fields, in text for people.

    A problem of a run's parameter is named `--param <name>`. With `--json` problems keep the names of their fields.
    """
    try:
        yield
    except CommandError as failed:
        failed.options = options
        raise
