"""OutputsService over gRPC: list, content and zip of a run's outputs, and its redaction manifest."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Final

import grpc
import orjson

from backend.common.errors import ApiError
from backend.common.paging import Paging
from backend.rpc.callers import principal_of
from backend.services.dependencies import Services
from backend.services.outputs import sql
from backend.services.outputs.bundle import Bundle
from backend.services.outputs.rules import Selection, require_bundle, require_content, require_open, select_bytes
from backend.services.runs.reads import run_not_found
from backend.storage.database import DatabaseUnavailableError, Tx, run_of
from backend.storage.object_keys import run_prefix
from backend.storage.objects import ObjectStore
from backend.storage.tables.files import OutputRow
from contract.times import to_timestamp
from workflow_api.v1 import errors_pb2, outputs_pb2, outputs_pb2_grpc

_LOG = logging.getLogger(__name__)
_MOST_LOGGED: Final = 100


class OutputsServicer(outputs_pb2_grpc.OutputsServiceServicer):
    """Serves the promoted outputs of finished runs, and the redaction manifest."""

    def __init__(self, services: Services, objects: ObjectStore) -> None:
        self._database = services.database
        self._cursors = services.cursors
        self._objects = objects

    def ListOutputs(
        self, request: outputs_pb2.ListOutputsRequest, context: grpc.ServicerContext
    ) -> outputs_pb2.ListOutputsResponse:
        """Returns the outputs of a run by path."""
        key_id = principal_of(context).key_id
        run_id = request.run_id
        paging = Paging(self._cursors, request, key_id, of=run_id)
        (path,) = paging.after or ("",)

        def work(tx: Tx) -> tuple[list[OutputRow], int]:
            require_open(tx, run_id, key_id)
            if paging.limit is None and paging.after is None:
                rows = sql.outputs_of(tx, run_id)
                return rows, sum(row.size_bytes for row in rows)
            rows = sql.outputs_after(tx, run_id, str(path), paging.rows_to_read)
            return rows, sql.total(tx, run_id).size_bytes

        rows, total_bytes = self._database.snapshot(work)
        shown, token = paging.cut(rows, lambda row: (row.path,))
        return outputs_pb2.ListOutputsResponse(
            items=[_output(row) for row in shown], total_bytes=total_bytes, run_id=run_id, next_page_token=token
        )

    def GetOutputContent(
        self, request: outputs_pb2.GetOutputContentRequest, context: grpc.ServicerContext
    ) -> Iterator[outputs_pb2.GetOutputContentResponse]:
        """Yields one output's bytes: a header, then parts."""
        key_id = principal_of(context).key_id

        def work(tx: Tx) -> OutputRow | None:
            require_open(tx, request.run_id, key_id)
            return sql.output(tx, request.run_id, request.output_id)

        row = self._database.snapshot(work)
        if row is None:
            raise ApiError(errors_pb2.ERROR_REASON_OUTPUT_NOT_FOUND)
        require_content(row)
        selection = select_bytes(request, row.size_bytes, row.sha256)
        try:
            opened = self._objects.open_range(row.object_key, selection.offset, selection.length)
        except (KeyError, EOFError):
            # An erasure may have come between the row and its bytes.
            if self._database.snapshot(work) is None:
                raise ApiError(errors_pb2.ERROR_REASON_OUTPUT_NOT_FOUND) from None
            raise _lost_error(request.run_id, [row]) from None
        with closing(opened) as parts:
            header = _header(selection, row.media_type, _name(row), row.size_bytes, row.sha256)
            yield outputs_pb2.GetOutputContentResponse(header=header)
            for part in parts:
                yield outputs_pb2.GetOutputContentResponse(data=part)

    def GetOutputsZip(
        self, request: outputs_pb2.GetOutputsZipRequest, context: grpc.ServicerContext
    ) -> Iterator[outputs_pb2.GetOutputsZipResponse]:
        """Yields the zip of all outputs, or one range of it: a header, then parts."""
        key_id = principal_of(context).key_id

        def work(tx: Tx) -> list[OutputRow]:
            require_open(tx, request.run_id, key_id)
            require_bundle(sql.total(tx, request.run_id))
            return sql.outputs_of(tx, request.run_id)

        rows = self._database.snapshot(work)
        bundle = Bundle(rows, self._objects)
        selection = select_bytes(request, bundle.size, bundle.etag)
        # A range that begins later fails at the first object that is missing.
        if selection.length and not selection.offset and self._lost_outputs(rows):
            # An erasure may have come between the rows and their objects.
            rows = self._database.snapshot(work)
            if lost := self._lost_outputs(rows):
                raise _lost_error(request.run_id, lost)
            bundle = Bundle(rows, self._objects)
            selection = select_bytes(request, bundle.size, bundle.etag)
        header = _header(selection, "application/zip", f"{request.run_id}.zip", bundle.size, bundle.etag)
        yield outputs_pb2.GetOutputsZipResponse(header=header)
        try:
            for part in bundle.parts(selection.offset, selection.length):
                yield outputs_pb2.GetOutputsZipResponse(data=part)
        except (KeyError, EOFError):
            if lost := self._lost_outputs(self._database.snapshot(work)):
                raise _lost_error(request.run_id, lost) from None
            # An erasure during the download can only break the zip off; the next call gets an empty one.
            raise ApiError(errors_pb2.ERROR_REASON_RUNTIME_UNREACHABLE) from None
        finally:
            if bundle.computed:
                self._store_checksums(request.run_id, bundle.computed, rows)

    def _store_checksums(self, run_id: str, computed: Mapping[str, int], rows: list[OutputRow]) -> None:
        """Stores checksums that were computed for a zip; if that fails, the next zip computes them again."""
        try:
            self._database.write(lambda tx: sql.set_checksums(tx, computed, rows), lock_key=run_of(run_id))
        except DatabaseUnavailableError as error:
            _LOG.warning("The checksums of run %s could not be stored: %s", run_id, error)

    def _lost_outputs(self, rows: list[OutputRow]) -> list[OutputRow]:
        """Returns the outputs of a run whose objects are missing or of another size, by one listing."""
        sizes = self._objects.sizes(run_prefix(rows[0].run_id)) if rows else {}
        return [row for row in rows if sizes.get(row.object_key) != row.size_bytes]

    def GetPiiRedaction(
        self, request: outputs_pb2.GetPiiRedactionRequest, context: grpc.ServicerContext
    ) -> outputs_pb2.PiiRedaction:
        """Returns the redaction manifest in its present state; an erasure keeps it."""
        key_id = principal_of(context).key_id
        row = self._database.read(lambda tx: sql.manifest(tx, request.run_id, key_id))
        if row is None:
            raise run_not_found(request.run_id, key_id)
        if row.pii_redaction is None:
            raise ApiError(errors_pb2.ERROR_REASON_PII_REDACTION_NOT_APPLIED)
        return outputs_pb2.PiiRedaction(**orjson.loads(row.pii_redaction))


def _lost_error(run_id: str, rows: list[OutputRow]) -> ApiError:
    """Logs that objects of outputs are missing or of another size; returns the error that answers the call."""
    keys = ", ".join(row.object_key for row in rows[:_MOST_LOGGED])
    more = f" and {len(rows) - _MOST_LOGGED:,} more" if len(rows) > _MOST_LOGGED else ""
    _LOG.error("The store has lost objects of outputs of run %s, or has them in another size: %s%s", run_id, keys, more)
    return ApiError(
        errors_pb2.ERROR_REASON_RUNTIME_ERROR, f"The store has lost {len(rows):,} files of this run: tell the operator."
    )


def _header(selection: Selection, media_type: str, file_name: str, size: int, etag: str) -> outputs_pb2.DownloadHeader:
    return outputs_pb2.DownloadHeader(
        media_type=media_type,
        file_name=file_name,
        size_bytes=size,
        length=selection.length,
        offset=selection.offset,
        partial=selection.partial,
        etag=etag,
        not_modified=selection.not_modified,
    )


def _output(row: OutputRow) -> outputs_pb2.Output:
    return outputs_pb2.Output(
        output_id=row.output_id,
        name=_name(row),
        path=row.path,
        step=row.step,
        media_type=row.media_type,
        size_bytes=row.size_bytes,
        sha256=row.sha256,
        created_at=to_timestamp(row.created_at),
    )


def _name(row: OutputRow) -> str:
    return row.path.rpartition("/")[2]
