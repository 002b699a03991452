"""Failures of a servicer, as the wrapper of every method logs and answers them."""

import errno
import logging
from typing import Any

import pytest

from backend.common.errors import ApiError
from backend.rpc.interceptors import handlers_of
from backend.storage.database import DatabaseUnavailableError
from backend.storage.outage import Outage
from contract.local_context import LocalContext, RefusedCall
from contract.metadata import REQUEST_ID
from workflow_api.v1 import edge_pb2, errors_pb2

SERVICE = edge_pb2.DESCRIPTOR.services_by_name["EdgeService"]
RECORD_USAGE = "/workflow_api.v1.EdgeService/RecordUsage"


def failing(error: Exception) -> object:
    """A servicer whose methods raise."""

    def fail(*_: Any) -> None:
        raise error

    return type("Failing", (), {method.name: fail for method in SERVICE.methods})()


def call(error: Exception, *metadata: tuple[str, str]) -> RefusedCall | None:
    handlers = handlers_of(failing(error), SERVICE)
    context = LocalContext(metadata, 1.0)
    handlers[RECORD_USAGE].call(edge_pb2.RecordUsageRequest(), context)
    return context.error


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), errors_pb2.ERROR_REASON_RUNTIME_UNREACHABLE),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), errors_pb2.ERROR_REASON_RUNTIME_UNREACHABLE),
        (OSError(errno.EACCES, "Permission denied"), errors_pb2.ERROR_REASON_INTERNAL),
    ],
    ids=["full", "quota", "not permitted"],
)
def test_a_full_disk_is_no_internal_error(error: OSError, reason: int) -> None:
    refused = call(error)
    assert isinstance(refused, ApiError)
    assert refused.reason == reason


@pytest.mark.parametrize(
    ("metadata", "request_id"), [((), ""), (((REQUEST_ID, "req_1"),), "req_1")], ids=["none", "one"]
)
def test_a_failure_names_the_request_that_it_belongs_to_if_there_is_one(
    caplog: pytest.LogCaptureFixture, metadata: tuple[tuple[str, str], ...], request_id: str
) -> None:
    call(OSError("the disk is full"), *metadata)
    assert caplog.messages == ["workflow_api.v1.EdgeService.RecordUsage failed"]
    assert caplog.records[0].__dict__["request_id"] == request_id


def test_a_database_that_is_away_is_the_reason_of_a_request_and_of_no_call_that_an_edge_repeats(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO):
        away = Outage().error("The database cannot be reached", "it is full")
        caplog.clear()
        call(away)
        call(away, (REQUEST_ID, "req_1"))
        call(DatabaseUnavailableError("It is slow."))
    failed = "workflow_api.v1.EdgeService.RecordUsage failed"
    assert caplog.messages == [f"{failed}: The database cannot be reached: it is full.", f"{failed}: It is slow."]
    assert caplog.records[0].__dict__["request_id"] == "req_1"
    assert not any(record.exc_info for record in caplog.records)
