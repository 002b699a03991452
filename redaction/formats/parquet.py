"""Sweeps Parquet files: every row of every column of every type, in batches of bounded size.

The expanded size is counted before columns are expanded.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import types

from redaction.formats.outcome import ArchiveBounds, WithheldError, parser_failures_withheld
from redaction.search.normalisation import without_exponent
from redaction.sweep import Sweep

BATCH_BYTES: Final = 32_000_000
_MAX_ROWS: Final = 32_768
_ROWS_AT_ONCE: Final = 256

# Smaller whole numbers fit into 64 bits.
_LARGEST_WHOLE: Final = 9e18


def sweep_parquet(sweep: Sweep, source: Path, target: Path, bounds: ArchiveBounds, sample_rows: int) -> None:
    """Writes a copy with every row swept; columns keep their names, and the file's own metadata is not copied.

    A column of numbers or times becomes text if its first `sample_rows` rows hold a value. In other such columns a
    value in a later row is replaced by null, as are bytes that are no text.

    Raises:
        WithheldError: the file is broken, or over the bounds.
        MemoryError: memory is insufficient.
    """
    with parser_failures_withheld("parquet"), _opened(source) as file:
        if not sweep.redacts:
            for batch in batches(file, bounds):
                _Columns(sweep, batch.schema, set()).swept(batch)
            return
        columns = _Columns(sweep, file.schema_arrow, _columns_with_values(sweep, file, replace(bounds), sample_rows))
        with pq.ParquetWriter(target, columns.schema) as writer:
            for batch in batches(file, bounds):
                writer.write_batch(columns.swept(batch))


def _opened(source: Path) -> pq.ParquetFile:
    """Opens the file; dictionary columns stay encoded, so that their size is counted before expansion."""
    with pq.ParquetFile(source, pre_buffer=False) as file:
        encoded = dictionary_columns(file)
    return pq.ParquetFile(source, pre_buffer=False, read_dictionary=encoded)


def _columns_with_values(sweep: Sweep, file: pq.ParquetFile, bounds: ArchiveBounds, rows: int) -> set[str]:
    """Returns the columns of numbers and times whose first rows hold a value."""
    found: set[str] = set()
    left = rows
    for batch in batches(file, bounds):
        part = batch.slice(0, left)
        for name, column in zip(part.schema.names, part.columns, strict=True):
            if (
                name not in found
                and _is_plain(column.type)
                and sweep.with_empty_counts().cells(_texts(column), [name] * len(column))
            ):
                found.add(name)
        left -= len(part)
        if left <= 0:
            break
    return found


class _Columns:
    """Sweeper of the columns of one file, with the schema of the copy."""

    def __init__(self, sweep: Sweep, schema: pa.Schema, become_text: set[str]) -> None:
        self._sweep = sweep
        self.schema = pa.schema(
            [
                pa.field(field.name, pa.string() if field.name in become_text else _nullable(field.type))
                for field in schema
            ]
        )

    def swept(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = [self._column(column, field) for column, field in zip(batch.columns, self.schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _column(self, column: pa.Array, field: pa.Field) -> pa.Array:
        if types.is_null(column.type) or types.is_boolean(column.type):
            return column
        if isinstance(column, pa.ExtensionArray):
            column = column.storage
        if types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if _is_plain(column.type) or _is_text(column.type):
            return self._flat(column, field)
        values = column.to_pylist()
        leaves: list[Any] = []
        labels: list[str] = []
        _collect(values, field.name, leaves, labels)
        new = self._new_leaves(leaves, labels)
        if not new:
            return column.cast(field.type)
        following = iter(range(len(leaves)))
        return pa.array(_rebuilt(values, lambda leaf: new.get(next(following), leaf)), type=field.type)

    def _flat(self, column: pa.Array, field: pa.Field) -> pa.Array:
        texts = _texts(column)
        changed = self._sweep.cells(texts, [field.name] * len(texts))
        if not types.is_large_string(field.type) and not types.is_string(field.type):
            mask = pa.array([index in changed for index in range(len(texts))]) if changed else None
            return column if mask is None else pc.if_else(mask, pa.scalar(None, column.type), column)
        if not changed:
            return column.cast(field.type)
        valid = column.is_valid().to_pylist()
        merged = [
            changed.get(index, text) if is_valid else None
            for index, (text, is_valid) in enumerate(zip(texts, valid, strict=True))
        ]
        return pa.array(merged, type=field.type)

    def _new_leaves(self, leaves: Sequence[Any], labels: Sequence[str]) -> dict[int, Any]:
        """Returns the new value of each changed leaf, by index: text for text, null for other or unreadable values."""
        texts = []
        new: dict[int, Any] = {}
        for index, leaf in enumerate(leaves):
            text = leaf
            if isinstance(leaf, bytes):
                try:
                    text = leaf.decode()
                except UnicodeDecodeError:
                    text = ""
                    if self._sweep.redacts:
                        new[index] = None
                        self._sweep.counts.emptied_values += 1
            texts.append(text if isinstance(text, str) else without_exponent(str(text)))
        for index, text in self._sweep.cells(texts, labels).items():
            leaf = leaves[index]
            new[index] = text if isinstance(leaf, str) else text.encode() if isinstance(leaf, bytes) else None
        return new


def _is_text(kind: pa.DataType) -> bool:
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _is_plain(kind: pa.DataType) -> bool:
    """Returns whether a column holds numbers or times."""
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_temporal(kind))


def _texts(column: pa.Array) -> list[str]:
    if types.is_floating(column.type):
        return _texts_of_floats(column)
    if not _is_text(column.type):
        try:
            column = column.cast(pa.string())
        except pa.ArrowNotImplementedError:
            return ["" if value is None else str(value) for value in column.to_pylist()]
    return ["" if value is None else value for value in column.to_pylist()]


def _texts_of_floats(column: pa.Array) -> list[str]:
    """Returns whole floats as integers in text, because columns of integers with gaps are often stored as floats."""
    column = column.cast(pa.float64())
    whole = pc.and_(pc.equal(column, pc.floor(column)), pc.less(pc.abs(column), pa.scalar(_LARGEST_WHOLE)))
    digits = pc.if_else(whole, column, pa.scalar(0.0)).cast(pa.int64()).cast(pa.string())
    return ["" if value is None else value for value in pc.if_else(whole, digits, column.cast(pa.string())).to_pylist()]


def _nullable(kind: pa.DataType) -> pa.DataType:
    """Returns the type with every part nullable, and text as plain text."""
    if isinstance(kind, pa.BaseExtensionType):
        return _nullable(kind.storage_type)
    if types.is_dictionary(kind):
        return _nullable(kind.value_type)
    if types.is_struct(kind):
        return pa.struct([pa.field(field.name, _nullable(field.type)) for field in kind])
    if types.is_map(kind):
        return pa.map_(_nullable(kind.key_type), _nullable(kind.item_type))
    if types.is_large_list(kind):
        return pa.large_list(_nullable(kind.value_type))
    if types.is_list(kind) or types.is_fixed_size_list(kind):
        return pa.list_(_nullable(kind.value_type))
    if types.is_fixed_size_binary(kind) or types.is_binary_view(kind):
        return pa.binary()
    return pa.string() if types.is_string_view(kind) else kind


def _collect(value: Any, label: str, leaves: list[Any], labels: list[str]) -> None:
    """Collects the leaves of nested values, depth first; keys of structs and maps are their labels."""
    if isinstance(value, dict):
        for key, item in value.items():
            _collect(item, key, leaves, labels)
    elif isinstance(value, list):
        for item in value:
            _collect(item, label, leaves, labels)
    elif isinstance(value, tuple):
        _collect(value[1], str(value[0]), leaves, labels)
    elif value is not None and not isinstance(value, bool):
        leaves.append(value)
        labels.append(label)


def _rebuilt(value: Any, leaf: Callable[[Any], Any]) -> Any:
    """Returns nested values with new leaves, in the order of `_collect`."""
    if isinstance(value, dict):
        return {key: _rebuilt(item, leaf) for key, item in value.items()}
    if isinstance(value, list):
        return [_rebuilt(item, leaf) for item in value]
    if isinstance(value, tuple):
        return value[0], _rebuilt(value[1], leaf)
    return value if value is None or isinstance(value, bool) else leaf(value)


def dictionary_columns(file: pq.ParquetFile) -> list[str]:
    """Returns the flat columns of text and bytes with a dictionary, whose few values may expand to many bytes.

    Arrow cannot keep nested columns encoded; these are counted as they are read, a few rows at a time.
    """
    metadata = file.metadata
    groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
    columns = [group.column(index) for group in groups for index in range(group.num_columns)]
    encoded = {column.path_in_schema for column in columns if column.has_dictionary_page}
    return [field.name for field in file.schema_arrow if field.name in encoded and _is_bytes(field.type)]


def batches(file: pq.ParquetFile, bounds: ArchiveBounds) -> Iterator[pa.RecordBatch]:
    """Yields the decoded rows in batches by their size in memory.

    Raises:
        WithheldError: the rows would exceed the remaining bounds; raised before they are expanded.
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
    """Yields the parts of each batch, at most BATCH_BYTES expanded, with their expanded sizes."""
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
