"""Files of an approval that waits: their bytes as the PII policy leaves them, pictures, pages, and rows of tables."""

import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from backend.common import json_text
from backend.common.errors import ApiError, invalid
from backend.common.states import ApprovalState
from backend.resources.redaction.confined_redactor import ConfinedRedactor, RedactionError
from backend.resources.renderings.renderer import LARGEST_PDF, LARGEST_PICTURE, PAGE_SECONDS, Renderer
from backend.services.outputs import sql as outputs_sql
from backend.services.reviews import sql
from backend.services.reviews.material import copy_name, table_message
from backend.services.runs import approvals_sql
from backend.services.runs.approvals import approval_not_found
from backend.storage.database import Database, Tx
from backend.storage.object_keys import object_key
from backend.storage.objects import ObjectStore
from backend.storage.objects.interface import copy_to_file
from backend.storage.tables.files import OutputRow
from workflow_api.v1 import errors_pb2, outputs_pb2, reviews_pb2

PAGE_ROWS: Final = 100
"""Rows of a page of a table."""
LARGEST_TABLE: Final = 25_000_000
"""Bytes of the largest table whose rows can be paged, because all of it is read for each page."""

_PNG: Final = "image/png"
_PART: Final = 256 * 1024


class ReviewedFile(NamedTuple):
    """A file of an approval that waits, and the object that holds what people may see of it."""

    message: reviews_pb2.ReviewFile
    output: OutputRow
    key: str
    size_bytes: int
    key_id: str
    policy: str

    @property
    def file_name(self) -> str:
        """Name to save it as; swept, as the path of the message is."""
        return self.message.path.rpartition("/")[2]


class ReviewFiles:
    """Serves the files of reviews; `folder` is for copies of files while they are read."""

    def __init__(
        self,
        database: Database,
        objects: ObjectStore,
        redactor: ConfinedRedactor,
        renderer: Renderer,
        folder: Path,
        halt: threading.Event,
    ) -> None:
        self._database = database
        self._objects = objects
        self._redactor = redactor
        self._renderer = renderer
        self._folder = folder
        self._halt = halt

    def find(self, material: reviews_pb2.ReviewMaterial, approval_id: str, output_id: str) -> ReviewedFile:
        """Returns a file of the prepared material of an approval that waits.

        Raises:
            ApiError: `not_found`.
        """
        messages = (file for step in material.steps for file in step.files if file.output_id == output_id)
        message = next(messages, None)

        def read(tx: Tx) -> tuple[sql.ReviewedRunRow, OutputRow | None] | None:
            found = approvals_sql.find(tx, approval_id)
            if found is None or found.state != ApprovalState.PENDING:
                return None
            run = sql.reviewed_run(tx, approval_id)
            return run, outputs_sql.output(tx, run.run_id, output_id)

        found = self._database.snapshot(read)
        if found is None:
            raise approval_not_found(approval_id)
        run, output = found
        if message is None or output is None:
            raise _no_file(output_id)
        if not material.redacted:
            return ReviewedFile(message, output, output.object_key, output.size_bytes, run.key_id, run.pii_policy)
        key = object_key(run.run_id, copy_name(approval_id, output_id))
        return ReviewedFile(message, output, key, message.given_bytes, run.key_id, run.pii_policy)

    def parts(
        self, file: ReviewedFile, request: reviews_pb2.GetReviewFileRequest
    ) -> Iterator[reviews_pb2.GetReviewFileResponse]:
        """Yields a file in the form that was asked for: a header, then bytes.

        Raises:
            ApiError: `invalid_request` for a form or page that the file does not have; `runtime_error` where the file
                cannot be read.
        """
        match request.form:
            case reviews_pb2.REVIEW_FILE_FORM_PICTURE:
                yield from self._picture(file)
            case reviews_pb2.REVIEW_FILE_FORM_PAGE:
                yield from self._page(file, request.page)
            case _:
                yield from self._bytes(file, file.output.media_type)

    def rows(self, file: ReviewedFile, first: int) -> reviews_pb2.ReviewTable:
        """Returns rows of a table.

        Raises:
            ApiError: `invalid_request` for a file that is no table; `runtime_error` where it cannot be read.
        """
        if not file.message.HasField("table") or not file.message.table.HasField("rows_total"):
            raise invalid("output_id", "must name a table whose rows are counted")
        policy = {**json_text.parse(file.policy), "mode": "off", "model": None}
        with self._copy(file, LARGEST_TABLE) as source:
            try:
                found, _ = self._redactor.preview(
                    policy,
                    source,
                    file.output.path,
                    self._halt,
                    owner=file.key_id,
                    rows=PAGE_ROWS,
                    first=first,
                )
            except RedactionError as error:
                raise _unreadable(str(error)) from None
        if isinstance(found, str) or found.total is None:
            raise _unreadable("it is malformed, or too large")
        return table_message(found)

    def _bytes(self, file: ReviewedFile, media_type: str) -> Iterator[reviews_pb2.GetReviewFileResponse]:
        try:
            opened = self._objects.open_range(file.key, 0, file.size_bytes)
        except (KeyError, EOFError):
            raise _no_file(file.output.output_id) from None
        with closing(opened) as parts:
            yield _header(media_type, file.file_name, file.size_bytes)
            for part in parts:
                yield reviews_pb2.GetReviewFileResponse(data=part)

    def _picture(self, file: ReviewedFile) -> Iterator[reviews_pb2.GetReviewFileResponse]:
        if not file.message.picture:
            raise invalid("form", "must be a form that the file has: it is no picture that can be shown")
        with self._copy(file, LARGEST_PICTURE) as source, _in_time():
            found = self._renderer.picture(source, file.key_id, PAGE_SECONDS)
        if isinstance(found, str):
            raise _unreadable(found)
        # Its metadata stays: a policy that redacts shows no picture, any other lets the same people download the file
        # as it is, and the metadata of a photograph says which side is up.
        yield from self._bytes(file, found.media_type)

    def _page(self, file: ReviewedFile, number: int) -> Iterator[reviews_pb2.GetReviewFileResponse]:
        if not 1 <= number <= file.message.pages:
            raise invalid("page", f"must be one of the {file.message.pages} pages that can be shown")
        with self._copy(file, LARGEST_PDF) as source, _in_time():
            target = source.with_name("page")
            if not self._renderer.page(source, target, number, file.key_id, PAGE_SECONDS):
                raise _unreadable(f"page {number} cannot be drawn")
            content = target.read_bytes()
        yield _header(_PNG, f"{file.file_name}-{number}.png", len(content))
        for start in range(0, len(content), _PART):
            yield reviews_pb2.GetReviewFileResponse(data=content[start : start + _PART])

    @contextmanager
    def _copy(self, file: ReviewedFile, most: int) -> Iterator[Path]:
        """Makes a copy of a file of at most `most` bytes that lasts while it is used."""
        if file.size_bytes > most:
            raise _unreadable(f"it has more than {most:,} bytes")
        self._folder.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(dir=self._folder))
        try:
            source = scratch / "source"
            try:
                copy_to_file(self._objects, file.key, file.size_bytes, source)
            except (KeyError, EOFError):
                raise _no_file(file.output.output_id) from None
            yield source
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def _header(media_type: str, file_name: str, size: int) -> reviews_pb2.GetReviewFileResponse:
    header = outputs_pb2.DownloadHeader(media_type=media_type, file_name=file_name, size_bytes=size, length=size)
    return reviews_pb2.GetReviewFileResponse(header=header)


def _no_file(output_id: str) -> ApiError:
    return ApiError(errors_pb2.ERROR_REASON_NOT_FOUND, f"The approval shows no file {output_id}.")


@contextmanager
def _in_time() -> Iterator[None]:
    """Refuses a rendering that does not end in time."""
    try:
        yield
    except TimeoutError:
        raise _unreadable("its preview is not available now, because others are being made; try again") from None


def _unreadable(reason: str) -> ApiError:
    return ApiError(errors_pb2.ERROR_REASON_RUNTIME_ERROR, f"The file cannot be shown: {reason.rstrip('.')}.")
