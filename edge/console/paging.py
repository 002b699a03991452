"""Lists of the services, read to their end."""

from typing import Any, cast

from google.protobuf.message import Message

from edge.console.visit import Services


async def all_items(services: Services, rpc: str, request: Message) -> list[Any]:
    """Returns the items of all pages of a list, from the page that the request asks for.

    Raises:
        Refusal: as `Services.call`.
    """
    page = await services.call(rpc, request)
    items = list(page.items)
    while page.HasField("next_page_token"):
        request = _following(request, page.next_page_token)
        page = await services.call(rpc, request)
        items += page.items
    return items


def _following(request: Message, token: str) -> Message:
    following: Any = type(request)()
    following.CopyFrom(request)
    following.page_token = token
    return cast("Message", following)
