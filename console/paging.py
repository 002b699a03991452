"""Paging: reads all pages of a service's list, and cuts a list into the rows of one page."""

import re
from collections.abc import Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

from google.protobuf.message import Message

from console.visit import UserServices
from contract.paging import next_page

T = TypeVar("T")

_NUMBER: Final = re.compile(r"[0-9]{1,9}")


class Rows(NamedTuple, Generic[T]):
    """Rows of a list from number `first` on; `earlier` and `later` are the first rows of the adjacent pages."""

    items: Sequence[T]
    first: int
    total: int
    earlier: int | None
    later: int | None


def rows_from(items: Sequence[T], asked: str, size: int) -> Rows[T]:
    """Returns at most `size` rows from the number in `asked`, counted from 0; by default from the first."""
    first = row_number(asked)
    first = first if first < len(items) else 0
    end = first + size
    return Rows(
        items[first:end],
        first,
        len(items),
        max(0, first - size) if first else None,
        end if end < len(items) else None,
    )


def row_number(asked: str) -> int:
    """Returns a row number from the query; 0 where the text is no number."""
    return int(asked) if _NUMBER.fullmatch(asked) else 0


async def all_items(services: UserServices, rpc: str, request: Message) -> list[Any]:
    """Returns the items of all pages of a list, from the request's page on.

    Raises:
        Refusal: as `UserServices.call`.
    """
    page = await services.call(rpc, request)
    items = list(page.items)
    while page.HasField("next_page_token"):
        request = next_page(request, page.next_page_token)
        page = await services.call(rpc, request)
        items += page.items
    return items
