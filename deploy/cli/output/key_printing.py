"""Output of keys, issued credentials and usage: the columns of their tables, and details of one key."""

from typing import Any, Final

from deploy.cli.output.printing import Column, Form, Record, print_details, print_json
from deploy.cli.output.records import record_of
from workflow_api.v1 import keys_pb2


def _workflows(record: Record) -> object:
    access = record["workflow_access"]
    return access["workflow_ids"] if access["mode"] == "explicit" else "all active"


def _hours(record: Record) -> object:
    window = record["allowed_hours"]
    return window and f"{window['start_hour']}-{window['end_hour']} UTC"


ISSUED: Final = ("key", "external_id")

KEY_COLUMNS: Final = (
    Column("KEY ID", "key_id", rank=0),
    Column("NAME", "name", Form.TEXT, rank=1),
    Column("STATE", "state", Form.STATUS, rank=0),
    Column("SCOPES", "scopes", Form.TEXT, rank=5),
    Column("WORKFLOWS", _workflows, Form.TEXT, rank=6),
    Column(
        "RUNS TODAY",
        lambda record: f"{record['quota_used_today']}/{record['daily_run_quota']}",
        Form.NUMBER,
        rank=3,
    ),
    Column(
        "IN FLIGHT",
        lambda record: f"{record['active_runs']}/{record['max_concurrent_runs']}",
        Form.NUMBER,
        rank=4,
    ),
    Column("EXPIRES", "expires_at", Form.TIME, rank=2),
)

KEY_DETAILS: Final = (
    Column("key_id", "key_id"),
    Column("name", "name"),
    Column("description", "description"),
    Column("state", "state", Form.STATUS),
    Column("deployment_id", "deployment_id"),
    Column("scopes", "scopes"),
    Column("workflows", _workflows),
    Column("source_allow_list", lambda record: record["source_allow_list"] or "any address"),
    Column("allowed_hours", lambda record: _hours(record) or "any hour"),
    Column("rate_limit_rpm", "rate_limit_rpm"),
    Column("runs today", lambda record: f"{record['quota_used_today']} of {record['daily_run_quota']}"),
    Column("runs in flight", lambda record: f"{record['active_runs']} of {record['max_concurrent_runs']}"),
    Column("created_at", "created_at", Form.TIME),
    Column("expires_at", "expires_at", Form.TIME),
    Column("rotating_until", "rotating_until", Form.TIME),
    Column("revoked_at", "revoked_at", Form.TIME),
)

USAGE_COLUMNS: Final = (
    Column("AT", "at", Form.TIME, rank=1),
    Column("KEY ID", "key_id", rank=3),
    Column("METHOD", "method", rank=4),
    Column("ROUTE", "route", Form.TEXT, rank=0),
    Column("STATUS", "status", rank=0),
    Column("REASON", "reason", rank=2),
    Column("CALLS", "calls", rank=5),
    Column("ADDRESS", "address", rank=5),
    Column("REQUEST ID", "request_id", rank=6),
)

HOUR_COLUMNS: Final = (
    Column("HOUR", "hour", Form.TIME, rank=0),
    Column("KEY ID", "key_id", rank=1),
    Column("METHOD", "method", rank=2),
    Column("ROUTE", "route", Form.TEXT, rank=0),
    Column("STATUS", "status", rank=0),
    Column("CALLS", "calls", Form.NUMBER, rank=0),
)


def show_key(key: keys_pb2.KeyRecord, *, as_json: bool, utc: bool = False) -> None:
    """Prints one key."""
    record = record_of(key)
    if as_json:
        print_json(record)
    else:
        print_details(record, KEY_DETAILS, utc=utc)


def show_credentials(credentials: keys_pb2.KeyCredentials, *, as_json: bool) -> None:
    """Prints issued credentials and their key."""
    record = credentials_record(credentials)
    if as_json:
        print_json(record)
        return
    print_details(record, [*(Column(name, name) for name in ISSUED if name in record), *KEY_DETAILS])
    print("\nWrite down what was issued: it is not kept and cannot be shown again.")


def credentials_record(credentials: keys_pb2.KeyCredentials) -> dict[str, Any]:
    """Returns the key's record with the issued credentials as `key` and `external_id`."""
    record = record_of(credentials)
    issued = {"key": record.pop("key_value"), "external_id": record.pop("external_id")}
    return {
        "key_id": record.pop("key_id"),
        **{name: value for name, value in issued.items() if value is not None},
        **record,
    }
