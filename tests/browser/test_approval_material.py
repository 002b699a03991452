"""Approvals that are decided by a picture, a table and a document, with and without script; hostile ones too."""

import textwrap

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import NewPerson
from tests.browser.sweep import wrong_in_both_schemes
from tests.support.client import Caller
from tests.support.service import Service
from workflow_api.v1.users_pb2 import ROLE_APPROVER

AGENT = r"""
    import struct, zlib

    def png(side):
        def chunk(kind, content):
            return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        rows = (b"\0" + b"\x20\x80\xc0" * side) * side
        head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
        parts = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
        return b"\x89PNG\r\n\x1a\n" + parts

    PDF = (b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R/OpenAction<</S/JavaScript/JS(app.alert(1))>>>>endobj\n"
        b"2 0 obj<</Type/Pages/Count 1/Kids[3 0 R]>>endobj\n"
        b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 100]/Contents 4 0 R>>endobj\n"
        b"4 0 obj<</Length 30>>stream\n1 0 0 rg 10 10 100 50 re f    \nendstream endobj\n"
        b"trailer<</Root 1 0 R/Size 5>>\n%%EOF\n")
    EVIL = "<script>parent.evil = top.evil = 1</script><img src=x onerror='top.evil = 1'>"

    def run(context):
        out = context.outputs
        (out / "chart.png").write_bytes(png(40))
        (out / "document.pdf").write_bytes(PDF)
        (out / "evil.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'>" + EVIL + "</svg>")
        (out / "evil.html").write_text(EVIL)
        (out / "fake.png").write_text("<svg xmlns='http://www.w3.org/2000/svg' onload='top.evil = 1'/>")
        (out / "notes.md").write_text(
            "# Sums\n\n**all right**\n\n" + EVIL + "\n\n![far](https://evil.example/x.png)\n\n[go](javascript:alert(1))\n")
        (out / "table.csv").write_text("name,amount\n" + "".join(f"row {n},{n}\n" for n in range(250)))
        return {"total": 7250}
"""
WORKFLOW = """
---
kind: Workflow
name: Material
status: active
steps:
  - {step: make, agent: material, environment: standard}
  - step: check
    approval: {title: Pay it?, summary: "'Total: ' + string(needs.make.total)"}
    needs: [make]
"""


@pytest.fixture(scope="module")
def caller(console: Service) -> Caller:
    return console.new_caller()


@pytest.fixture(scope="module")
def workflow_id(console: Service) -> str:
    console.admin.apply_test_workflows()
    code = textwrap.indent(textwrap.dedent(AGENT), "  ")
    return console.admin.apply(f"kind: Agent\nname: material\ntype: python\ncode: |\n{code}\n{WORKFLOW}")["Material"]


def watch(page: Page) -> list[str]:
    """Returns the addresses that the page asks for beyond the console, as they come."""
    asked: list[str] = []
    page.on("request", lambda request: None if "//127.0.0.1" in request.url else asked.append(request.url))
    return asked


def test_three_gates_are_decided_by_a_picture_and_a_table(
    caller: Caller, workflow_id: str, signed_in: NewPerson
) -> None:
    runs = [caller.parked(workflow_id, client_reference=f"bill-{n}")["run_id"] for n in range(3)]
    screen = signed_in("looks-closely", ROLE_APPROVER)
    page = screen.page
    elsewhere = watch(page)
    screen.open(f"/approvals?gate=check@{workflow_id}")
    expect(page.locator(".items .summary")).to_have_text([f"bill-{n}: Total: 7250" for n in range(3)])
    expect(page.locator("#bar")).to_be_hidden()
    page.get_by_role("link", name="On a page of its own").click()

    picture = page.get_by_role("img", name="make/chart.png")
    expect(picture).to_be_visible()
    page.wait_for_function("() => document.querySelector('.picture img').complete")
    assert picture.evaluate("each => [each.naturalWidth, each.naturalHeight]") == [40, 40]
    drawn = page.get_by_role("img", name="Page 1 of 1 of make/document.pdf")
    drawn.scroll_into_view_if_needed()
    page.wait_for_function("() => [...document.images].every((each) => each.complete && each.naturalWidth)")
    expect(page.get_by_role("heading", name="Sums")).to_be_visible()
    expect(page.locator(".prose strong")).to_have_text("all right")
    expect(page.locator(".prose img, .prose script, main svg image")).to_have_count(0)
    expect(page.locator("main")).to_contain_text("By its content it is no PNG")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download make/evil.html").click()
    assert download.value.suggested_filename == "evil.html"
    assert wrong_in_both_schemes(page, "an approval") == {}

    page.get_by_role("link", name="Next rows of make/table.csv").click()
    expect(page.locator("tbody tr").first).to_contain_text("row 50")
    page.get_by_role("link", name="Next rows of make/table.csv").click()
    expect(page.locator("tbody tr").last).to_contain_text("row 249")
    expect(page.locator("main")).to_contain_text("Rows 151 to 250 of 250")
    assert page.evaluate("window.evil") is None

    screen.open(f"/approvals?gate=check@{workflow_id}")
    for box in page.locator(".items input").all():
        box.check()
    expect(page.locator("#bar")).to_be_in_viewport()
    expect(page.locator("#bar")).to_contain_text("3 chosen")
    assert wrong_in_both_schemes(page, "the inbox") == {}
    page.locator("#bar").get_by_role("button", name="Approve").click()
    expect(page.locator("tbody tr")).to_have_count(3)
    expect(page.locator("tbody tr").first).to_contain_text("Total: 7250")
    expect(page.locator("tbody tr").first).to_contain_text("bill-0")
    page.get_by_role("button", name="Approve all of them").click()
    expect(page.get_by_role("status")).to_have_text("Approved: 3.")
    assert {caller.wait(run_id)["status"] for run_id in runs} == {"completed"}
    assert elsewhere == []
    assert screen.complaints == []


def test_three_gates_are_decided_without_script(caller: Caller, workflow_id: str, signed_in: NewPerson) -> None:
    runs = [caller.parked(workflow_id)["run_id"] for _ in range(3)]
    screen = signed_in("looks-without-script", ROLE_APPROVER)
    browser = screen.page.context.browser
    assert browser is not None
    plain = browser.new_context(
        java_script_enabled=False,
        storage_state=screen.page.context.storage_state(),
        viewport={"width": 390, "height": 800},
    )
    page = plain.new_page()
    page.goto(screen.address(f"/approvals?gate=check@{workflow_id}"))
    expect(page.locator("article")).to_be_hidden()
    page.locator(".items a").first.click()
    expect(page.locator(".items")).to_be_hidden()
    while page.get_by_text("is being prepared").count():
        expect(page.get_by_role("button", name="Approve", exact=True)).to_have_count(0)
        page.get_by_role("link", name="Look again").click()
    expect(page.get_by_role("img", name="make/chart.png")).to_be_visible()
    page.get_by_role("button", name="Approve", exact=True).click()
    expect(page.locator(".items a")).to_have_count(2)
    for box in page.locator(".items input").all():
        box.check()
    page.locator("#bar").get_by_role("button", name="Reject").click()
    page.get_by_role("button", name="Reject all of them").click()
    expect(page.get_by_role("status")).to_have_text("Rejected: 2.")
    plain.close()
    assert sorted(caller.wait(run_id)["status"] for run_id in runs) == ["completed", "failed", "failed"]


def test_an_approval_is_assigned_and_snoozed(caller: Caller, workflow_id: str, signed_in: NewPerson) -> None:
    run_id = caller.parked(workflow_id)["run_id"]
    screen = signed_in("takes-care", ROLE_APPROVER)
    page = screen.page
    screen.open(f"/approvals?gate=check@{workflow_id}")
    page.get_by_role("button", name="Assign to me").click()
    expect(page.get_by_role("status")).to_have_text("It is assigned to you.")
    page.get_by_role("link", name="Mine").click()
    expect(page.locator("[data-item]")).to_have_count(1)
    expect(page.locator("[data-item]")).to_contain_text("takes-care")
    page.get_by_role("button", name="Snooze until tomorrow").click()
    expect(page.get_by_role("status")).to_contain_text("It is snoozed for you until")
    page.get_by_role("link", name="All", exact=True).click()
    expect(page.locator("[data-item]", has_text="Pay it?")).to_have_count(0)
    page.get_by_role("link", name="Snoozed").click()
    page.get_by_role("button", name="Wake").click()
    expect(page.get_by_role("status")).to_have_text("It is back among all.")
    caller.post(f"/runs/{run_id}/cancel", {})
    assert screen.complaints == []
