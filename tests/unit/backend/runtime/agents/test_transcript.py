"""The messages between an attempt and its model as text."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backend.runtime.agents.transcript import Transcript
from tests.support.openai_server import OpenAIServer, Reply, ToolCall
from tests.unit.backend.runtime.agents.provider import KEY, ProviderFixture

DOCUMENT = (Path(__file__).parents[5] / "docs" / "agents.md").read_text(encoding="utf-8")
SCHEMA = {"type": "object", "required": ["words"], "properties": {"words": {"type": "integer", "minimum": 0}}}
ENDED = re.compile(r"^--- \d+ tokens in, \d+ out, \w+$", re.MULTILINE)


class Kept:
    """A transcript with the pieces in which it came."""

    def __init__(self, limit: int = 1_000_000) -> None:
        self.pieces: list[bytes] = []
        self.transcript = Transcript(limit, self.pieces.append)

    @property
    def text(self) -> str:
        return self.transcript.content().decode()


@pytest.fixture
def kept() -> Kept:
    return Kept()


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    server = OpenAIServer()
    yield server
    server.close()


@pytest.fixture(params=["openai:gpt-5", "openai-chat:gpt-5"])
def model(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=[False, True], ids=["whole", "streamed"])
def asked(server: OpenAIServer, tmp_path: Path, model: str, request: pytest.FixtureRequest) -> ProviderFixture:
    return ProviderFixture(server, tmp_path, model, request.param)


@pytest.fixture
def once(server: OpenAIServer, tmp_path: Path) -> ProviderFixture:
    return ProviderFixture(server, tmp_path)


def test_a_transcript_is_documented_as_it_is(once: ProviderFixture, kept: Kept) -> None:
    once.ask(
        Reply(calls=(ToolCall("list_files", {}),)),
        Reply("Two words."),
        agent={"tools": ["files"]},
        input_text="one two",
        transcript=kept.transcript,
    )
    assert f"```text\n{kept.text}```" in DOCUMENT


def test_a_transcript_has_the_messages_in_their_order(asked: ProviderFixture, kept: Kept) -> None:
    asked.ask(
        Reply("Let me see.", calls=(ToolCall("list_files", {}),)),
        Reply(calls=(ToolCall("final_result", {"words": -1}),)),
        Reply(calls=(ToolCall("final_result", {"words": 2}),)),
        agent={"tools": ["files"], "output_schema": SCHEMA},
        transcript=kept.transcript,
    )
    headings = [line[4:] for line in ENDED.sub("--- end", kept.text).splitlines() if line.startswith("--- ")]
    assert headings == [
        *("instructions", "user", "answer", "call of list_files", "end", "result of list_files"),
        *("answer", "end", "correction", "answer", "end"),
    ]
    assert "  Let me see.\n" in kept.text
    assert re.search(
        r'--- correction\n  The answer does not fit its schema at \$\.words: -1 .*\n--- answer\n  {"words":', kept.text
    )
    assert kept.text == b"".join(kept.pieces).decode()


def test_no_message_passes_for_another(asked: ProviderFixture, kept: Kept) -> None:
    asked.ask(Reply("a\n--- user\n  forged"), input_text="b\n--- answer\nforged", transcript=kept.transcript)
    assert kept.text.count("\n--- user\n") == kept.text.count("\n--- answer\n") == 1
    assert "\n  --- user\n    forged\n" in kept.text


def test_a_streamed_answer_is_passed_on_in_pieces(server: OpenAIServer, tmp_path: Path, model: str, kept: Kept) -> None:
    ProviderFixture(server, tmp_path, model, stream=True).ask(Reply("word " * 100), transcript=kept.transcript)
    assert len([piece for piece in kept.pieces if b"word" in piece]) > 10
    assert "word " * 100 in kept.text


def test_the_transcript_of_a_failed_attempt_has_what_came(asked: ProviderFixture, kept: Kept) -> None:
    asked.failure(
        Reply(calls=(ToolCall("list_files", {}),)),
        Reply(status=500),
        agent={"tools": ["files"]},
        transcript=kept.transcript,
    )
    assert "--- result of list_files\n" in kept.text


def test_a_broken_stream_leaves_what_came(server: OpenAIServer, tmp_path: Path, kept: Kept) -> None:
    asked = ProviderFixture(server, tmp_path, "openai-chat:gpt-5", stream=True)
    asked.failure(Reply("half of an answer that breaks", cut=True), transcript=kept.transcript)
    assert "--- answer\n  half of" in kept.text
    assert kept.text.endswith("\n")


def test_the_key_is_not_in_a_transcript(asked: ProviderFixture, kept: Kept) -> None:
    calling = Reply(calls=(ToolCall(KEY, {"key": KEY}),))
    asked.ask(calling, Reply(f"Your key is {KEY}."), agent={"tools": ["files"]}, transcript=kept.transcript)
    assert kept.text.count("[secret]") > 2
    assert KEY not in kept.text


def test_a_long_transcript_is_cut_in_the_middle(once: ProviderFixture) -> None:
    kept = Kept(2_000)
    once.ask(Reply("x" * 10_000 + "the end"), transcript=kept.transcript)
    assert len(kept.text) <= 2_000
    assert re.search(r"\n\[\d+ bytes of the log are cut here\]\n", kept.text)
    assert kept.text.startswith("--- instructions\n")
    assert "the end\n" in kept.text


@pytest.mark.parametrize("content", [None, 7, ["a", {"b": 1}], {"a": "\ud800"}, {"a": {1, 2}}])
def test_any_content_becomes_text(content: Any) -> None:
    from pydantic_ai.messages import ModelRequest, ToolReturnPart

    from backend.common.secret_scrubbing import Scrubber
    from backend.runtime.agents.transcript import TranscriptWriter

    kept = Kept()
    TranscriptWriter(kept.transcript, Scrubber([])).finish([ModelRequest([ToolReturnPart("odd\n--- user", content)])])
    assert "\n--- user" not in kept.text


def test_of_attached_bytes_name_type_size_and_digest_are_kept() -> None:
    from pydantic_ai.messages import BinaryContent, ModelRequest, UserPromptPart

    from backend.common.secret_scrubbing import Scrubber
    from backend.runtime.agents.transcript import TranscriptWriter

    kept = Kept()
    prompt = UserPromptPart(
        ["See this.", BinaryContent(b"12345", media_type="image/png", identifier="inputs/uploads/a.png")]
    )
    TranscriptWriter(kept.transcript, Scrubber([])).finish([ModelRequest([prompt])])
    digest = "5994471abb01112afcc18159f6cc74b4f511b99806da59b3caf5a9c173cacfc5"
    assert kept.text == f"--- user\n  See this.\n  [inputs/uploads/a.png, image/png, 5 bytes, sha256 {digest}]\n"
