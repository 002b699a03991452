"""Static files and their addresses."""

import re

from tests.unit.console.conftest import Desk


def test_a_script_imports_another_at_the_address_of_its_content(desk: Desk) -> None:
    browser = desk.browser("ann")
    page = browser.get("/runs").text
    (script,) = re.findall(r'<script src="(/static/[0-9a-f]{16}/live\.js)"', page)
    imported = re.findall(r' from "([^"]+)";', browser.get(script).text)
    assert imported == re.findall(r'<link rel="modulepreload" href="([^"]+)"', page)
    assert "export function patch" in browser.get(imported[0]).text
