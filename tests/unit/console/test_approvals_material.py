"""Pages of what an approval is about: each is small, and together they show all of it."""

import re
from collections.abc import Mapping
from html import unescape
from urllib.parse import parse_qsl

import pytest

from console.visit import View
from tests.unit.console.pages.test_approvals import HERE, ONE, pending, review, services
from tests.unit.console.seen import MOST_BYTES, answered, sent_html
from workflow_api.v1.reviews_pb2 import ReviewFile, ReviewMaterial, ReviewRow, ReviewStep, ReviewTable, ReviewText

TABLE = ReviewTable(columns=["<"] * 30, rows=[ReviewRow(cells=[f"{n} {'<' * 290}"] * 30) for n in range(50)])


def page(material: ReviewMaterial, path: str = "", query: Mapping[str, str] = {}, **names: str) -> str:
    backend = services(shown=review(pending(), material=material))
    text = sent_html(answered(backend, "GET", ONE + path, {**HERE, **names}, query=query))
    assert len(text.encode()) < MOST_BYTES
    return text


def read_on(material: ReviewMaterial, first: str, number: int) -> list[str]:
    """The pages of one part, from that of the approval on."""
    pages = [first]
    while query := query_of(pages[-1], number, "next"):
        pages.append(page(material, "/material/{number}", query, number=str(number)))
    return pages


def query_of(text: str, number: int, relation: str) -> dict[str, str]:
    """The query of a page's link to the next page of a part, or to the earlier one; empty where there is none."""
    found = re.search(rf'/material/{number}\?([^"]+)" rel="{relation}"', text)
    return dict(parse_qsl(unescape(found[1]))) if found else {}


@pytest.mark.parametrize("filler", ["m", "<", "😀", "&\n"])
def test_all_of_a_long_text_can_be_read_on_small_pages(filler: str) -> None:
    text = "".join(f"{n:06}{filler * 10}" for n in range(65_536 // (6 + 10 * len(filler))))
    long = ReviewText(text=text)
    step = ReviewStep(step="s", files=[ReviewFile(path=f"s/{n}", text=long) for n in range(20)], files_total=20)
    material = ReviewMaterial(parameters=ReviewText(text="{}"), steps=[step] * 3)
    pages = read_on(material, page(material), 2)
    shown = [re.findall('aria-label="s/2 of Step s">\n(.*?)</pre>', each, re.DOTALL) for each in pages]
    assert unescape("".join(each for (each,) in shown)) == text


def test_all_rows_of_a_wide_table_can_be_read_on_small_pages() -> None:
    step = ReviewStep(step="s", files=[ReviewFile(path="s/t.csv", table=TABLE)], files_total=1)
    material = ReviewMaterial(parameters=ReviewText(text="{}"), steps=[step])
    pages = read_on(material, page(material), 0)
    rows = [row for each in pages for row in re.findall(r"<tr><td>([0-9]+) ", each)]
    assert rows == [str(n) for n in range(50)]


@pytest.mark.parametrize("kind", ["table", "text"])
def test_earlier_leads_to_the_page_that_was_there_before(kind: str) -> None:
    # Longer and longer rows, so that each page has fewer of them.
    rows = [ReviewRow(cells=[f"{n} {'<' * min(290, 4 * n)}"] * 30) for n in range(80)]
    table = ReviewTable(columns=["c"] * 30, rows=rows)
    long = ReviewFile(path="s/t", table=table) if kind == "table" else ReviewFile(path="s/t")
    if kind == "text":
        long.text.text = "".join(f"{n} {'<' * min(n, 3_000)}\n" for n in range(600))
    material = ReviewMaterial(parameters=ReviewText(text="{}"), steps=[ReviewStep(step="s", files=[long])])
    queries = [{"begin": "0"}]
    pages = [page(material, "/material/{number}", queries[0], number="0")]
    while query := query_of(pages[-1], 0, "next"):
        queries.append(query)
        pages.append(page(material, "/material/{number}", query, number="0"))
    assert len(pages) > 3
    for back in range(len(pages) - 1, 0, -1):
        query = query_of(pages[back], 0, "prev")
        assert query == queries[back - 1]
        assert page(material, "/material/{number}", query, number="0") == pages[back - 1]


def test_earlier_leads_back_from_the_page_that_the_approval_leads_on_to() -> None:
    step = ReviewStep(step="s", files=[ReviewFile(path="s/t.csv", table=TABLE)], files_total=1)
    material = ReviewMaterial(parameters=ReviewText(text="{}"), steps=[step])
    second = page(material, "/material/{number}", query_of(page(material), 0, "next"), number="0")
    assert query_of(second, 0, "prev") == {"begin": "0"}


@pytest.mark.parametrize("before", ["", "9,3", "40", "x", "1," * 9])
def test_an_address_that_lists_no_earlier_pages_leads_to_the_beginning_alone(before: str) -> None:
    step = ReviewStep(step="s", files=[ReviewFile(path="s/t.csv", table=TABLE)], files_total=1)
    material = ReviewMaterial(parameters=ReviewText(text="{}"), steps=[step])
    text = page(material, "/material/{number}", {"begin": "20", "before": before}, number="0")
    assert "From its beginning" in text
    assert not query_of(text, 0, "prev")


def test_all_files_of_many_steps_are_reached_on_small_pages() -> None:
    files = [ReviewFile(path=f"{n}-{'p' * 500}", text=ReviewText(text="t")) for n in range(20)]
    steps = [ReviewStep(step=f"step-{n}", files=files, files_total=20) for n in range(20)]
    material = ReviewMaterial(parameters=ReviewText(text="{}"), steps=steps)
    seen: list[str] = []
    query: dict[str, str] = {}
    while True:
        text = page(material, query=query)
        seen += re.findall("<h3>([0-9]+)-p", text)
        found = re.search(r'href="\?first=([0-9]+)"', text)
        if found is None:
            break
        query = {"first": found[1]}
    assert seen == [str(n) for n in range(20)] * 20


def test_a_part_that_there_is_not_is_not_found() -> None:
    material = ReviewMaterial(parameters=ReviewText(text="{}"))
    backend = services(shown=review(pending(), material=material))
    for number in ("7", "-1", "9" * 40):
        answer = answered(backend, "GET", f"{ONE}/material/{{number}}", {**HERE, "number": number})
        assert isinstance(answer, View)
        assert answer.status == 404
