"""`workflow-api keys`: API keys of the deployment."""

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Annotated, Final

import typer
from google.protobuf.duration_pb2 import Duration

from contract.fields import PRIORITIES, SCOPES
from contract.times import duration_of
from deploy.cli.handover import handover
from deploy.cli.option_names import KEY_OPTIONS, option_names
from deploy.cli.options import (
    ANY,
    DEFAULT_GRPC,
    Grpc,
    Json,
    KeyId,
    Utc,
    comma_separated,
    hours_window,
    overlap_in_hours,
)
from deploy.cli.output.key_printing import (
    HOUR_COLUMNS,
    KEY_COLUMNS,
    USAGE_COLUMNS,
    print_usage_chart,
    show_credentials,
    show_key,
)
from deploy.cli.output.model_usage import MODEL_COLUMNS, MODEL_FIELDS, model_day, print_csv
from deploy.cli.output.printing import print_json, print_table
from deploy.cli.output.records import PAGE, items_of, record_of, with_nulls
from deploy.client.backend import connected
from workflow_api.v1 import keys_pb2, model_usage_pb2, options_pb2, usage_pb2
from workflow_api.v1.options_pb2 import TIME_UNIT_DAYS, TIME_UNIT_HOURS

SCOPES_HELP: Final = f"Comma-separated: {', '.join(SCOPES)}. runs:create brings workflows:read with it."

command = typer.Typer()

Name = Annotated[str | None, typer.Option("--name", help="Name, at most 100 characters.")]
Description = Annotated[str | None, typer.Option("--description", help="Description, at most 500 characters.")]
Scopes = Annotated[str | None, typer.Option("--scopes", metavar="A,B", help=SCOPES_HELP)]
Workflows = Annotated[
    str | None,
    typer.Option("--workflows", metavar="all|ID,ID", help="All active workflows, now and later, or at most 50 ids."),
]
Cidr = Annotated[
    list[str] | None,
    typer.Option("--cidr", metavar="RANGE", help="Range that may call; repeat for more, at most 32. `any` for all."),
]
Hours = Annotated[
    str | None,
    typer.Option("--hours", metavar="8-18", help="UTC hours: from the first to just before the second. `any` for all."),
]
ExpiresDays = Annotated[
    int | None, typer.Option("--expires-days", help="30, 90, 180 or 365 days after the key was made. New keys: 90.")
]
Rpm = Annotated[int | None, typer.Option("--rpm", help="Requests a minute, 1 to 10000. New keys: 60.")]
DailyQuota = Annotated[int | None, typer.Option("--daily-quota", help="Runs a UTC day, 1 to 100000. New keys: 100.")]
MaxConcurrent = Annotated[int | None, typer.Option("--max-concurrent", help="Runs in flight, 1 to 100. New keys: 10.")]
DailyTokens = Annotated[
    str | None, typer.Option("--daily-tokens", metavar="N", help="Tokens of models a UTC day. `any` for no limit.")
]
DailyCost = Annotated[
    str | None, typer.Option("--daily-cost", metavar="USD", help="US dollars of models a UTC day. `any` for no limit.")
]
Priority = Annotated[
    str | None, typer.Option("--priority", metavar="low|normal|high", help="Of its waiting runs. New keys: normal.")
]
Deployment = Annotated[str | None, typer.Option("--deployment", help="The deployment. Default: this one.")]
Overlap = Annotated[
    str, typer.Option("--overlap", metavar="24h", help="How long the old secret stays valid: 1h, 24h, 3d or 7d.")
]


@command.command("create")
def create(
    name: Annotated[str, typer.Option("--name", help="Name, at most 100 characters.")],
    scopes: Annotated[str, typer.Option("--scopes", metavar="A,B", help=SCOPES_HELP)],
    workflows: Workflows = None,
    cidr: Cidr = None,
    hours: Hours = None,
    expires_days: ExpiresDays = None,
    rpm: Rpm = None,
    daily_quota: DailyQuota = None,
    max_concurrent: MaxConcurrent = None,
    daily_tokens: DailyTokens = None,
    daily_cost: DailyCost = None,
    priority: Priority = None,
    description: Description = None,
    deployment: Deployment = None,
    grpc: Grpc = DEFAULT_GRPC,
    as_json: Json = False,
) -> None:
    """Create a key; show its secret and external id once."""
    request = keys_pb2.CreateKeyRequest(
        name=name,
        description=description or "",
        scopes=scope_values(scopes),
        workflow_access=None if workflows is None else workflow_access(workflows),
        source_allow_list=source_ranges(cidr or []),
        allowed_hours=None if hours in {None, ANY} else allowed_hours(str(hours)),
        lifetime=lifetime_of(expires_days),
        rate_limit_rpm=rpm,
        daily_run_quota=daily_quota,
        max_concurrent_runs=max_concurrent,
        daily_tokens=None if daily_tokens in {None, ANY} else whole_tokens(str(daily_tokens)),
        daily_cost_microusd=None if daily_cost in {None, ANY} else microusd(str(daily_cost)),
        priority=None if priority is None else priority_value(priority),
        deployment_id=deployment,
    )
    with option_names(KEY_OPTIONS), connected(grpc) as backend:
        show_credentials(backend.call(backend.keys.CreateKey, request), as_json=as_json)


@command.command("list")
def list_keys(utc: Utc = False, grpc: Grpc = DEFAULT_GRPC, as_json: Json = False) -> None:
    """List all keys of the deployment, newest first."""
    with option_names(KEY_OPTIONS), connected(grpc) as backend:
        pages = backend.pages(backend.keys.ListKeys, keys_pb2.ListKeysRequest(page_size=PAGE))
        items = items_of(pages)
    if as_json:
        print_json({"items": items})
    else:
        print_table(items, KEY_COLUMNS, none="No key yet: make one with `workflow-api keys create`.", utc=utc)


@command.command("show")
def show(key_id: KeyId, utc: Utc = False, grpc: Grpc = DEFAULT_GRPC, as_json: Json = False) -> None:
    """Show one key; never its secret."""
    with option_names(KEY_OPTIONS), connected(grpc) as backend:
        show_key(backend.call(backend.keys.GetKey, keys_pb2.GetKeyRequest(key_id=key_id)), as_json=as_json, utc=utc)


@command.command("edit")
def edit(
    key_id: KeyId,
    name: Name = None,
    scopes: Scopes = None,
    workflows: Workflows = None,
    cidr: Cidr = None,
    hours: Hours = None,
    expires_days: ExpiresDays = None,
    rpm: Rpm = None,
    daily_quota: DailyQuota = None,
    max_concurrent: MaxConcurrent = None,
    daily_tokens: DailyTokens = None,
    daily_cost: DailyCost = None,
    priority: Priority = None,
    description: Description = None,
    grpc: Grpc = DEFAULT_GRPC,
    as_json: Json = False,
) -> None:
    """Change the given properties; all others and the credentials stay."""
    request = keys_pb2.UpdateKeyRequest(
        key_id=key_id,
        name=name,
        description=description,
        scopes=None if scopes is None else keys_pb2.ScopeList(scopes=scope_values(scopes)),
        workflow_access=None if workflows is None else workflow_access(workflows),
        source_allow_list=None if cidr is None else keys_pb2.SourceAllowList(ranges=source_ranges(cidr)),
        allowed_hours=None if hours in {None, ANY} else allowed_hours(str(hours)),
        clear_allowed_hours=hours == ANY,
        lifetime=lifetime_of(expires_days),
        rate_limit_rpm=rpm,
        daily_run_quota=daily_quota,
        max_concurrent_runs=max_concurrent,
        daily_tokens=None if daily_tokens in {None, ANY} else whole_tokens(str(daily_tokens)),
        clear_daily_tokens=daily_tokens == ANY,
        daily_cost_microusd=None if daily_cost in {None, ANY} else microusd(str(daily_cost)),
        clear_daily_cost_microusd=daily_cost == ANY,
        priority=None if priority is None else priority_value(priority),
    )
    with option_names(KEY_OPTIONS), connected(grpc) as backend:
        show_key(backend.call(backend.keys.UpdateKey, request), as_json=as_json)


@command.command("rotate")
def rotate(key_id: KeyId, overlap: Overlap = "24h", grpc: Grpc = DEFAULT_GRPC, as_json: Json = False) -> None:
    """Issue a new secret; the old one works for the overlap."""
    request = keys_pb2.RotateKeyRequest(key_id=key_id, overlap=duration_of(overlap_in_hours(overlap), TIME_UNIT_HOURS))
    with option_names(KEY_OPTIONS), connected(grpc) as backend:
        show_credentials(backend.call(backend.keys.RotateKey, request), as_json=as_json)


@command.command("new-external-id")
def new_external_id(key_id: KeyId, grpc: Grpc = DEFAULT_GRPC, as_json: Json = False) -> None:
    """Issue a new external id; the old one stops working immediately."""
    with option_names(KEY_OPTIONS), connected(grpc) as backend:
        request = keys_pb2.IssueExternalIdRequest(key_id=key_id)
        show_credentials(backend.call(backend.keys.IssueExternalId, request), as_json=as_json)


@command.command("revoke")
def revoke(key_id: KeyId, grpc: Grpc = DEFAULT_GRPC, as_json: Json = False) -> None:
    """Revoke a key permanently."""
    with option_names(KEY_OPTIONS), connected(grpc) as backend:
        show_key(backend.call(backend.keys.RevokeKey, keys_pb2.RevokeKeyRequest(key_id=key_id)), as_json=as_json)


@command.command("delete")
def delete(key_id: KeyId, grpc: Grpc = DEFAULT_GRPC, as_json: Json = False) -> None:
    """Remove a revoked key; its audit trail stays."""
    with option_names(KEY_OPTIONS), connected(grpc) as backend:
        backend.call(backend.keys.DeleteKey, keys_pb2.DeleteKeyRequest(key_id=key_id))
    if as_json:
        print_json({"key_id": key_id, "deleted": True})
    else:
        print(f"{key_id} is deleted.")


@command.command("usage")
def usage(
    key_id: Annotated[str | None, typer.Argument(metavar="KEY_ID", help="Only calls with this key.")] = None,
    by_hour: Annotated[bool, typer.Option("--by-hour", help="Count calls by hour, route and outcome.")] = False,
    models: Annotated[
        bool, typer.Option("--models", help="Tokens and price of models by UTC day, workflow and model.")
    ] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="With --models: print CSV.")] = False,
    limit: Annotated[
        int | None, typer.Option("--limit", help="Most records, 1 to 1000 (100), or counts, 1 to 10000 (1000).")
    ] = None,
    utc: Utc = False,
    grpc: Grpc = DEFAULT_GRPC,
    as_json: Json = False,
) -> None:
    """List the latest calls with their outcome, below a chart of the last 24 hours; or what runs used of models."""
    if (by_hour and models) or (as_csv and (as_json or not models)):
        raise typer.BadParameter("--models excludes --by-hour, and --csv needs --models without --json")
    with option_names(KEY_OPTIONS), connected(grpc) as backend:
        if models:
            days = model_usage_pb2.ListModelUsageDaysRequest(key_id=key_id, page_size=limit)
            items = [model_day(day) for day in backend.call(backend.model_usage.ListModelUsageDays, days).items]
        elif by_hour:
            hours = usage_pb2.ListUsageHoursRequest(key_id=key_id, page_size=limit)
            items = record_of(backend.call(backend.usage.ListUsageHours, hours))["items"]
        else:
            records = usage_pb2.ListUsageRecordsRequest(key_id=key_id, page_size=limit)
            items = record_of(backend.call(backend.usage.ListUsageRecords, records))["items"]
        if key_id is not None and not items:
            # A deleted key has calls, and an unused key exists; any other id is refused here.
            backend.call(backend.keys.GetKey, keys_pb2.GetKeyRequest(key_id=key_id))
    items = [with_nulls(item) for item in items]
    if as_json:
        print_json({"items": items})
    elif as_csv:
        print_csv(items, MODEL_FIELDS)
    elif models:
        print_table(items, MODEL_COLUMNS, none="No model was called yet.", utc=True)
    else:
        print_usage_chart(grpc, key_id)
        print_table(items, HOUR_COLUMNS if by_hour else USAGE_COLUMNS, none="No call yet.", utc=utc)


command.command("handover")(handover)


def lifetime_of(days: int | None) -> Duration | None:
    """Returns the time from the creation of a key to its expiry."""
    return None if days is None else duration_of(days, TIME_UNIT_DAYS)


def scope_values(text: str) -> list[options_pb2.Scope.ValueType]:
    """Reads comma-separated scopes."""
    names = comma_separated(text)
    unknown = [name for name in names if name not in SCOPES]
    if unknown:
        allowed = ", ".join(SCOPES)
        raise typer.BadParameter(f"{unknown[0]!r} is not a scope; allowed are {allowed}", param_hint="--scopes")
    return [SCOPES[name] for name in names]


def priority_value(text: str) -> keys_pb2.KeyPriority.ValueType:
    """Reads a priority."""
    if text not in PRIORITIES:
        raise typer.BadParameter(f"{text!r} is none of {', '.join(PRIORITIES)}", param_hint="--priority")
    return PRIORITIES[text]


def workflow_access(text: str) -> keys_pb2.WorkflowAccess:
    """Reads `all` or comma-separated workflow ids."""
    if text == "all":
        return keys_pb2.WorkflowAccess(mode=keys_pb2.WorkflowAccess.MODE_ALL_ACTIVE)
    return keys_pb2.WorkflowAccess(mode=keys_pb2.WorkflowAccess.MODE_EXPLICIT, workflow_ids=comma_separated(text))


def source_ranges(given: Sequence[str]) -> list[str]:
    """Returns the ranges of repeated `--cidr`; the single value `any` means no restriction."""
    return [] if list(given) == [ANY] else list(given)


def whole_tokens(text: str) -> int:
    """Reads a number of tokens."""
    if not re.fullmatch(r"[0-9]{1,15}", text):
        raise typer.BadParameter(f"{text!r} is no whole number, nor `any`", param_hint="--daily-tokens")
    return int(text)


def microusd(text: str) -> int:
    """Reads US dollars with at most six decimals, as millionths."""
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,6})?", text):
        problem = f"{text!r} is no number of US dollars with at most 6 decimals, nor `any`"
        raise typer.BadParameter(problem, param_hint="--daily-cost")
    return int(Decimal(text).scaleb(6))


def allowed_hours(text: str) -> keys_pb2.AllowedHours:
    """Reads `8-18`."""
    start, end = hours_window(text)
    return keys_pb2.AllowedHours(start_hour=start, end_hour=end)
