"""Editing definitions in a real browser."""

import re

from playwright.sync_api import Browser, expect

from tests.browser.conftest import NewPerson, Screen
from tests.browser.editing import write, written
from tests.support.service import Service
from workflow_api.v1.users_pb2 import ROLE_ADMINISTRATOR

NEW = """kind: Workflow
name: Written here
steps:
- step: one
  agent: echo
  need: []
"""

LINKED = """
kind: Environment
name: linked-room
---
kind: KnowledgeGraph
name: linked-facts
---
kind: Agent
name: linked-reader
type: python
code: "def run(context): return 1"
---
kind: Workflow
name: Linked
steps: [{step: one, agent: linked-reader, environment: linked-room}]
publish: [{knowledge_graph: linked-facts}]
"""


def test_a_workflow_is_written_mended_compared_saved_and_activated(console: Service, signed_in: NewPerson) -> None:
    screen = signed_in("author", ROLE_ADMINISTRATOR)
    page = screen.page
    screen.open("/workflows")
    page.get_by_role("link", name="New workflow").click()
    write(page, NEW)
    page.get_by_role("button", name="Check").click()
    problem = page.get_by_role("alert")
    expect(problem).to_contain_text("Line 6: steps[0].need is not a known field")
    problem.get_by_role("link", name="Line 6").click()
    assert page.evaluate("getSelection().toString()") == "need: []"

    write(page, NEW.replace("  need: []\n", ""))
    page.get_by_role("button", name="Check").click()
    page.get_by_role("button", name="Save as version 1").click()
    expect(page.get_by_role("status")).to_have_text("Saved as version 1.")
    expect(page.get_by_role("heading", level=1)).to_have_text("Written here")
    page.get_by_role("button", name="Activate").click()
    expect(page.get_by_role("status")).to_contain_text("can be started now")

    page.get_by_role("link", name="Edit").click()
    expect(page.locator("textarea[name=text]")).to_have_value(re.compile("name: Written here"))
    write(page, written(page) + "description: Says it again.\n")
    page.get_by_role("button", name="Check").click()
    difference = page.get_by_role("region", name="What saving would change")
    expect(difference.locator("ins")).to_have_text(["+description: Says it again."])
    expect(difference.locator("del")).to_have_count(0)
    page.get_by_role("button", name="Save as version 2").click()
    expect(page.get_by_role("status")).to_have_text("Saved as version 2.")
    expect(page.get_by_role("table").last.get_by_role("row").nth(1)).to_contain_text("user:author")

    page.get_by_role("link", name="Difference of version 2 to the one before").click()
    expect(page.get_by_role("region", name="What differs").locator("ins")).to_have_text("+description: Says it again.")
    # That the answer to a wrong text says so.
    assert [each for each in screen.complaints if "400 (Bad Request)" not in each] == []


def test_a_save_over_a_version_of_somebody_else_is_told_and_loses_nothing(
    console: Service, signed_in: NewPerson
) -> None:
    screen = signed_in("second-author", ROLE_ADMINISTRATOR)
    page = screen.page
    agent = "kind: Agent\nname: disputed\ntype: python\ncode: |\n  def run(context):\n      return {}\n"
    console.admin.apply(agent.format(1))
    screen.open("/agents")
    page.get_by_role("link", name="disputed").click()
    page.get_by_role("link", name="Edit").click()
    console.admin.apply(agent.format(2))
    write(page, agent.format(3))
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_role("alert")).to_contain_text("saved version 2 meanwhile")
    expect(page.get_by_role("region", name="What was changed meanwhile").locator("ins")).to_contain_text(["return 2"])
    expect(page.locator("textarea[name=text]")).to_have_value(agent.format(3))
    page.get_by_role("button", name="Check").click()
    page.get_by_role("button", name="Save as version 3").click()
    expect(page.get_by_role("status")).to_have_text("Saved as version 3.")


def test_an_agent_is_edited_without_script(console: Service, chromium: Browser) -> None:
    console.admin.apply("kind: Agent\nname: plain\ntype: python\ncode: 'def run(context): return 1'\n")
    password = console.admin.add_user("writer-without-script", ROLE_ADMINISTRATOR)
    context = chromium.new_context(java_script_enabled=False)
    screen = Screen(context.new_page(), console.ready["console"])
    page = screen.page
    screen.open("/sign-in")
    screen.sign_in("writer-without-script", password)
    screen.change_password(password, "the password of writer-without-script")
    screen.open("/agents/plain/edit")
    manifest = page.get_by_label("Manifest")
    manifest.fill(manifest.input_value().replace("return 1", "retrun 1"))
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_role("alert")).to_contain_text("Line 4: code")
    expect(page.locator("#line-4")).to_have_text("4")
    manifest.fill(manifest.input_value().replace("retrun 1", "return 2"))
    page.get_by_role("button", name="Check").click()
    page.get_by_role("button", name="Save as version 2").click()
    expect(page.get_by_role("status")).to_have_text("Saved as version 2.")
    context.close()


def test_a_connector_is_written_mended_and_changed_as_a_manifest(console: Service, signed_in: NewPerson) -> None:
    screen = signed_in("connector", ROLE_ADMINISTRATOR)
    page = screen.page
    screen.open("/resources/connectors")
    page.get_by_role("link", name="New connector").click()
    text = "kind: Connector\nname: written-inbox\ntype: s3\nbucket: docs\nprefixes:\n- incoming\n"
    write(page, text)
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_role("alert")).to_contain_text("Line 6: prefixes[0]")
    write(page, text.replace("incoming", "incoming/") + "secret: inbox-key\n")
    page.get_by_role("button", name="Check").click()
    page.get_by_role("button", name="Save as version 1").click()
    expect(page.get_by_role("status")).to_have_text("Saved as version 1.")
    expect(page.get_by_text("A workflow that reads from it is not ready")).to_be_visible()

    page.get_by_role("link", name="Edit").click()
    write(page, written(page).replace("bucket: docs", "bucket: other-docs"))
    page.get_by_role("button", name="Check").click()
    difference = page.get_by_role("region", name="What saving would change")
    expect(difference.locator("ins")).to_have_text(["+bucket: other-docs"])
    page.get_by_role("button", name="Save as version 2").click()
    page.get_by_role("link", name="Version 1", exact=True).first.click()
    expect(page.get_by_text("This is version 1")).to_be_visible()
    page.get_by_role("link", name="Go back to version 1").click()
    expect(page.locator("textarea[name=text]")).to_have_value(re.compile("bucket: docs"))


def test_a_workflow_and_its_agent_lead_to_what_they_use_and_back(console: Service, signed_in: NewPerson) -> None:
    console.admin.apply(LINKED)
    screen = signed_in("follower", ROLE_ADMINISTRATOR)
    page = screen.page
    screen.open("/workflows")
    page.get_by_role("link", name="Linked", exact=True).click()
    used = page.get_by_role("group", name="What it uses")
    expect(used.get_by_role("link")).to_have_text(["linked-reader", "linked-room", "linked-facts"])
    used.get_by_role("link", name="linked-room").click()
    page.get_by_role("group", name="Workflows that use it").get_by_role("link", name="linked-reader").click()
    page.get_by_role("group", name="Workflows that use it").get_by_role("link", name="linked-facts").click()
    page.get_by_role("link", name="Linked", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Linked")
    assert screen.complaints == []
