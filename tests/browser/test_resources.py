"""What workflows use, in a real browser: a connection tested against a real S3 server, and a queried graph."""

import re
from pathlib import Path

from playwright.sync_api import expect

from tests.browser.conftest import NewPerson
from tests.support.poll import until
from tests.support.s3_server import S3Server
from tests.support.service import Service
from workflow_api.v1 import workflows_pb2
from workflow_api.v1.users_pb2 import ROLE_ADMINISTRATOR

PUBLISHES = """
kind: KnowledgeGraph
name: invoices
---
kind: Agent
name: publisher-of-invoices
type: python
code: |
  def run(context):
      (context.outputs / "facts.ttl").write_text(context.input_text)
---
kind: Workflow
name: Publishes invoices
status: active
steps: [{step: write, agent: publisher-of-invoices}]
publish: [{knowledge_graph: invoices}]
"""


PACKAGED = """
kind: Environment
name: tables-of-the-browser
python: {packages: [alpha], preload: [alpha]}
"""


def connector(server: S3Server, bucket: str) -> str:
    return f"""
kind: Connector
name: inbox-of-the-browser
type: s3
bucket: {bucket}
prefixes: [in/, out/]
endpoint_url: {server.url}
"""


def test_a_connection_is_tested_and_the_stores_answer_shown_with_what_to_do(
    console: Service, signed_in: NewPerson, s3_server: S3Server
) -> None:
    s3_server.fill("docs", {"in/a.txt": b"a"})
    console.admin.apply(connector(s3_server, "docs").replace("inbox-of-the-browser", "warm"))
    # The first test of a process loads the client of S3, which a busy machine may take long for.
    warm = workflows_pb2.TestConnectorRequest(name="warm")
    until(lambda: console.admin.workflows.TestConnector(warm).passed, "a passed test")
    console.admin.apply(connector(s3_server, "nowhere"))
    screen = signed_in("tester", ROLE_ADMINISTRATOR)
    page = screen.page
    screen.open("/resources")
    page.get_by_role("main").get_by_role("link", name="Connectors").click()
    expect(page.get_by_role("row").filter(has_text="inbox-of-the-browser")).to_contain_text("not tested")
    page.get_by_role("link", name="inbox-of-the-browser").click()
    page.get_by_role("button", name="Test the connection").click()
    answer = page.get_by_role("row").filter(has_text="s3://nowhere/in/")
    expect(answer).to_contain_text("404 NoSuchBucket")
    expect(answer).to_contain_text("The specified bucket does not exist")
    expect(answer).to_contain_text("Correct `bucket` of the connector")

    console.admin.apply(connector(s3_server, "docs"))
    page.get_by_role("button", name="Test the connection").click()
    expect(page.get_by_role("status")).to_contain_text("Listed in/, out/ of docs.")
    expect(page.get_by_role("row").filter(has_text="s3://docs/out/")).to_contain_text("Nothing is there yet.")
    page.get_by_role("link", name="Audit").last.click()
    expect(page.get_by_role("row", name=re.compile("tested the connector")).first).to_contain_text("user:tester")
    assert screen.complaints == []


def test_a_knowledge_graph_is_queried_and_its_answer_downloaded(console: Service, signed_in: NewPerson) -> None:
    flow = console.admin.apply(PUBLISHES)["Publishes invoices"]
    run = console.new_caller().finished(flow, input_text="<x:invoice> <x:total> '2.50' .")
    assert run["warnings"] == []
    run_id = run["run_id"]
    screen = signed_in("analyst", ROLE_ADMINISTRATOR)
    page = screen.page
    screen.open("/resources/graphs")
    page.get_by_role("link", name="invoices", exact=True).click()
    expect(page.get_by_role("row").filter(has_text=run_id)).to_contain_text("published")
    page.get_by_role("link", name="Triples by run").click()
    page.get_by_role("button", name="Run the query").click()
    expect(page.get_by_role("group", name="Answer").get_by_role("row").filter(has_text=run_id)).to_contain_text("1")
    box = page.get_by_label("SPARQL")
    box.fill("SELECT ?invoice ?total\nWHERE { ?invoice <x:total> }")
    page.get_by_role("button", name="Run the query").click()
    expect(box).to_be_focused()
    expect(box).to_have_accessible_description(re.compile("it is not a SPARQL query: error at 2:28"))
    expect(page.get_by_label("Where the query cannot be read")).to_contain_text("WHERE { ?invoice <x:total> }")
    box.fill("SELECT ?invoice ?total\nWHERE { ?invoice <x:total> ?total }")
    page.get_by_role("button", name="Run the query").click()
    expect(page.get_by_role("cell", name="2.50")).to_be_visible()
    with page.expect_download() as downloading:
        page.get_by_role("button", name="Download as CSV").click()
    assert downloading.value.suggested_filename == "invoices.csv"
    assert Path(downloading.value.path()).read_text().splitlines() == ["invoice,total", "x:invoice,2.50"]
    # The refusal of the first query alone.
    assert [text for text in screen.complaints if "400" not in text] == []


def test_a_build_is_followed_until_it_is_done(console: Service, signed_in: NewPerson) -> None:
    console.admin.apply(PACKAGED)
    screen = signed_in("packager", ROLE_ADMINISTRATOR)
    page = screen.page
    screen.open("/resources/environments")
    page.get_by_role("link", name="tables-of-the-browser").click()
    build = page.get_by_role("region", name="Build")
    expect(build.get_by_role("heading")).to_contain_text("built")
    expect(build.get_by_role("row", name=re.compile("built"))).to_be_visible()
    build.get_by_text("1 locked package").click()
    expect(build.get_by_text("alpha==1.5")).to_be_visible()
    build.get_by_role("link", name="Log").click()
    expect(page.get_by_label("Log of the build")).to_contain_text("alpha==1.5")
    page.get_by_role("link", name="Back to the environment").click()
    build.get_by_role("button", name="Build again").click()
    expect(page.get_by_role("status")).to_contain_text("try again now")
    assert screen.complaints == []
