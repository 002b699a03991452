"""Reads parquet files in batches of bounded size, and counts their expanded size before they are expanded."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import types

from backend.redaction.formats.bounds import ArchiveBounds
from backend.redaction.formats.outcome import WithheldError

BATCH_BYTES: Final = 32_000_000
_MAX_ROWS: Final = 32_768
_ROWS_AT_ONCE: Final = 256


def dictionary_columns(file: pq.ParquetFile) -> list[str]:
    """Returns the flat columns of text and bytes with a dictionary, whose few values may expand to many bytes.

    Arrow cannot keep nested columns encoded; those are counted as they are read, a few rows at a time.
    """
    metadata = file.metadata
    groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
    columns = [group.column(index) for group in groups for index in range(group.num_columns)]
    encoded = {column.path_in_schema for column in columns if column.has_dictionary_page}
    return [field.name for field in file.schema_arrow if field.name in encoded and _is_bytes(field.type)]


def batches(file: pq.ParquetFile, bounds: ArchiveBounds) -> Iterator[pa.RecordBatch]:
    """Yields the decoded rows in batches by their size in memory.

    Raises:
        WithheldError: they would expand to more than is left of the bounds; raised before they do.
    """
    metadata = file.metadata
    size = sum(metadata.row_group(index).total_byte_size for index in range(metadata.num_row_groups))
    if size > bounds.expanded_bytes:
        raise WithheldError("parquet", "too_large")
    rows = max(1, min(_ROWS_AT_ONCE, BATCH_BYTES * metadata.num_rows // max(size, 1)))
    held: list[pa.RecordBatch] = []
    held_bytes = 0
    for batch, expanded in _parts(file.iter_batches(batch_size=rows), bounds):
        if held and held_bytes + expanded > BATCH_BYTES:
            yield from _joined(held)
            held, held_bytes = [], 0
        held.append(_decoded(batch))
        held_bytes += expanded
        if sum(map(len, held)) >= _MAX_ROWS:
            yield from _joined(held)
            held, held_bytes = [], 0
    if held:
        yield from _joined(held)


def _joined(held: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from pa.Table.from_batches(held).combine_chunks().to_batches()


def _parts(read: Iterator[pa.RecordBatch], bounds: ArchiveBounds) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Yields each batch, cut where it would expand to more than BATCH_BYTES, with the expanded size of each part."""
    for batch in read:
        expanded = _expanded_bytes(batch)
        bounds.expanded_bytes -= expanded
        if bounds.expanded_bytes < 0:
            raise WithheldError("parquet", "too_large")
        count = min(len(batch), -(-expanded // BATCH_BYTES))
        if count <= 1:
            yield batch, expanded
            continue
        cuts = [len(batch) * number // count for number in range(count + 1)]
        for start, end in pairwise(cuts):
            part = batch.slice(start, end - start)
            yield part, _expanded_bytes(part)


def _expanded_bytes(batch: pa.RecordBatch) -> int:
    """Returns the size of the decoded columns, at least a byte per value, so that nulls count too."""
    return sum(max(_expanded_column(column), len(column)) for column in batch.columns)


def _expanded_column(column: pa.Array) -> int:
    if not types.is_dictionary(column.type):
        return int(column.nbytes)
    values = column.dictionary
    if not _is_bytes(values.type):
        return int(column.indices.nbytes + len(column) * values.nbytes // max(len(values), 1))
    return int(pc.sum(pc.binary_length(values).take(column.indices)).as_py() or 0) + int(column.indices.nbytes)


def _decoded(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [column.dictionary_decode() if types.is_dictionary(column.type) else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind))
