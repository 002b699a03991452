"""Reads single records and pages of lists, and sends changes."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final, TypeVar

from workflow_api_client.core import Core
from workflow_api_client.decoding import decode
from workflow_api_client.exchange import Answer, Emit, Steps
from workflow_api_client.failures import UnexpectedAnswerError
from workflow_api_client.route import Route

T = TypeVar("T")

PAGE: Final = 100


def body_of(answer: Answer) -> Any:
    """Returns the JSON of an answer.

    Raises:
        UnexpectedAnswerError: the body is no JSON, as from a sign-in page.
    """
    try:
        return answer.json()
    except ValueError:
        raise UnexpectedAnswerError(
            f"Status {answer.status} with a body that is no JSON: is this the service's address?"
        ) from None


def get(core: Core, kind: type[T], route: Route, path: Mapping[str, str] | None = None) -> Steps[T]:
    """Returns the record in the answer of a route."""
    answer = yield from core.call(route, path)
    return decode(kind, body_of(answer))


def change(core: Core, kind: type[T], route: Route, path: Mapping[str, str], body: Mapping[str, Any]) -> Steps[T]:
    """Sends a body to a route, without members that are None; returns the record in the answer."""
    given = {name: value for name, value in body.items() if value is not None}
    answer = yield from core.call(route, path, body=given)
    return decode(kind, body_of(answer))


def run_filters(
    status: str | Iterable[str] | None,
    workflow_id: str | None,
    client_reference: str | None,
    created_after: datetime | None,
    created_before: datetime | None,
) -> dict[str, object]:
    """Returns the query parameters of the filters of a list of runs."""
    return {
        "status": status if status is None or isinstance(status, str) else ",".join(status),
        "workflow_id": workflow_id,
        "client_reference": client_reference,
        "created_after": created_after and created_after.isoformat(),
        "created_before": created_before and created_before.isoformat(),
    }


def page_of(core: Core, kind: type[T], route: Route, query: Mapping[str, object], cursor: str | None) -> Steps[T]:
    """Returns the page of a list at a cursor."""
    answer = yield from core.call(route, query={"limit": PAGE, **query, "cursor": cursor})
    return decode(kind, body_of(answer))


def items(core: Core, kind: type[Any], route: Route, query: Mapping[str, object]) -> Steps[None]:
    """Emits the items of all pages of a list; each page is read when its first item is needed."""
    cursor: str | None = None
    while True:
        page = yield from page_of(core, kind, route, query, cursor)
        for item in page.items:
            yield Emit(item)
        cursor = page.next_cursor
        if not cursor:
            return
