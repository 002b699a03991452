"""Lists of the services, read to their end."""

from typing import Any

from google.protobuf.message import Message

from console.visit import Services
from contract.paging import next_page


async def all_items(services: Services, rpc: str, request: Message) -> list[Any]:
    """Returns the items of all pages of a list, from the page that the request asks for.

    Raises:
        Refusal: as `Services.call`.
    """
    page = await services.call(rpc, request)
    items = list(page.items)
    while page.HasField("next_page_token"):
        request = next_page(request, page.next_page_token)
        page = await services.call(rpc, request)
        items += page.items
    return items
