"""Results, lists and outputs of runs over MCP, whole, in pages and in pieces."""

import asyncio
import base64
import json
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from tests.clients.tools import connected, pages, pieces
from workflow_api_client.testing import FakeApi, complete, fail


def ranges(api: FakeApi) -> list[str | None]:
    return [each.headers.get("range") for each in api.requests if each.path.endswith("/content")]


def test_runs_are_listed_newest_first_with_the_call_for_older_ones(api: FakeApi) -> None:
    api.workflow("Digest", script=[complete({"pages": 1})])
    api.workflow("Other", script=[fail("no")])

    async def work() -> Any:
        async with connected(api) as connection:
            tools: Any = connection
            started = []
            for name in ("digest", "other", "digest"):
                started.append((await tools.call_tool(name, {})).structured_content["run_id"])
                api.clock.sleep(10)
            first = (await tools.call_tool("list_runs", {"limit": 2})).structured_content
            assert [each["run_id"] for each in first["runs"]] == started[:0:-1]
            rest = (await tools.call_tool(first["next"]["tool"], first["next"]["arguments"])).structured_content
            assert [each["run_id"] for each in rest["runs"]] == started[:1]
            assert "next" not in rest
            failed = (await tools.call_tool("list_runs", {"status": "failed", "workflow": "Other"})).structured_content
            assert [each["run_id"] for each in failed["runs"]] == [started[1]]

    asyncio.run(work())


def test_a_large_result_is_sent_once_or_says_where_it_is(api: FakeApi) -> None:
    mark = "needle"
    api.workflow("Large", script=[complete({"text": mark + "x" * 20_000})])
    api.workflow("Larger", script=[complete({"text": mark + "x" * 100_000}, outputs={"work/a.bin": bytes(range(256))})])

    async def work() -> None:
        async with connected(api) as connection:
            tools: Any = connection
            large = await tools.call_tool("large", {})
            assert large.structured_content["result"]["text"].startswith(mark)
            assert large.model_dump_json().count(mark) == 1
            larger = await tools.call_tool("larger", {})
            assert len(larger.model_dump_json()) < 10_000
            rest = larger.structured_content["result_rest"]
            assert rest["tool"] == "read_output"
            arguments = rest["arguments"]
            assert json.loads("".join(await pieces(tools, arguments))) == {"text": mark + "x" * 100_000}
            listing = await tools.call_tool("read_output", {"run_id": arguments["run_id"]})
            assert [each["path"] for each in listing.structured_content["outputs"]] == ["result.json", "work/a.bin"]
            blob = await tools.call_tool("read_output", {"run_id": arguments["run_id"], "path": "work/a.bin"})
            assert base64.b64decode(blob.content[0].text.partition("\n\n")[2]) == bytes(range(256))
            missing = await tools.call_tool("read_output", {"run_id": arguments["run_id"], "path": "none.txt"})
            assert missing.is_error

    asyncio.run(work())


def test_pages_of_runs_hold_each_run_once_also_runs_of_one_moment(api: FakeApi) -> None:
    for name in ("Digest", "Other"):
        api.workflow(name, script=[complete()])
    client = api.client()
    newest = [client.runs.start(name).id for name in ["Digest"] * 5 + ["Other"]][::-1]
    assert len({run.summary()["created_at"] for run in api.runs.values()}) == 1
    assert client.runs.page(limit=4).next_cursor

    async def work() -> None:
        async with connected(api) as tools:
            assert await pages(tools, {"limit": 4}) == [newest[:4], newest[4:]]
            assert await pages(tools, {"limit": 2, "workflow": "Digest"}) == [newest[1:3], newest[3:5], newest[5:]]

    asyncio.run(work())


def test_a_piece_of_an_output_is_fetched_alone_and_ends_at_whole_characters(api: FakeApi) -> None:
    text = "aé€😀" * 15_000
    api.workflow("Digest", script=[complete(outputs={"work/a.txt": text})])

    async def work() -> None:
        async with connected(api) as connection:
            tools: Any = connection
            await tools.call_tool("digest", {})
            [run_id] = api.runs
            before = len([each for each in api.requests if each.path.endswith("/outputs")])
            place = {"run_id": run_id, "path": "work/a.txt"}
            read = await pieces(tools, place)
            assert len(read) == 4
            assert "".join(read) == text
            asked = [tuple(map(int, each.removeprefix("bytes=").split("-"))) for each in ranges(api) if each]
            assert len(asked) == 4
            assert all(last - first < 40_003 for first, last in asked)
            assert len([each for each in api.requests if each.path.endswith("/outputs")]) == before + 1
            size = len(text.encode())
            for offset in range(size - 10, size + 1):
                whole = text.encode()[:offset].decode(errors="ignore")
                assert await pieces(tools, {**place, "offset": offset}) == [text.removeprefix(whole)]
            with pytest.raises(MCPError, match=f"from 0 to {size}"):
                await tools.call_tool("read_output", {**place, "offset": size + 1})

    asyncio.run(work())


@pytest.mark.parametrize(
    ("name", "content", "is_text"),
    [
        ("a.txt", b"abc", True),
        ("a.txt", b"caf\xe9", False),
        ("a.json", b"{}", True),
        ("a.svg", b"<svg/>", True),
        ("unknown", b"abc", True),
        ("unknown", b"\xff\xfe", False),
        ("a.png", b"abc", False),
        ("unknown", b"a\0", False),
        ("empty.txt", b"", True),
    ],
)
def test_the_media_type_makes_an_output_text_where_it_is_utf_8_and_base64_otherwise(
    api: FakeApi, name: str, content: bytes, is_text: bool
) -> None:
    api.workflow("Digest", script=[complete(outputs={f"work/{name}": content})])

    async def work() -> tuple[Any, Any]:
        async with connected(api) as connection:
            tools: Any = connection
            await tools.call_tool("digest", {})
            [run_id] = api.runs
            piece = await tools.call_tool("read_output", {"run_id": run_id, "path": f"work/{name}"})
            resource = await tools.read_resource(f"workflow-output://{run_id}/work/{name}")
            return piece.content[0].text.partition("\n\n"), resource.contents[0]

    (head, _, piece), resource = asyncio.run(work())
    assert head.endswith("as text." if is_text else "in Base64.")
    assert piece == (content.decode() if is_text else base64.b64encode(content).decode())
    assert (resource.text if is_text else resource.blob) == piece
    assert resource.mime_type in head


def test_an_output_that_is_only_in_the_zip_or_too_large_for_a_resource_is_refused(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workflow_api_client.testing.calls.BUNDLE_ONLY_BYTES", 6_000_000)
    files = {"work/large.bin": bytes(5_000_001), "work/larger.bin": bytes(6_000_001)}
    api.workflow("Digest", script=[complete(outputs=files)])

    async def work() -> None:
        async with connected(api) as connection:
            tools: Any = connection
            await tools.call_tool("digest", {})
            [run_id] = api.runs
            for path in files:
                with pytest.raises(MCPError, match="at most 5000000"):
                    await tools.read_resource(f"workflow-output://{run_id}/{path}")
            assert ranges(api) == []
            refused = await tools.call_tool("read_output", {"run_id": run_id, "path": "work/larger.bin"})
            assert refused.is_error
            assert refused.structured_content["code"] == "use_bundle"
            assert refused.structured_content["details"]["bundle"].endswith("/outputs.zip")
            last = {"run_id": run_id, "path": "work/large.bin", "offset": 4_999_999}
            assert [base64.b64decode(each) for each in await pieces(tools, last)] == [bytes(2)]

    asyncio.run(work())


def test_many_outputs_are_listed_page_by_page(api: FakeApi) -> None:
    api.workflow("Many", script=[complete(outputs={f"work/{number:03}.txt": "a" for number in range(120)})])

    async def work() -> list[str]:
        paths: list[str] = []
        async with connected(api) as connection:
            tools: Any = connection
            state = (await tools.call_tool("many", {})).structured_content
            while True:
                paths += [each["path"] for each in state["outputs"]]
                if "outputs_rest" not in state:
                    return paths
                following = state["outputs_rest"]
                state = (await tools.call_tool(following["tool"], following["arguments"])).structured_content

    assert asyncio.run(work()) == [f"work/{number:03}.txt" for number in range(120)]
