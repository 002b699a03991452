import base64
import hashlib
import json
import re
from html import unescape
from html.parser import HTMLParser
from typing import Any

from edge.openapi.docs_page import docs_page
from edge.openapi.document import openapi_document

DOCUMENT: dict[str, Any] = json.loads(openapi_document("workflows.example.org"))
PAGE = docs_page("workflows.example.org").decode()


class Elements(HTMLParser):
    """Notes every element with its attributes, and whether each was closed in order."""

    VOID = frozenset({"meta", "br", "wbr"})

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


ELEMENTS = Elements(PAGE)


def text_of(section_id: str) -> str:
    """Returns the text from a heading to the next one of a section."""
    start = PAGE.index(f'id="{section_id}"')
    end = re.compile(r"<h[23]").search(PAGE, start)
    return unescape(re.sub(r"<[^>]+>", "", PAGE[start : end.start() if end else None]))


def test_the_page_is_well_formed() -> None:
    assert ELEMENTS.open == []
    ids = [attrs["id"] for _, attrs in ELEMENTS.found if "id" in attrs]
    assert len(ids) == len(set(ids))


def test_it_loads_nothing_and_runs_nothing() -> None:
    tags = {tag for tag, _ in ELEMENTS.found}
    assert not tags & {"script", "link", "img", "iframe", "object", "form", "base"}
    assert not [attrs for _, attrs in ELEMENTS.found if attrs.keys() & {"style", "src", "onclick"}]


def test_its_policy_allows_its_own_style_sheet_alone() -> None:
    [style] = re.findall(r"<style>(.*?)</style>", PAGE, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    [policy] = [attrs["content"] for _, attrs in ELEMENTS.found if attrs.get("http-equiv") == "Content-Security-Policy"]
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'"
    assert "url(" not in style
    assert "@import" not in style


def test_every_link_leads_somewhere() -> None:
    ids = {attrs["id"] for _, attrs in ELEMENTS.found if "id" in attrs}
    targets = {attrs["href"] or "" for tag, attrs in ELEMENTS.found if tag == "a"}
    assert {target.removeprefix("#") for target in targets if target.startswith("#")} <= ids
    assert {target for target in targets if not target.startswith("#")} == {"/openapi.json"}


def test_every_operation_is_shown_with_parameters_codes_and_an_example() -> None:
    for path, item in DOCUMENT["paths"].items():
        for verb, operation in item.items():
            text = text_of(f"operation-{operation['operationId']}")
            assert f"{verb.upper()} {path}" in text
            for parameter in operation["parameters"]:
                assert parameter.get("name", "X-Request-Id") in text
            for status, response in operation["responses"].items():
                assert status in text
                if status >= "400":
                    assert all(code in text for code in response["content"]["application/json"]["examples"])
            assert "https://workflows.example.org/api/v1" in text


def test_every_record_is_shown_with_its_fields() -> None:
    for name, schema in DOCUMENT["components"]["schemas"].items():
        text = text_of(f"schema-{name}")
        assert all(field in text for field in schema.get("properties", {}))
        assert all(record["$ref"].rpartition("/")[2] in text for record in schema.get("oneOf", []))


def test_bounds_and_defaults_are_told_in_words() -> None:
    assert "1 to 100, default 20, optional" in text_of("operation-listRuns")
    assert "1 to 128 characters, printable ASCII, required" in text_of("operation-startRun")
    assert "at most 20,000 characters" in text_of("operation-startRun")


def test_examples_of_calls_carry_both_credentials_but_health() -> None:
    start = text_of("operation-startRun")
    assert (
        'curl -X POST \\\n  -H "Authorization: Bearer $API_KEY" \\\n  -H "X-Service-Key-External-Id: $EXTERNAL_ID"'
        in start
    )
    assert '-H "Idempotency-Key: ' in start
    assert '"https://workflows.example.org/api/v1/workflows/$WORKFLOW_ID/runs"' in start
    assert "Bearer" not in text_of("operation-getHealth").partition("Example")[2]


def test_a_domain_is_shown_as_text() -> None:
    assert b"<b>x" not in docs_page("<b>x")
