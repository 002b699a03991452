"""Lists: all items, page by page, and from a cursor."""

import asyncio

import pytest

from workflow_api_client import errors
from workflow_api_client.testing import FakeApi


@pytest.fixture
def filled(api: FakeApi) -> FakeApi:
    """A service with five runs of one workflow."""
    api.workflow("Digest")
    for _ in range(5):
        api.client().runs.start("Digest")
    api.requests.clear()
    return api


def newest_first(api: FakeApi) -> list[str]:
    return list(api.runs)[::-1]


def test_a_list_yields_its_pages(filled: FakeApi) -> None:
    pages = list(filled.client().runs.list().pages(limit=2))
    assert [len(page.items) for page in pages] == [2, 2, 1]
    assert [page.next_cursor is None for page in pages] == [False, False, True]
    assert [item.run_id for page in pages for item in page.items] == newest_first(filled)
    assert [each.query["limit"] for each in filled.requests] == ["2"] * 3


def test_a_page_reads_the_page_after_it_with_the_filters(filled: FakeApi) -> None:
    client = filled.client()
    page = client.runs.page(status=["queued", "running"], limit=3)
    following = page.next_page(timeout=5)
    assert following is not None
    assert [item.run_id for item in [*page.items, *following.items]] == newest_first(filled)
    assert {each.query["status"] for each in filled.requests} == {"queued,running"}
    assert following.next_page() is None
    assert len(filled.requests) == 2


def test_a_cursor_of_a_page_goes_on_in_another_program(filled: FakeApi) -> None:
    cursor = filled.client().runs.page(limit=3).next_cursor
    assert len(filled.client().runs.page(limit=3, cursor=cursor).items) == 2
    with pytest.raises(errors.InvalidCursorError):
        filled.client().runs.page(cursor="x")


def test_workflows_have_pages_of_the_names_that_are_asked_for(api: FakeApi) -> None:
    for name in ("Text a", "Text b", "Other"):
        api.workflow(name)
    page = api.client().workflows.page("Text", limit=1)
    assert [item.name for item in page.items] == ["Text a"]
    assert [item.name for one in api.client().workflows.list("Text").pages() for item in one.items] == [
        "Text a",
        "Text b",
    ]


def test_tasks_have_the_same_pages(filled: FakeApi) -> None:
    async def work() -> list[list[str]]:
        async with filled.async_client() as client:
            first = await client.runs.page(limit=4)
            rest = await first.next_page()
            assert rest is not None
            assert await rest.next_page() is None
            assert [item.run_id async for item in client.runs.list()] == newest_first(filled)
            assert [item.run_id for item in [*first.items, *rest.items]] == newest_first(filled)
            return [[item.run_id for item in page.items] async for page in client.runs.list().pages(limit=3)]

    assert [len(page) for page in asyncio.run(work())] == [3, 2]
