"""PreviewsService over gRPC: swept inputs, values and files of a run, for people."""

import threading
from pathlib import Path
from typing import Final

import grpc

from backend.common.caches import RecentValues
from backend.common.errors import ApiError
from backend.common.states import RUN_TERMINAL
from backend.resources.redaction.confined_redactor import ConfinedRedactor, RedactionError
from backend.resources.renderings.renderer import MOST_MARKDOWN_CHARS, PAGE_SECONDS, Renderer
from backend.rpc.callers import principal_of
from backend.services.dependencies import Services
from backend.services.outputs import sql as outputs_sql
from backend.services.outputs.rules import require_open
from backend.services.previews import sql
from backend.services.previews.files import FilePreviews
from backend.services.previews.values import MOST_FILES, InputPreviews, ShownStep, needs_sweep, step_preview
from backend.services.reviews.preparations import Preparations
from backend.services.reviews.sweeping import ReviewSweep
from backend.services.runs.reads import find_logged, find_state
from backend.storage.database import Tx
from backend.storage.objects import ObjectStore
from backend.storage.tables.files import OutputRow
from redaction.formats.preview import FilePreview
from workflow_api.v1 import errors_pb2, previews_pb2, previews_pb2_grpc
from workflow_api.v1.reviews_pb2 import ReviewFile, ReviewRow, ReviewTable, ReviewText

_MOST_SWEPT_BYTES: Final = 8_000_000
_MARKDOWN: Final = "text/markdown"


class Previews:
    """Shows people inputs and products of runs; `folder` is for copies of files while they are read."""

    def __init__(self, services: Services, objects: ObjectStore, redactor: ConfinedRedactor, folder: Path) -> None:
        self._database = services.database
        self._redactor = redactor
        self._files = FilePreviews(objects, redactor, folder)
        self._preparations = Preparations[previews_pb2.StepPreview]("preview")
        # Sweeps may ask a model, and a page asks for the same step again and again.
        self._swept = RecentValues[str, previews_pb2.StepPreview](lambda made: made.ByteSize(), _MOST_SWEPT_BYTES)
        self._halt = threading.Event()
        self._renderer = Renderer(self._halt)
        self.inputs = InputPreviews(services, objects, redactor, self._halt)

    def step(self, request: previews_pb2.GetStepPreviewRequest) -> previews_pb2.StepPreview:
        """Returns the value and the files of a step.

        Raises:
            ApiError: as `find_logged`; `not_found` for a step that the run does not have.
        """
        shown = self._database.snapshot(lambda tx: _shown_step(tx, request.run_id, request.step))
        sweep = ReviewSweep(self._database, self._redactor, shown.run, self._halt)
        if not needs_sweep(shown, sweep):
            return step_preview(shown, sweep)
        made = self._swept.get(shown.cache_key)
        if made is not None:
            return made
        try:
            made = self._preparations.result(shown.cache_key, lambda: step_preview(shown, sweep))
        except RedactionError as error:
            problem = f"It could not be swept for personal data, so nothing of it is shown: {error}."
            return previews_pb2.StepPreview(problem=problem)
        if made is None:
            return previews_pb2.StepPreview(preparing=True)
        self._swept.put(shown.cache_key, made)
        return made

    def output(self, request: previews_pb2.GetOutputPreviewRequest) -> previews_pb2.OutputPreview:
        """Returns the beginning of an output.

        Raises:
            ApiError: as `require_open`; `output_not_found`.
        """

        def read(tx: Tx) -> tuple[sql.PreviewedRunRow, OutputRow | None]:
            require_open(tx, request.run_id, None)
            return sql.run(tx, request.run_id), outputs_sql.output(tx, request.run_id, request.output_id)

        run, output = self._database.snapshot(read)
        if output is None:
            raise ApiError(errors_pb2.ERROR_REASON_OUTPUT_NOT_FOUND)
        try:
            found = self._files.preview(run, output)
        except KeyError:
            raise ApiError(errors_pb2.ERROR_REASON_OUTPUT_NOT_FOUND) from None
        preview = previews_pb2.OutputPreview(file=_file(output, found))
        if output.media_type == _MARKDOWN and preview.file.HasField("text"):
            html = self._html(preview.file.text.text, run.key_id)
            if html is not None:
                preview.html = html
                preview.file.text.cut |= len(preview.file.text.text) > MOST_MARKDOWN_CHARS
        return preview

    def summary(self, request: previews_pb2.GetSummaryPreviewRequest) -> previews_pb2.SummaryPreview:
        """Returns the beginning of a run's summary as HTML; raises ApiError `run_not_found`."""

        def read(tx: Tx) -> sql.PreviewedRunRow:
            find_state(tx, request.run_id, None)
            return sql.run(tx, request.run_id)

        run = self._database.snapshot(read)
        text = run.summary_markdown if run.redaction_state != "pending" else None
        if text is None:
            return previews_pb2.SummaryPreview()
        html = self._html(text, run.key_id)
        return previews_pb2.SummaryPreview(html=html, cut=len(text) > MOST_MARKDOWN_CHARS)

    def _html(self, text: str, owner: str) -> str | None:
        """Returns the beginning of Markdown as HTML; None where people are shown its text, now or always."""
        try:
            return self._renderer.markdown(text, owner, PAGE_SECONDS)
        except TimeoutError:
            return None

    def close(self) -> None:
        """Ends the previews under way. Idempotent."""
        self._halt.set()
        self._preparations.close()
        self.inputs.close()
        self._files.close()
        self._renderer.close()


def _shown_step(tx: Tx, run_id: str, handle: str) -> ShownStep:
    find_logged(tx, run_id, None)
    run, step = sql.run(tx, run_id), sql.step(tx, run_id, handle)
    if step is None:
        raise ApiError(errors_pb2.ERROR_REASON_NOT_FOUND, f"Run {run_id} has no step {handle}.")
    files = [output for output in outputs_sql.outputs_of(tx, run_id) if output.step == handle]
    released = run.status in RUN_TERMINAL and run.redaction_state != "pending"
    return ShownStep(run, step, files[:MOST_FILES], len(files), released)


def _file(output: OutputRow, found: FilePreview | str) -> ReviewFile:
    file = ReviewFile(path=output.path, media_type=output.media_type, size_bytes=output.size_bytes)
    if isinstance(found, str):
        file.problem = found
    elif found.text is not None:
        file.text.CopyFrom(ReviewText(text=found.text, cut=found.cut))
    else:
        rows = [ReviewRow(cells=row) for row in found.rows]
        file.table.CopyFrom(ReviewTable(columns=found.columns, rows=rows, cut=found.cut))
    return file


class PreviewsServicer(previews_pb2_grpc.PreviewsServiceServicer):
    """Shows people inputs, values and files of runs."""

    def __init__(self, previews: Previews) -> None:
        self._previews = previews

    def GetRunInputs(
        self, request: previews_pb2.GetRunInputsRequest, context: grpc.ServicerContext
    ) -> previews_pb2.RunInputs:
        """Returns the inputs of a run, swept."""
        return self._previews.inputs.swept(request.run_id)

    def RevealRunInputs(
        self, request: previews_pb2.RevealRunInputsRequest, context: grpc.ServicerContext
    ) -> previews_pb2.RunInputs:
        """Returns the inputs of a run, unswept."""
        return self._previews.inputs.reveal(request.run_id, principal_of(context).audit_name)

    def GetStepPreview(
        self, request: previews_pb2.GetStepPreviewRequest, context: grpc.ServicerContext
    ) -> previews_pb2.StepPreview:
        """Returns the value and the files of a step."""
        return self._previews.step(request)

    def GetOutputPreview(
        self, request: previews_pb2.GetOutputPreviewRequest, context: grpc.ServicerContext
    ) -> previews_pb2.OutputPreview:
        """Returns the beginning of an output."""
        return self._previews.output(request)

    def GetSummaryPreview(
        self, request: previews_pb2.GetSummaryPreviewRequest, context: grpc.ServicerContext
    ) -> previews_pb2.SummaryPreview:
        """Returns the beginning of a summary as HTML."""
        return self._previews.summary(request)
