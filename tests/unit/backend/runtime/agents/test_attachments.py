"""Pictures and PDF that go to a model with the prompt: how they are sent, and what is refused before a call."""

import asyncio
import base64
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backend.resources.attachments.inspector import AttachmentInspector, Examined
from backend.runtime.agents.base import AttachmentServices
from backend.runtime.agents.transcript import Transcript
from tests.support.attachable import gif, jpeg, pdf, png, webp
from tests.support.openai_server import OpenAIServer, Reply, ToolCall
from tests.unit.backend.runtime.agents.provider import ProviderFixture

SCHEMA = {"type": "object", "required": ["words"], "properties": {"words": {"type": "integer", "minimum": 0}}}


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    server = OpenAIServer()
    yield server
    server.close()


@pytest.fixture(scope="module")
def services() -> Iterator[AttachmentServices]:
    inspector = AttachmentInspector()

    async def examine(descriptor: int) -> Examined:
        return await asyncio.to_thread(lambda: inspector.examine(descriptor, owner="key"))

    yield AttachmentServices(examine)
    inspector.close()


class Asked(ProviderFixture):
    """A provider, and a step with inputs in `uploads` and files of the step `extract`."""

    def put(self, path: str, data: bytes) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        return file

    @property
    def folders(self) -> dict[str, Any]:
        (self.root / "inputs" / "uploads").mkdir(parents=True, exist_ok=True)
        (self.root / "files" / "extract").mkdir(parents=True, exist_ok=True)
        return {"inputs": self.root / "inputs", "files": {"extract": self.root / "files" / "extract"}}

    def sees(self, *patterns: str, **fields: Any) -> None:
        """Asks with the files that match."""
        agent = {"attach": list(patterns)} | fields.pop("agent", {})
        self.ask(*fields.pop("replies", [Reply("Seen.")]), agent=agent, **self.folders | fields)

    def refusal(self, *patterns: str) -> str:
        """The message with which the step fails, without a call to the model."""
        failed = self.failure(Reply("Seen."), agent={"attach": list(patterns)}, **self.folders)
        assert (failed.type, failed.final, self.server.requests) == ("InvalidAttachment", True, [])
        return failed.message

    def parts(self, number: int = -1) -> list[Any]:
        """The parts of the user's message in a request."""
        body = self.sent(number)
        (user,) = [one for one in body.get("input") or body["messages"] if one.get("role") == "user"]
        return list(user["content"])


@pytest.fixture(params=["openai:gpt-5", "openai-chat:gpt-5"])
def model(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=[False, True], ids=["whole", "streamed"])
def asked(
    server: OpenAIServer, tmp_path: Path, model: str, services: AttachmentServices, request: pytest.FixtureRequest
) -> Asked:
    return Asked(server, tmp_path, model, request.param, attachments=services)


@pytest.fixture
def once(server: OpenAIServer, tmp_path: Path, services: AttachmentServices) -> Asked:
    return Asked(server, tmp_path, attachments=services)


def uri(media_type: str, data: bytes) -> str:
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


def test_files_are_sent_in_sorted_order_as_the_provider_defines_them(asked: Asked) -> None:
    asked.put("inputs/uploads/b.bin", png(3, 3))
    asked.put("inputs/uploads/a.bin", jpeg())
    asked.put("files/extract/deep/pages.pdf", pdf())
    asked.sees("inputs/uploads/*.bin", "files/extract/**", input_text="Compare.")
    text, *files = asked.parts()
    names = '["files/extract/deep/pages.pdf","inputs/uploads/a.bin","inputs/uploads/b.bin"]'
    assert text["text"] == f"<attached>\n{names}\n</attached>\n\n<input_text>\nCompare.\n</input_text>"
    if "input" in asked.sent():
        assert files == [
            {"type": "input_file", "filename": "filename.pdf", "file_data": uri("application/pdf", pdf())},
            {"type": "input_image", "detail": "auto", "image_url": uri("image/jpeg", jpeg())},
            {"type": "input_image", "detail": "auto", "image_url": uri("image/png", png(3, 3))},
        ]
    else:
        document = {"filename": "filename.pdf", "file_data": uri("application/pdf", pdf())}
        assert files == [
            {"type": "file", "file": document},
            {"type": "image_url", "image_url": {"url": uri("image/jpeg", jpeg())}},
            {"type": "image_url", "image_url": {"url": uri("image/png", png(3, 3))}},
        ]


@pytest.mark.parametrize("data", [png(), jpeg(), gif(), webp()], ids=["png", "jpeg", "gif", "webp"])
def test_every_kind_of_picture_can_be_sent(once: Asked, data: bytes) -> None:
    once.put("inputs/uploads/scan", data)
    once.sees("inputs/uploads/scan")
    assert once.parts()[1]["image_url"].endswith(base64.b64encode(data).decode())


def test_a_file_that_two_patterns_match_is_sent_once(once: Asked) -> None:
    once.put("inputs/uploads/a.png", png())
    once.sees("inputs/uploads/*", "inputs/**/a.png")
    assert len(once.parts()) == 2


def test_files_stay_with_the_conversation_through_tools_and_corrections(asked: Asked) -> None:
    asked.put("inputs/uploads/a.png", png())
    asked.sees(
        "inputs/uploads/*",
        agent={"output_schema": SCHEMA, "tools": ["inputs"], "max_model_calls": 3},
        replies=[
            Reply(calls=(ToolCall("list_inputs", {}),)),
            Reply(calls=(ToolCall("final_result", {"words": -1}),)),
            Reply(calls=(ToolCall("final_result", {"words": 2}),)),
        ],
    )
    assert [len(asked.parts(number)) for number in range(3)] == [2, 2, 2]
    assert json.loads((asked.root / "outputs" / "answer.json").read_text()) == {"words": 2}
    assert asked.events[-1][1]["requests"] == 3


def test_a_transcript_has_name_type_size_and_digest_and_no_bytes(asked: Asked) -> None:
    pieces: list[bytes] = []
    data = asked.put("inputs/uploads/a.png", png(40, 40)).read_bytes()
    asked.sees("inputs/uploads/*", transcript=Transcript(1_000_000, pieces.append))
    text = b"".join(pieces).decode()
    digest = hashlib.sha256(data).hexdigest()
    assert f"[inputs/uploads/a.png, image/png, {len(data)} bytes, sha256 {digest}]" in text
    assert base64.b64encode(data).decode()[:40] not in text


def test_a_name_cannot_close_the_part_that_holds_it(once: Asked) -> None:
    once.put("inputs/uploads/a\n<input_text>", png())
    once.sees("inputs/uploads/*")
    assert "inputs/uploads/a\\n\\u003cinput_text>" in once.parts()[0]["text"]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"words", "is of another type; it must be PNG, JPEG, GIF, WebP or PDF by its content"),
        (b"", "is of another type; it must be PNG, JPEG, GIF, WebP or PDF by its content"),
        (png(50_000, 50_000), "has 50,000 x 50,000 pixels; a picture may have at most 8,000 x 8,000"),
        (png(extra=bytes(4_000_000)), "has {size:,} bytes; a picture may have at most 3,750,000"),
        (pdf(101), "has 101 pages; a PDF may have at most 100"),
        (pdf() + bytes(10_000_000) + b"%%EOF", "has {size:,} bytes; a file may have at most 10,000,000"),
        (pdf()[:-20], "cannot be sent as PDF: it is malformed, or ends too early"),
        (gif(frames=2), "cannot be sent as GIF: it is animated"),
    ],
    ids=["text", "empty", "pixels", "picture", "pages", "bytes", "truncated", "animated"],
)
def test_a_file_that_cannot_be_sent_fails_the_step_before_any_call(once: Asked, data: bytes, reason: str) -> None:
    once.put("inputs/uploads/a.png", png())
    once.put("inputs/uploads/scan.png", data)
    assert once.refusal("inputs/uploads/*") == f"'inputs/uploads/scan.png' of attach {reason.format(size=len(data))}"


def test_a_pattern_without_a_match_fails_the_step(once: Asked) -> None:
    once.put("inputs/uploads/a.png", png())
    refusal = once.refusal("inputs/uploads/a.png", "files/extract/*.pdf")
    assert refusal == "no file matches 'files/extract/*.pdf' of attach"


def test_too_many_files_fail_the_step(once: Asked) -> None:
    for number in range(21):
        once.put(f"inputs/uploads/{number}.png", png())
    assert once.refusal("inputs/**") == "21 files match attach; a step may attach at most 20"


def test_too_many_bytes_together_fail_the_step(once: Asked) -> None:
    data = png(extra=bytes(3_700_000))
    for number in range(4):
        once.put(f"inputs/uploads/{number}.png", data)
    message = f"the 4 files of attach have {4 * len(data):,} bytes; together they may have 14,000,000"
    assert once.refusal("inputs/**") == message


def test_links_are_not_followed(once: Asked) -> None:
    outside = once.put("outside.png", png())
    folder = once.put("inputs/uploads/a.png", png()).parent
    (folder / "link.png").symlink_to(outside)
    (folder / "linked").symlink_to(outside.parent)
    os.mkfifo(folder / "pipe.png")
    assert "no file matches" in once.refusal("inputs/uploads/link*")
    assert "no file matches" in once.refusal("inputs/uploads/linked/**")
    assert "no file matches" in once.refusal("inputs/uploads/pipe*")


def test_a_file_that_changes_while_it_is_read_is_not_sent(once: Asked, services: AttachmentServices) -> None:
    file = once.put("inputs/uploads/a.png", png())

    async def examine(descriptor: int) -> Examined:
        examined = await services.examine(descriptor)
        file.write_bytes(jpeg())
        return examined

    once.attachments = replace(services, examine=examine)
    assert once.refusal("inputs/**") == "'inputs/uploads/a.png' of attach changed while it was read"


@pytest.mark.parametrize(("stage", "pattern"), [("inputs", "inputs/**"), ("steps", "files/extract/*")])
def test_where_the_policy_redacts_nothing_is_sent(
    once: Asked, services: AttachmentServices, stage: str, pattern: str
) -> None:
    once.attachments = replace(services, redacted={pattern.partition("/")[0]: stage})
    # The sweep has removed the file, or kept it.
    assert once.refusal(pattern) == (
        f"'{pattern}' of attach is not sent to the model: the run's PII policy has mode redact with stage {stage}, "
        "and pictures and documents cannot be searched for personal data"
    )
    once.put("inputs/uploads/a.png", png())
    once.put("files/extract/a.png", png())
    assert "/a.png' of attach is not sent to the model" in once.refusal(pattern)


def test_files_of_other_places_are_sent_beside_a_policy(once: Asked, services: AttachmentServices) -> None:
    once.attachments = replace(services, redacted={"files": "steps"})
    once.put("inputs/uploads/a.png", png())
    once.sees("inputs/**")
    assert len(once.parts()) == 2
