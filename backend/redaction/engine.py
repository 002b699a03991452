"""The redaction engine of one run: sweeps texts, values, names and files by one policy, and counts what it finds."""

import threading
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backend import json_text
from backend.distinct_paths import folded
from backend.redaction.counts import Counts
from backend.redaction.formats.bounds import DEFAULT_EXPANDED_BYTES, ArchiveBounds
from backend.redaction.formats.file_names import UniqueNames, swept_name
from backend.redaction.formats.files import replace_when_complete, sweep_into
from backend.redaction.formats.outcome import FileOutcome, WithheldError
from backend.redaction.model import Column, Mention, ModelError, ModelExhaustedError, ModelRecognizer
from backend.workflows.entity_types import ENTITY_TYPES

if TYPE_CHECKING:
    from backend.redaction.sweep import Sweep


class RedactionEngine:
    """Sweeps by one policy, in the form of `pii_policy.normalise`. Thread-safe.

    Mode `redact` replaces every value by `[TYPE]`; mode `detect` counts and changes nothing; mode `off` does nothing.
    A file that expands to more than `expanded_bytes` (zip, parquet) is withheld. With `whole_files` the model reads a
    file whole or not at all: a file that would need more than the calls that are left is swept by the rules alone.
    """

    def __init__(
        self,
        policy: Mapping[str, Any],
        model: ModelRecognizer | None = None,
        *,
        expanded_bytes: int = DEFAULT_EXPANDED_BYTES,
        whole_files: bool = False,
    ) -> None:
        self.redacts = policy["mode"] == "redact"
        self._off = policy["mode"] == "off"
        chosen = ENTITY_TYPES if policy["categories"] == "all" else frozenset(policy["categories"])
        self._categories = chosen if not self._off else frozenset()
        self._floor = float(policy["min_confidence"])
        self._expanded_bytes = expanded_bytes
        self._sample_rows = int(policy["parquet_sample_rows"])
        self._phone_regions = frozenset(policy.get("phone_regions") or ())
        self._model = model
        self._whole_files = whole_files
        self._calls_left = int(policy["max_model_calls"])
        self._counts = Counts()
        self._names: dict[str, str] = {}
        # Files of one run are unpacked together, also where case counts for nothing.
        self._unique_names = UniqueNames(folded)
        self._lock = threading.Lock()
        self._first: dict[bool, Sweep] = {}

    @property
    def counts(self) -> dict[str, Any]:
        """Counts of the sweeps so far; they hold no value."""
        with self._lock:
            return self._counts.as_dict()

    def sweep_text(self, text: str) -> str:
        """Returns the swept text."""
        sweep = self._sweep()
        swept = sweep.text(text)
        self._add(sweep.counts)
        return swept

    def sweep_lines(self, above: str, text: str) -> tuple[str, str]:
        """Returns swept lines of a text that is swept as it grows, with the same result as sweeping the whole.

        `above` are the lines before them, which are not swept again: "" at the beginning, and then what was returned
        beside the lines before.
        """
        sweep = self._sweep()
        swept = sweep.lines(above, text)
        self._add(sweep.counts)
        return swept

    def sweep_value(self, value: Any) -> Any:
        """Returns the swept JSON value: strings are swept, and a number that is a value becomes `[TYPE]`.

        Keys stay, but for those that are values of exact types (`formats.json_keys`). A key is context for the values
        below it, as the name of a column is.

        Raises:
            ValueError, RecursionError: `backend.json_text` cannot write it.
        """
        from backend.redaction.formats.json_text import sweep_json

        sweep = self._sweep()
        swept = "".join(sweep_json([json_text.write(value)], sweep.cells))
        self._add(sweep.counts)
        return json_text.parse(swept) if self.redacts else value

    def sweep_name(self, name: str) -> str:
        """Returns the swept name of a file: a legal path, the same for equal names and distinct for distinct ones."""
        sweep = self._sweep()
        swept, entities = swept_name(name, sweep.matches)
        with self._lock:
            if name in self._names:
                return self._names[name]
            self._counts.categories.update(entities)
            unique = self._names[name] = self._unique_names.claim(swept if self.redacts else name)
            return unique

    def sweep_file(self, source: Path, target: Path, name: str) -> FileOutcome:
        """Sweeps a file by its content and the extension of its name, in constant memory.

        In mode `redact` the complete swept copy is at `target` when this returns, unless the file is withheld. In the
        other modes nothing is written or withheld, and the source may be released unchanged.

        Raises:
            OSError: reading or writing failed; `target` is unchanged.
            MemoryError: the memory does not suffice.
        """
        if self._off:
            return FileOutcome("off")
        sweep = self._sweep(model=not self._too_large(source.stat().st_size))
        before = sweep.counts
        try:
            kind, done = replace_when_complete(
                target,
                lambda partial: sweep_into(sweep, source, partial, name, self._bounds(), self._sample_rows),
            )
        except WithheldError as error:
            binary, redacts = int(error.kind == "binary"), int(self.redacts)
            withheld = Counts(files=1, binary_files=binary, withheld_files=redacts, unsearched_files=1 - redacts)
            if not self.redacts:
                withheld.add(before)
            self._add(withheld)
            return FileOutcome(error.kind, withheld.values, withheld=self.redacts, reason=error.reason)
        self._add(Counts(files=1))
        self._add(done.counts)
        return FileOutcome(kind, done.counts.values)

    def _bounds(self) -> ArchiveBounds:
        return ArchiveBounds(expanded_bytes=self._expanded_bytes)

    def _too_large(self, size_bytes: int) -> bool:
        """Returns whether the model would have to be asked more often than it may be to read so many bytes."""
        from backend.redaction.search.spans import WINDOW

        with self._lock:
            return self._whole_files and size_bytes > self._calls_left * WINDOW

    def _sweep(self, *, model: bool = True) -> "Sweep":
        with self._lock:
            if model not in self._first:
                # Imported late: compiling the rules is slow, and most runs need none.
                from backend.redaction.search.finder import Finder
                from backend.redaction.sweep import Sweep

                ask = (self._ask if model else self._skip) if self._model is not None and self._categories else None
                finder = Finder(self._categories, self._floor, ask)
                self._first[model] = Sweep(
                    finder, self._categories, self._floor, redacts=self.redacts, phone_regions=self._phone_regions
                )
            return self._first[model].again()

    def _skip(self, text: str, _: Collection[str], __: Sequence[Column]) -> Sequence[Mention]:
        with self._lock:
            self._counts.model_skipped += any(map(str.isalpha, text))
        return ()

    def _ask(self, text: str, categories: Collection[str], columns: Sequence[Column]) -> Sequence[Mention]:
        if self._model is None or not any(map(str.isalpha, text)):
            return ()
        with self._lock:
            if self._calls_left == 0:
                self._counts.model_skipped += 1
                return ()
            self._calls_left -= 1
            self._counts.model_calls += 1
        try:
            return self._model.find(text, categories, columns)
        except ModelExhaustedError:
            with self._lock:
                self._calls_left = 0
                self._counts.model_calls -= 1
                self._counts.model_skipped += 1
            return ()
        except Exception as error:
            raise ModelError from error

    def _add(self, counts: Counts) -> None:
        with self._lock:
            self._counts.add(counts)
