"""Static files and their addresses."""

import asyncio
import gzip
import re

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from console.http.static_files import StaticFiles
from tests.unit.console.conftest import Desk

FILES = StaticFiles()


def answer(name: str, accepted: str) -> web.Response:
    path = FILES.url_of(name)
    *_, version, _ = path.split("/")
    request = make_mocked_request(
        "GET", path, headers={"Accept-Encoding": accepted}, match_info={"version": version, "name": name}
    )
    return asyncio.run(FILES.answer(request))


@pytest.mark.parametrize("accepted", ["gzip", "deflate, gzip;q=0.5", "GZIP", "br;q=0, gzip"])
def test_a_file_crosses_the_wire_compressed_where_the_browser_takes_it(accepted: str) -> None:
    plain, compressed = answer("console.css", ""), answer("console.css", accepted)
    assert compressed.headers["Content-Encoding"] == "gzip"
    assert isinstance(compressed.body, bytes)
    assert gzip.decompress(compressed.body) == plain.body
    assert compressed.headers["Vary"] == plain.headers["Vary"] == "Accept-Encoding"


@pytest.mark.parametrize("accepted", ["", "identity", "gzip;q=0", "gzip;q=0.000", "gzip;q=x", "xgzip"])
def test_a_file_crosses_the_wire_as_it_is_where_the_browser_refuses_others(accepted: str) -> None:
    assert "Content-Encoding" not in answer("console.css", accepted).headers


def test_the_bundle_of_the_editor_is_handed_out_as_it_was_compressed_when_it_was_made() -> None:
    assert FILES.has("manifest-editor.js"), "run make editor"
    assert answer("manifest-editor.js", "gzip, br").headers["Content-Encoding"] == "br"
    assert not FILES.has("manifest-editor.js.br")


def test_the_files_of_the_editor_find_each_other_by_relative_addresses() -> None:
    path, body = FILES.url_of("manifest-editor.js"), answer("manifest-editor.js", "").body
    assert isinstance(body, bytes)
    imported = set(re.findall(r'(?:from|import\()"\./([^"]+)"', body.decode()))
    assert imported == {"manifest-editor-chunk.js", "manifest-editor-later.js"}
    assert {FILES.url_of(name) for name in imported} == {path.replace("manifest-editor.js", name) for name in imported}


def test_a_script_imports_another_at_the_address_of_its_content(desk: Desk) -> None:
    browser = desk.browser("ann")
    page = browser.get("/runs").text
    (script,) = re.findall(r'<script src="(/static/[0-9a-f]{16}/live\.js)"', page)
    imported = re.findall(r' from "([^"]+)";', browser.get(script).text)
    assert imported == re.findall(r'<link rel="modulepreload" href="([^"]+)"', page)
    assert "export function patch" in browser.get(imported[0]).text
