"""SQL of outputs, and of files that steps leave for later steps alone."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import NamedTuple

from sqlalchemy import BigInteger, bindparam, cast, func, insert, select, update

from backend.storage.database import Tx
from backend.storage.statements import Command, Query, RowInsert, select_row
from backend.storage.tables.files import OutputRow, SharedFileRow, outputs, shared_files
from backend.storage.tables.runs import runs


class TotalRow(NamedTuple):
    """Number and total bytes of a run's files."""

    files: int
    size_bytes: int


class ManifestRow(NamedTuple):
    """The redaction manifest of a run as JSON."""

    pii_redaction: str | None


_ADD = Command(insert(outputs), [column.name for column in outputs.columns])
_ADD_SHARED = RowInsert(SharedFileRow, shared_files)
_SHARED = Query(
    SharedFileRow, select_row(SharedFileRow, shared_files).where(shared_files.c.run_id == bindparam("of_run_id"))
)
_OF_RUN = outputs.c.run_id == bindparam("of_run_id")
_LIST = Query(OutputRow, select_row(OutputRow, outputs).where(_OF_RUN).order_by(outputs.c.path))
_AFTER = Query(
    OutputRow,
    select_row(OutputRow, outputs)
    .where(_OF_RUN, outputs.c.path > bindparam("after"))
    .order_by(outputs.c.path)
    .limit(bindparam("limit")),
)
_GET = Query(OutputRow, select_row(OutputRow, outputs).where(_OF_RUN, outputs.c.output_id == bindparam("of_output_id")))
# A final sweep may have replaced the file meanwhile.
_SET_CHECKSUM = Command(
    update(outputs)
    .where(outputs.c.output_id == bindparam("of_output_id"), outputs.c.object_key == bindparam("of_object_key"))
    .values(crc32=bindparam("new_crc32"))
)
_TOTAL = Query(
    TotalRow,
    select(
        func.count().label("files"),
        # The sum of a column of BIGINT is NUMERIC on PostgreSQL.
        cast(func.coalesce(func.sum(outputs.c.size_bytes), 0), BigInteger).label("size_bytes"),
    ).where(_OF_RUN),
)
_MANIFEST = select(runs.c.pii_redaction).where(runs.c.run_id == bindparam("of_run_id"))
_ANY_MANIFEST = Query(ManifestRow, _MANIFEST)
_MANIFEST_OF_KEY = Query(ManifestRow, _MANIFEST.where(runs.c.key_id == bindparam("of_key_id")))


@dataclass(frozen=True, slots=True)
class NewOutput:
    """An output whose bytes are durable under `object_key`.

    `path` is `<step>/<relative path>`; `result.json` has no step. `sha256` is in hexadecimal.
    """

    output_id: str
    run_id: str
    path: str
    step: str | None
    media_type: str
    size_bytes: int
    sha256: str
    object_key: str
    crc32: int


StepFile = NewOutput | SharedFileRow
"""A file that a step left, durable under its `object_key`: an output, or a file for later steps alone."""


def add_outputs(tx: Tx, new: Iterable[NewOutput], at: int) -> None:
    """Writes the outputs of a step with its completion; they are promoted when the run is closed."""
    tx.many(_ADD, [asdict(output) | {"created_at": at} for output in new])


def add_shared_files(tx: Tx, new: Iterable[SharedFileRow]) -> None:
    """Writes the files that a step left for later steps alone, with its completion."""
    tx.insert(_ADD_SHARED, list(new))


def shared_files_of(tx: Tx, run_id: str) -> list[SharedFileRow]:
    """Returns the files that the steps of a run left for later steps alone."""
    return tx.all(_SHARED, of_run_id=run_id)


def outputs_of(tx: Tx, run_id: str) -> list[OutputRow]:
    """Returns the outputs of a run by path."""
    return tx.all(_LIST, of_run_id=run_id)


def outputs_after(tx: Tx, run_id: str, path: str, limit: int) -> list[OutputRow]:
    """Returns outputs of a run by path, that come after a path."""
    return tx.all(_AFTER, of_run_id=run_id, after=path, limit=limit)


def output(tx: Tx, run_id: str, output_id: str) -> OutputRow | None:
    """Returns one output of a run, or None."""
    return tx.first(_GET, of_run_id=run_id, of_output_id=output_id)


def set_checksums(tx: Tx, checksums: Mapping[str, int], rows: Iterable[OutputRow]) -> None:
    """Adds the CRC-32, by output id, to the rows whose files have not been replaced since."""
    tx.many(
        _SET_CHECKSUM,
        [
            {"of_output_id": row.output_id, "of_object_key": row.object_key, "new_crc32": checksums[row.output_id]}
            for row in rows
            if row.output_id in checksums
        ],
    )


def total(tx: Tx, run_id: str) -> TotalRow:
    """Returns the number and total bytes of a run's files."""
    return tx.one(_TOTAL, of_run_id=run_id)


def manifest(tx: Tx, run_id: str, key_id: str | None) -> ManifestRow | None:
    """Returns the redaction manifest of a run that the key has access to, or None; without a key, of any run."""
    if key_id is None:
        return tx.first(_ANY_MANIFEST, of_run_id=run_id)
    return tx.first(_MANIFEST_OF_KEY, of_run_id=run_id, of_key_id=key_id)
