"""Pages of an agent's code."""

import asyncio
import io
import tracemalloc
import zipfile

from console.visit import FileDownload, View
from tests.unit.console.seen import MemoryServices, answered, html
from workflow_api.v1.definitions_pb2 import AgentCode

EVIL = "<script>alert(1)</script>"
HERE = {"definition_id": "agt_1"}


def services(content: bytes | None = None) -> MemoryServices:
    code = AgentCode(id="agt_1", name="counter", version=2, archive=archive() if content is None else content)
    return MemoryServices({"DefinitionsService/GetAgentCode": code})


def archive() -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as made:
        made.writestr("main.py", f"# {EVIL}\n")
        made.writestr("lib/data.bin", b"\xff\xfe")
    return target.getvalue()


def test_the_files_of_an_agents_code_are_shown_and_downloaded() -> None:
    path = "/agents/{definition_id}/code"
    page = html(answered(services(), "GET", path, HERE, query={"version": "2"}))
    assert 'href="/agents/agt_1/code?version=2&amp;file=lib%2Fdata.bin"' in page
    assert "alert(1)" in page
    assert EVIL not in page
    binary = html(answered(services(), "GET", path, HERE, query={"version": "2", "file": "lib/data.bin"}))
    assert "It is no text." in binary
    missing = answered(services(), "GET", path, HERE, query={"file": "../x"})
    assert isinstance(missing, View)
    assert missing.status == 404
    stored = archive()
    answer = answered(services(stored), "GET", f"{path}/download", HERE)
    assert isinstance(answer, FileDownload)
    assert answer.file_name == "counter-2.zip"

    async def content() -> bytes:
        return b"".join([part async for part in answer.parts])

    assert asyncio.run(content()) == stored


def zipped(**files: bytes) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in files.items():
            made.writestr(name, content)
    return target.getvalue()


def test_a_page_inflates_no_more_of_a_file_than_it_shows() -> None:
    big = zipped(big="é".encode() * 10_000_000)
    tracemalloc.start()
    try:
        page = html(answered(services(big), "GET", "/agents/{definition_id}/code", HERE))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "The rest is in the download." in page
    assert page.count("é") == 40_000
    assert peak < 10_000_000


def test_an_archive_without_files_is_a_page_that_says_so() -> None:
    answer = answered(services(zipped()), "GET", "/agents/{definition_id}/code", HERE)
    assert isinstance(answer, View)
    assert answer.status == 404
