import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from google.protobuf.message import Message

from console.paging import all_items
from workflow_api.v1.users_pb2 import ListUsersRequest, ListUsersResponse, User


class PagedServices:
    """Answers a list in pages of one item, whose tokens are the numbers of the pages; records the requests."""

    def __init__(self, *names: str) -> None:
        self.names = names
        self.asked: list[Message] = []

    async def call(self, rpc: str, request: Any) -> Any:
        assert rpc == "UsersService/ListUsers"
        self.asked.append(request)
        number = int(request.page_token or 0)
        page = ListUsersResponse(items=[User(name=name) for name in self.names[number : number + 1]])
        if number + 1 < len(self.names):
            page.next_page_token = str(number + 1)
        return page

    def stream(self, rpc: str, request: Any, seconds: float) -> AsyncGenerator[Message, None]:
        raise NotImplementedError


def items(services: PagedServices, request: ListUsersRequest) -> list[str]:
    return [user.name for user in asyncio.run(all_items(services, "UsersService/ListUsers", request))]


def test_a_list_is_read_to_its_end() -> None:
    services = PagedServices("ana", "ben", "cleo")
    request = ListUsersRequest(page_size=7)
    assert items(services, request) == ["ana", "ben", "cleo"]
    assert services.asked == [
        ListUsersRequest(page_size=7),
        ListUsersRequest(page_size=7, page_token="1"),
        ListUsersRequest(page_size=7, page_token="2"),
    ]
    assert request == ListUsersRequest(page_size=7)


def test_an_empty_list_has_one_page() -> None:
    services = PagedServices()
    assert items(services, ListUsersRequest()) == []
    assert len(services.asked) == 1
