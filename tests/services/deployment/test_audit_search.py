"""The audit trail is searched and exported (contract 22.10)."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from backend.services.audit import servicer, sql
from backend.services.dependencies import Services
from console.rendering.exports import CSV, JSON_LINES, lines_of
from contract.times import milliseconds_of, to_timestamp
from tests.services.calls import Caller, RefusedError
from workflow_api.v1 import audit_pb2
from workflow_api_testing import TestBackend

RECORDS: tuple[tuple[str, str, str, dict[str, object]], ...] = (
    ("user:ana", "key.rotated", "ak_1", {"reason": "leaked on 100% of pages"}),
    ("user:ana", "key.edited", "ak_2", {"reason": "Größe"}),
    ("user:bo", "key.edited", "ak_1", {}),
    ("system", "run.erased", "run_1", {"reason": "100 days"}),
)


@pytest.fixture
def call(backend: TestBackend) -> Caller:
    return Caller.of_backend(backend)


@pytest.fixture
def filled(services: Services) -> None:
    def fill(tx: Any) -> None:
        for at, (actor, action, target, details) in enumerate(RECORDS):
            sql.record(tx, at=at, actor=actor, action=action, target=target, details=details)

    services.database.write(fill)


def found(call: Caller, **asked: Any) -> list[int]:
    """The places in RECORDS of what a search finds."""
    request = audit_pb2.ListAuditRecordsRequest(until=to_timestamp(len(RECORDS)), **asked)
    return [milliseconds_of(item.at) for item in call("ListAuditRecords", request).items]


@pytest.mark.parametrize(
    ("asked", "places"),
    [
        ({}, [3, 2, 1, 0]),
        ({"actor": "user:ana"}, [1, 0]),
        ({"action": "key.edited"}, [2, 1]),
        ({"target": "ak_1"}, [2, 0]),
        ({"actor": "user:ana", "action": "key.edited"}, [1]),
        ({"actor": "user:ana", "action": "key.edited", "target": "ak_1"}, []),
        ({"search": "KEY.EDITED"}, [2, 1]),
        ({"search": "100%"}, [0]),
        ({"search": "größe"}, [1]),
        ({"search": "Größe"}, [1]),
        ({"search": "_"}, [3, 2, 1, 0]),
        ({"search": "leaked", "actor": "user:bo"}, []),
        ({"search": "leaked", "actor": "user:ana", "action": "key.rotated", "target": "ak_1"}, [0]),
    ],
)
def test_every_filter_leaves_what_it_says(call: Caller, filled: None, asked: dict[str, str], places: list[int]) -> None:
    assert found(call, **asked) == places


def test_a_search_that_stopped_goes_on_where_it_did(call: Caller, services: Services) -> None:
    last = 2 * sql.MOST_EXAMINED

    def fill(tx: Any) -> None:
        for at in range(last + 1):
            sql.record(tx, at=at, actor="ana", action="key.edited", target="ak_1" if at in {0, last - 1} else "ak_2")

    services.database.write(fill)
    asked: dict[str, Any] = {"until": to_timestamp(last + 1), "search": "ak_1", "page_size": 2}
    pages, token = [], ""
    while True:
        page = call("ListAuditRecords", audit_pb2.ListAuditRecordsRequest(**asked, page_token=token))
        pages.append([milliseconds_of(item.at) for item in page.items])
        token = page.next_page_token
        if not token:
            break
    assert pages == [[last - 1], [], [0]]


def exported(call: Caller, **asked: Any) -> list[audit_pb2.ExportAuditRecordsResponse]:
    rest: list[Any] = call.stream("ExportAuditRecords", audit_pb2.ExportAuditRecordsRequest(**asked)).rest()
    return rest


def test_an_export_has_what_the_search_finds_and_is_audited(call: Caller, filled: None) -> None:
    (part,) = exported(call, until=to_timestamp(4), actor="user:ana", search="key")
    assert [milliseconds_of(item.at) for item in part.items] == [1, 0]
    assert not part.HasField("more_until")
    (record,) = call("ListAuditRecords", audit_pb2.ListAuditRecordsRequest(action="audit.exported")).items
    asked = {"since": 0, "until": 4, "actor": "user:ana", "text": "key"}
    assert (record.actor, record.target, json.loads(record.details)) == ("internal", "dep-test", asked)


def test_an_export_ends_at_its_bound_and_says_from_where_to_go_on(
    call: Caller, filled: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servicer, "EXPORT_BATCH", 2)
    monkeypatch.setattr(servicer, "MOST_EXPORTED", 3)
    first, last = exported(call, until=to_timestamp(4))
    assert [milliseconds_of(item.at) for part in (first, last) for item in part.items] == [3, 2, 1]
    assert milliseconds_of(last.more_until) == 1
    assert json.loads(lines_of(last, JSON_LINES).splitlines()[-1])["action"] == "audit.export_cut"


def test_no_more_exports_than_the_bound_are_under_way(services: Services, filled: None) -> None:
    trail = servicer.AuditTrail(services)
    request = audit_pb2.ExportAuditRecordsRequest()

    def begun() -> Iterator[Any]:
        export = trail.export(request, "ana", lambda: True)
        next(export)
        return export

    under_way = [begun() for _ in range(servicer.MOST_EXPORTS)]
    with pytest.raises(Exception, match="exports are under way"):
        begun()
    under_way.pop().close()  # type: ignore[attr-defined]
    begun().close()  # type: ignore[attr-defined]


def test_an_export_that_cannot_be_is_neither_begun_nor_audited(call: Caller, filled: None) -> None:
    with pytest.raises(RefusedError) as refused:
        exported(call, since=to_timestamp(0), until=to_timestamp(90 * 86_400_000))
    assert set(refused.value.problems) == {"since"}
    assert not call("ListAuditRecords", audit_pb2.ListAuditRecordsRequest(action="audit.exported")).items


def test_a_spreadsheet_takes_no_cell_for_a_formula() -> None:
    record = audit_pb2.AuditRecord(at=to_timestamp(1), actor="=cmd()", action="a.b", target="@x", details='{"n":1}')
    line = lines_of(audit_pb2.ExportAuditRecordsResponse(items=[record]), CSV)
    assert line == '1970-01-01T00:00:00.001Z,\'=cmd(),a.b,\'@x,"{""n"":1}"\r\n'
