"""Forms with files: what of them is handed on, and what is refused."""

import socket
from collections.abc import Callable, Mapping

import pytest

from contract.refusals import Refusal
from tests.support.browsing import Seen
from tests.unit.console.conftest import Desk
from workflow_api.v1.uploads_pb2 import AppendToUploadRequest, AppendToUploadResponse, Upload, UploadedFile

ATTACH = "/attach"
_BOUNDARY = "b0undary"


def multipart(*parts: tuple[str, str | None, bytes]) -> bytes:
    """Parts as name, file name and content."""
    lines = []
    for name, file_name, content in parts:
        file = "" if file_name is None else f'; filename="{file_name}"'
        head = f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"{file}\r\n\r\n'
        lines.append(head.encode() + content + b"\r\n")
    return b"".join(lines) + f"--{_BOUNDARY}--\r\n".encode()


def send(desk: Desk, *parts: tuple[str, str | None, bytes], token: str | None = "") -> Seen:
    ann = desk.browser("ann")
    own = ann.get("/keys").token if token == "" else token
    first: tuple[tuple[str, str | None, bytes], ...] = () if own is None else (("csrf", None, own.encode()),)
    return ann.send("POST", ATTACH, multipart(*first, *parts), _headers(desk))


def _headers(desk: Desk) -> Mapping[str, str]:
    origin = f"http://127.0.0.1:{desk.console.port}"
    return {"Origin": origin, "Content-Type": f"multipart/form-data; boundary={_BOUNDARY}"}


class Staged:
    """What the backend was given."""

    def __init__(self, desk: Desk) -> None:
        self.parts: list[AppendToUploadRequest] = []
        self.finished = 0
        self.removed = 0
        self.refusal: Refusal | None = None
        self.refusals: list[Refusal] = []
        self.busy: list[Refusal] = []
        answers = desk.channel.answers
        answers["/workflow_api.v1.UploadsService/BeginUpload"] = lambda _: Upload(upload_id="upl_1")
        answers["/workflow_api.v1.UploadsService/AppendToUpload"] = self._append
        answers["/workflow_api.v1.UploadsService/FinishUploadedFile"] = self._finish
        answers["/workflow_api.v1.UploadsService/RemoveUploadedFile"] = self._remove

    def _append(self, request: AppendToUploadRequest) -> AppendToUploadResponse:
        if self.refusals:
            raise self.refusals.pop(0)
        if self.refusal is not None:
            raise self.refusal
        copy = AppendToUploadRequest()
        copy.CopyFrom(request)
        self.parts.append(copy)
        return AppendToUploadResponse()

    def _finish(self, _: object) -> UploadedFile:
        if self.busy:
            raise self.busy.pop()
        self.finished += 1
        return UploadedFile()

    def _remove(self, _: object) -> Upload:
        self.removed += 1
        return Upload()


@pytest.fixture
def staged(desk: Desk) -> Staged:
    return Staged(desk)


def test_files_are_handed_on_in_parts_of_one_mebibyte(desk: Desk, staged: Staged) -> None:
    content = bytes(range(256)) * 8_192 + b"rest"
    answer = send(
        desk,
        ("text", None, b"1\r\n2"),
        ("files.documents", "a.csv", content),
        ("files.uploads", "", b""),
        ("files.uploads", "folder/tablé.txt", b""),
    )
    assert answer.status == 303
    assert [(part.parameter, part.name, part.offset, len(part.data)) for part in staged.parts] == [
        ("documents", "a.csv", 0, 1_048_576),
        ("documents", "a.csv", 1_048_576, 1_048_576),
        ("documents", "a.csv", 2_097_152, 4),
        ("uploads", "tablé.txt", 0, 0),
    ]
    assert b"".join(part.data for part in staged.parts) == content
    assert len({part.number for part in staged.parts}) == staged.finished == 2
    assert desk.visits[-1].form == {"text": ["1\n2"], "upload": ["upl_1"]}


def test_a_field_that_comes_twice_is_refused_before_the_files_that_follow(desk: Desk, staged: Staged) -> None:
    seen = len(desk.visits)
    answer = send(desk, ("once", None, b"a"), ("once", None, b"b"), ("files.uploads", "a", b"x"))
    assert (answer.status, staged.parts) == (400, [])
    assert "The field once is in this form more than once" in answer.words
    assert len(desk.visits) == seen + 1


def test_files_go_to_the_upload_that_the_form_names(desk: Desk, staged: Staged) -> None:
    send(desk, ("upload", None, b"upl_7"), ("files.uploads", "a", b"x"))
    assert [part.upload_id for part in staged.parts] == ["upl_7"]
    assert desk.visits[-1].form == {"upload": ["upl_7"]}


def test_a_file_that_is_refused_is_read_to_its_end_and_said_at_its_field(desk: Desk, staged: Staged) -> None:
    staged.refusal = Refusal("invalid_request", details=[{"name": "file", "reason": "'a' has more than 10 bytes"}])
    assert send(desk, ("files.uploads", "a", bytes(3_000_000)), ("after", None, b"y")).status == 303
    assert desk.visits[-1].refused_files == {"files.uploads": "'a' has more than 10 bytes."}
    assert desk.visits[-1].form["after"] == ["y"]
    assert (staged.finished, staged.removed) == (0, 1)


def test_each_reason_is_said_once_and_only_the_first_few(desk: Desk, staged: Staged) -> None:
    staged.refusal = Refusal("invalid_request", details=[{"name": "file", "reason": "there are too many"}])
    send(desk, *[("files.uploads", "a", b"x")] * 50)
    assert desk.visits[-1].refused_files == {"files.uploads": "there are too many."}
    for place in range(12):
        reason = f"'{place}' is bad"
        staged.refusals.append(Refusal("invalid_request", details=[{"name": "file", "reason": reason}]))
    send(desk, *[("files.uploads", "a", b"x")] * 12)
    said = desk.visits[-1].refused_files["files.uploads"]
    assert (said.count("is bad"), "Others are not taken" in said) == (10, True)


def test_a_zip_waits_for_others_and_then_says_at_its_field_to_try_again(
    desk: Desk, staged: Staged, monkeypatch: pytest.MonkeyPatch
) -> None:
    staged.busy = [Refusal("rate_limited", "'a.zip' must wait; try again.", retry_after=1)]
    send(desk, ("files.uploads", "a.zip", b"x"))
    assert (desk.visits[-1].refused_files, staged.finished, staged.removed) == ({}, 1, 0)
    monkeypatch.setattr("console.forms.staging.WAIT_SECONDS", 0.0)
    staged.busy = [Refusal("rate_limited", "'a.zip' must wait; try again.", retry_after=1)]
    send(desk, ("files.uploads", "a.zip", b"x"))
    assert desk.visits[-1].refused_files == {"files.uploads": "'a.zip' must wait; try again."}
    assert (staged.finished, staged.removed) == (1, 1)


def test_more_files_than_a_start_may_have_are_refused_in_words(
    desk: Desk, staged: Staged, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.forms.multipart.MOST_FILES", 2)
    assert send(desk, *[("files.uploads", name, b"x") for name in "ab"]).status == 303
    answer = send(desk, *[("files.uploads", name, b"x") for name in "abc"])
    assert answer.status == 400
    assert "A form may have 2 files" in answer.text
    assert staged.finished == 4


@pytest.mark.parametrize("token", [None, "0" * 64])
def test_nothing_of_a_form_without_the_token_is_handed_on(desk: Desk, staged: Staged, token: str | None) -> None:
    seen = len(desk.visits)
    assert send(desk, ("files.uploads", "a", b"x"), token=token).status == 403
    assert (staged.parts, len(desk.visits)) == ([], seen)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"nothing", 400),
        (f"--{_BOUNDARY}\r\nContent-Disposition: form-data\r\n\r\nx\r\n--{_BOUNDARY}--\r\n".encode(), 400),
        (multipart(("a", None, b"\xff")), 400),
        (multipart(*[("a", None, b"b")] * 2_001), 400),
        (multipart(("a", None, bytes(1_048_577))), 413),
        (multipart(("a", None, b"x"))[:-20], 400),
    ],
    ids=["no parts", "no name", "no UTF-8", "too many fields", "too large", "cut off"],
)
def test_a_malformed_form_is_refused(desk: Desk, body: bytes, status: int) -> None:
    assert desk.browser("ann").send("POST", ATTACH, body, _headers(desk)).status == status


def test_a_page_that_takes_no_files_refuses_a_form_with_files(desk: Desk) -> None:
    body = multipart(("csrf", None, b"x"))
    assert desk.browser("ann").send("POST", "/keys/ak_1/rename", body, _headers(desk)).status == 415


def test_a_form_that_stalls_or_is_too_large_is_refused_and_its_connection_closed(start: Callable[..., Desk]) -> None:
    desk = start(stall_seconds=0.2)
    head = (
        f"POST {ATTACH} HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: session={desk.channel.begin('ann')}\r\n"
        f"Content-Type: multipart/form-data; boundary={_BOUNDARY}\r\n"
    )
    for length, status in {100: b"408", 700_000_000: b"413"}.items():
        with socket.create_connection(("127.0.0.1", desk.console.port), timeout=60) as slow:
            slow.sendall(f"{head}Content-Length: {length}\r\n\r\n--{_BOUNDARY}\r\n".encode())
            assert b"".join(iter(lambda: slow.recv(65536), b"")).startswith(b"HTTP/1.1 " + status)
