"""Sweeps texts, JSON values, names and files by one policy, and counts what it finds."""

import json
import math
import threading
import unicodedata
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from redaction.counts import Counts
from redaction.formats.file_names import UniqueNames, swept_name
from redaction.formats.files import replace_when_complete, sweep_into
from redaction.formats.outcome import DEFAULT_EXPANDED_BYTES, ArchiveBounds, FileOutcome, WithheldError
from redaction.model import Column, Mention, ModelError, ModelExhaustedError, ModelRecognizer
from redaction.policy import LOCAL, Policy

if TYPE_CHECKING:
    from redaction.sweep import Sweep


OnFound = Callable[[str, str, float], None]
"""Receives the entity type, the text and the confidence of a value that was found."""

_COMPACT: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False, check_circular=False)


class Redactor:
    """Redactor by one policy. Thread-safe.

    `policy` is a Policy, or a mapping of its fields; `{}` replaces every value found. `model` replaces the policy's
    model. A file that expands to more than `expanded_bytes` (zip, Parquet) is withheld. With `whole_files` the model
    reads a file whole or not at all: a file that needs more than the remaining calls is swept by the rules alone.
    `on_found` is called with each value found in texts, JSON values and files.

    Raises:
        ValueError: the policy is not valid; the text is for people.
    """

    def __init__(
        self,
        policy: Policy | Mapping[str, Any],
        model: ModelRecognizer | None = None,
        *,
        expanded_bytes: int = DEFAULT_EXPANDED_BYTES,
        whole_files: bool = False,
        on_found: OnFound | None = None,
    ) -> None:
        given = self._policy = policy if isinstance(policy, Policy) else Policy.of(policy)
        self.redacts = given.mode == "redact"
        self._categories = given.categories if given.mode != "off" else frozenset()
        self._expanded_bytes = expanded_bytes
        if model is None and given.model == LOCAL:
            from redaction.local_model.local_recognizer import LocalRecognizer

            model = LocalRecognizer(math.inf)
        self._model = model
        self._whole_files = whole_files
        self._calls_left = given.max_model_calls
        self._on_found = on_found
        self._counts = Counts()
        self._names: dict[str, str] = {}
        # Files of one run are unpacked together, also on systems that ignore case.
        self._unique_names = UniqueNames(_folded)
        self._lock = threading.Lock()
        self._first: dict[bool, Sweep] = {}

    @property
    def counts(self) -> dict[str, Any]:
        """Counts of the sweeps so far, without any values."""
        with self._lock:
            return self._counts.as_dict()

    def text(self, text: str) -> str:
        """Returns the swept text."""
        sweep = self._sweep()
        swept = sweep.text(text)
        self._add(sweep.counts)
        return swept

    def lines(self, above: str, text: str) -> tuple[str, str]:
        """Returns swept lines of a growing text, with the result of a sweep of the whole text.

        `above` has the earlier lines that give context: "" at the beginning, and then the second text returned by the
        call before.
        """
        sweep = self._sweep()
        swept = sweep.lines(above, text)
        self._add(sweep.counts)
        return swept

    def value(self, value: Any) -> Any:
        """Returns the swept JSON value: strings are swept, and a number that is a value becomes `[TYPE]`.

        Keys are kept unless they hold values of exact types (`formats.json_keys`). A key is context for the values
        below it, like the name of a column.

        Raises:
            ValueError, RecursionError: the value is not representable in JSON.
        """
        from redaction.formats.json_text import sweep_json

        sweep = self._sweep()
        swept = "".join(sweep_json([_COMPACT.encode(value)], sweep.cells))
        self._add(sweep.counts)
        return json.loads(swept) if self.redacts else value

    def name(self, name: str) -> str:
        """Returns the swept name of a file: a legal path, equal for equal names and distinct for distinct ones."""
        sweep = self._sweep()
        swept, entities = swept_name(name, sweep.matches)
        with self._lock:
            if name in self._names:
                return self._names[name]
            self._counts.categories.update(entities)
            unique = self._names[name] = self._unique_names.claim(swept if self.redacts else name)
            return unique

    def file(self, source: Path, target: Path, name: str) -> FileOutcome:
        """Sweeps a file by its content and the extension of its name, in constant memory.

        In mode `redact` the complete swept copy is at `target` afterwards, unless the file is withheld. In other modes
        nothing is written or withheld, and the source may be released unchanged.

        Raises:
            OSError: reading or writing failed; `target` is unchanged.
            MemoryError: memory is insufficient.
        """
        if self._policy.mode == "off":
            return FileOutcome("off")
        sweep = self._sweep(model=not self._too_large(source.stat().st_size))
        before = sweep.counts
        bounds = ArchiveBounds(expanded_bytes=self._expanded_bytes)
        try:
            kind, done = replace_when_complete(
                target,
                lambda partial: sweep_into(sweep, source, partial, name, bounds, self._policy.parquet_sample_rows),
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

    def _too_large(self, size_bytes: int) -> bool:
        """Returns whether reading a file of this size would exceed the model's remaining calls."""
        from redaction.search.spans import WINDOW

        with self._lock:
            return self._whole_files and size_bytes > self._calls_left * WINDOW

    def _sweep(self, *, model: bool = True) -> "Sweep":
        with self._lock:
            if model not in self._first:
                # Imported late: compiling the rules is slow, and most runs need none.
                from redaction.search.finder import Finder
                from redaction.sweep import Sweep

                ask = (self._ask if model else self._skip) if self._model is not None and self._categories else None
                floor = self._policy.min_confidence
                self._first[model] = Sweep(
                    Finder(self._categories, floor, ask),
                    self._categories,
                    floor,
                    redacts=self.redacts,
                    phone_regions=self._policy.phone_regions,
                    on_found=self._on_found,
                )
            return self._first[model].with_empty_counts()

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


def _folded(path: str) -> str:
    """Returns a key that is equal for paths which differ only in case or Unicode normalization."""
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", path).casefold())
