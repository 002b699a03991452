"""Help pages: every page of the console leads to the section of the documents that explains it."""

import re
import tomllib
from pathlib import Path

import pytest

import console
from console.rendering.documents import document, explained_sections, help_address
from console.routes import PAGES
from console.visit import ALL_ROLES, View
from tests.unit.console.seen import MOST_BYTES, MemoryServices, answered, html, roles_of

ROOT = Path(console.__file__).parents[1]
WHEEL = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
EXCLUDED = {each for each in WHEEL["exclude"] if each.startswith("docs/")}
NAMES = sorted(
    name.removesuffix(".md")
    for path in (ROOT / "docs").rglob("*.md")
    if not {f"docs/{(name := path.relative_to(ROOT / 'docs').as_posix())}", f"docs/{name.partition('/')[0]}"} & EXCLUDED
)
ONE = "/help/{document}"


def shown(name: str) -> str:
    found = document(name)
    assert found is not None, name
    return found.html


def missing_anchor(address: str) -> str:
    """The address, where its document or section is not there; empty otherwise."""
    name, _, anchor = address.removeprefix("/help").removeprefix("/").partition("#")
    found = document(name or "index")
    there = found is not None and (not anchor or f'id="{anchor}"' in found.html)
    return "" if there else address


@pytest.mark.parametrize("path", sorted({page.path for page in PAGES if page.method == "GET"}))
def test_every_page_leads_to_a_section_that_is_there(path: str) -> None:
    assert missing_anchor(help_address(re.sub(r"{approval_id}", "apr_1", path).replace("{", "").replace("}", ""))) == ""


@pytest.mark.parametrize(
    ("path", "address"),
    [
        ("/", "/help/console"),
        ("/approvals", "/help/console#the-inbox-of-approvals"),
        ("/approvals/apr_1/material/0", "/help/console#what-an-approval-is-about"),
        ("/keys/new", "/help/how-to/keys"),
        ("/keys/key_1/webhooks/wh_1", "/help/webhooks"),
        ("/agents/new", "/help/console#editing"),
        ("/workflows/wf_1/start", "/help/console#starting-a-run"),
        ("/help/agents", "/help"),
    ],
)
def test_a_page_is_explained_by_its_own_section(path: str, address: str) -> None:
    assert help_address(path) == address


@pytest.mark.parametrize("name", NAMES)
def test_links_of_documents_stay_among_them_or_lead_to_the_web(name: str) -> None:
    links = re.findall(r'href="([^"]*)"', shown(name))
    outside = [each for each in links if not each.startswith(("/help", "#", "https://", "http://"))]
    assert outside == []
    left_out = tuple(f"/help/{each.removeprefix('docs/').removesuffix('.md')}" for each in EXCLUDED)
    inside = [each if each[0] == "/" else f"/help/{name}{each}" for each in links if each.startswith(("/help", "#"))]
    assert [each for each in inside if not each.startswith(left_out) and missing_anchor(each)] == []


@pytest.mark.parametrize("name", NAMES)
def test_a_document_is_a_page_of_headings_text_and_no_comments(name: str) -> None:
    page = shown(name)
    assert page.count("<h1") == 1
    assert "&lt;!--" not in page
    assert "<img" not in page
    assert not re.search("<[^>]* style=", page)
    assert len(page.encode()) < MOST_BYTES


def test_a_package_has_every_document_that_explains_a_page() -> None:
    assert {section.partition("#")[0] for section in explained_sections()} <= set(NAMES)


@pytest.mark.parametrize("name", ["nothing", "..", "Agents", "agents.md", "../README", "%2e%2e", ""])
def test_a_document_that_there_is_not_is_not_found(name: str) -> None:
    page = answered(MemoryServices({}), "GET", ONE, {"document": name})
    assert isinstance(page, View)
    assert page.status == 404
    assert "This installation has no such document." in html(page)


def test_everybody_reads_the_documents() -> None:
    assert roles_of("GET", ONE) == ALL_ROLES
    assert '<h1 id="workflow-api">' in html(answered(MemoryServices({}), "GET", "/help"))
    assert '<h1 id="rotate-and-limit-keys">' in html(
        answered(MemoryServices({}), "GET", "/help/{folder}/{document}", {"folder": "how-to", "document": "keys"})
    )
