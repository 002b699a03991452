"""Final personal-data sweep of one run: its outputs, its result, and its messages (contract 13.9, 21.12)."""

import contextlib
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, TypeVar

from backend.common import json_text
from backend.common.ids import new_id
from backend.resources.redaction.confined_redactor import ConfinedRedactor, RedactionError, SweptText
from backend.runtime.final_sweep import sql
from backend.runtime.promotion import RESULT_PATH, SUMMARY, SUMMARY_TOO_LONG, inline_result, summary_warnings
from backend.runtime.run_redaction import over_limit_warning, sweep_warning
from backend.services.outputs.sql import outputs_of
from backend.services.runs import redaction_manifest
from backend.services.runs.redaction_manifest_sql import OUTPUTS
from backend.storage.database import Database, Tx, run_of
from backend.storage.object_keys import run_prefix, swept_output_key
from backend.storage.objects import ObjectStore, StoredObject
from backend.storage.objects.interface import copy_to_file
from backend.storage.tables.files import OutputRow
from redaction.counts import Counts

T = TypeVar("T")

_WITHHELD: Final = "Withheld: it could not be swept for personal data within its limits."


class RunSweep:
    """One attempt to sweep a run; `folder` is for copies of its objects. It ends soon after `halt` is set."""

    def __init__(
        self,
        database: Database,
        objects: ObjectStore,
        redactor: ConfinedRedactor,
        row: sql.SweptRunRow,
        folder: Path,
        halt: threading.Event,
    ) -> None:
        self._database = database
        self._objects = objects
        self._redactor = redactor
        self._row = row
        self._run_id: str = row.run_id
        self._sweep_id = new_id("swp")
        self._folder = folder
        self._halt = halt
        calls_made = redaction_manifest.model_calls(row.pii_redaction)
        self._policy = json_text.parse(row.pii_policy)
        self._policy["max_model_calls"] = max(0, self._policy["max_model_calls"] - calls_made)
        self._counts = Counts()
        self._changed: list[dict[str, object]] = []
        self._withheld: list[str] = []
        self._columns: dict[str, object] = {}
        self._warnings: list[str] = []

    @classmethod
    def find(
        cls,
        database: Database,
        objects: ObjectStore,
        redactor: ConfinedRedactor,
        run_id: str,
        folder: Path,
        halt: threading.Event,
    ) -> "RunSweep | None":
        """Returns the sweep of a run that waits for it; None if another process has swept or erased the run."""
        row = database.read(lambda tx: sql.run(tx, run_id))
        return None if row is None else cls(database, objects, redactor, row, folder, halt)

    def run(self) -> None:
        """Sweeps and opens the run's outputs; parts that exceed the limits of a sweep are withheld, with a warning.

        Raises:
            RedactionError, OSError: nothing was opened.
        """
        outputs: list[OutputRow] = []
        if OUTPUTS in self._policy["stages"]:
            if not self._begin():
                return
            outputs = self._database.read(lambda tx: outputs_of(tx, self._run_id))
            try:
                self._sweep_files([output for output in outputs if output.path != RESULT_PATH])
                for output in outputs:
                    if output.path == RESULT_PATH:
                        self._sweep_result(output)
                self._sweep_texts()
            except BaseException:
                self._discard_if_ended()
                raise
        if not self._finish(outputs):
            self._discard_if_ended()

    @property
    def _redacts(self) -> bool:
        return bool(self._policy["mode"] == "redact")

    @property
    def _stores(self) -> bool:
        """Returns whether the sweep stores swept copies of the outputs."""
        return self._redacts and OUTPUTS in self._policy["stages"]

    def _finish(self, outputs: Iterable[OutputRow]) -> bool:
        manifest = redaction_manifest.with_counts(self._row.pii_redaction, OUTPUTS, self._counts.as_dict())
        manifest = redaction_manifest.ended_manifest(manifest, began=bool(self._row.began), opened=True)
        columns = {**self._columns, "pii_redaction": manifest}
        # A fault or crash may have left further objects, which no row names; the removal requested at the begin covers
        # them.
        originals = [output.object_key for output in outputs] if self._stores else []
        sweep_id = self._sweep_id if self._stores else None

        def finish(tx: Tx) -> bool:
            return sql.finish(tx, self._row, sweep_id, self._changed, self._withheld, originals, **columns)

        return self._database.write(finish, lock_key=run_of(self._run_id))

    def _begin(self) -> bool:
        """Takes over from sweeps that failed or lost their lock, and removes the objects that they stored.

        Returns False, without a change, if the run waits for a sweep no longer.
        """
        if not self._stores:
            return True
        earlier = self._database.write(
            lambda tx: sql.begin(tx, self._run_id, self._sweep_id), lock_key=run_of(self._run_id)
        )
        if earlier:
            left = tuple(f"-{sweep_id}-swept" for sweep_id in earlier)
            # Objects that cannot be removed now go once the run is swept.
            with contextlib.suppress(OSError):
                self._objects.delete_chosen(run_prefix(self._run_id), lambda key: key.endswith(left))
        return earlier is not None

    def _discard_if_ended(self) -> None:
        """Requests the removal of the sweep's objects if the run was erased, or swept by another process, meanwhile.

        An earlier removal may have come before they were stored. Objects that rows name stay.
        """
        if not self._stores:
            return

        def discard(tx: Tx) -> None:
            if sql.run(tx, self._run_id) is None:
                sql.request_removal_of_unnamed(tx, self._run_id, self._sweep_id)

        self._database.write(discard, lock_key=run_of(self._run_id))

    def _add(self, counts: Counts) -> None:
        self._counts.add(counts)
        self._policy["max_model_calls"] -= counts.model_calls

    def _values(self, values: list[Any]) -> list[Any] | None:
        """Returns the swept values; None if they exceed the limits of a sweep."""
        return self._counted(lambda: self._redactor.values(self._policy, values, self._halt, owner=self._row.key_id))

    def _text(self, text: str) -> SweptText | None:
        """Returns the swept result, with the summary in it; None if it exceeds the limits of a sweep."""
        return self._counted(
            lambda: self._redactor.text(self._policy, text, self._halt, owner=self._row.key_id, member=SUMMARY)
        )

    def _counted(self, sweep: Callable[[], tuple[T, Counts]]) -> T | None:
        """Runs a sweep, adds its counts and returns its result; None for a failure that no retry can help."""
        try:
            swept, counts = sweep()
        except RedactionError as error:
            if not error.permanent:
                raise
            self._add(Counts(model_calls=error.model_calls))
            return None
        self._add(counts)
        return swept

    def _sweep_texts(self) -> None:
        """Sweeps the messages of the run: its error, its warnings, and the error of its result."""
        row = self._row
        messages = [row.error_message, json_text.parse(row.warnings), row.result_error_message]
        swept = self._values(messages)
        if not self._redacts:
            self._columns["warnings"] = json_text.write([*messages[1], *self._warnings])
            return
        if swept is None:
            swept = [_withheld(messages[0]), [_WITHHELD] * len(messages[1]), _withheld(messages[2])]
        self._columns["error_message"], warnings, self._columns["result_error_message"] = swept
        # An earlier warning about the summary concerned the unswept summary.
        warnings = [after for before, after in zip(messages[1], warnings, strict=True) if before != SUMMARY_TOO_LONG]
        self._columns["warnings"] = json_text.write([*warnings, *self._warnings])

    def _sweep_files(self, files: list[OutputRow]) -> None:
        for output, name in zip(files, self._names(files), strict=True):
            self._sweep_file(output, name)

    def _names(self, files: list[OutputRow]) -> list[str]:
        try:
            names, counts = self._redactor.names(
                self._policy, [output.path for output in files], self._halt, owner=self._row.key_id
            )
        except RedactionError as error:
            if not error.permanent:
                raise
            self._warnings.append("The names of the outputs could not be swept for personal data within their limits.")
            return [f"{output.step}/{output.output_id}" if self._redacts else output.path for output in files]
        self._add(counts)
        return names

    def _sweep_file(self, output: OutputRow, name: str) -> None:
        source, target = self._folder / "source", self._folder / "target"
        copy_to_file(self._objects, output.object_key, output.size_bytes, source, self._halt)
        outcome, counts = self._redactor.file(
            self._policy, source, target, output.path, self._halt, owner=self._row.key_id
        )
        self._add(counts)
        limit = self._redactor.limit_of(output.size_bytes)
        warning = sweep_warning(outcome, name, limit, self._redactor.expanded_mb)
        if warning is not None:
            self._warnings.append(warning)
        if outcome.withheld:
            self._withheld.append(output.output_id)
        elif self._redacts:
            key = self._swept_key(output)
            self._changed.append(_changed(output, name, self._objects.put_file(key, target), key))
            target.unlink()

    def _swept_key(self, output: OutputRow) -> str:
        return swept_output_key(self._run_id, output.output_id, self._sweep_id)

    def _sweep_result(self, output: OutputRow) -> None:
        given = b"".join(self._objects.open_range(output.object_key, 0, output.size_bytes)).decode()
        swept = self._text(given)
        if swept is None:
            warning = over_limit_warning(RESULT_PATH, self._redactor.limit_of(output.size_bytes), self._redacts)
            self._warnings.append(warning)
        if not self._redacts:
            return
        if swept is None:
            self._withheld.append(output.output_id)
            names = ("result", "result_output_id", "result_size_bytes", "result_sha256", "summary_markdown")
            self._columns |= dict.fromkeys(names)
            return
        text, summary = swept
        key = self._swept_key(output)
        stored = self._objects.put_bytes(key, text.encode())
        self._changed.append(_changed(output, output.path, stored, key))
        self._columns |= {
            "result": inline_result(text) if self._row.result_error_code is None else None,
            "result_size_bytes": stored.size_bytes,
            "result_sha256": stored.sha256,
            "summary_markdown": None if summary is None else inline_result(summary),
        }
        self._warnings += summary_warnings(summary)


def _withheld(text: str | None) -> str | None:
    return None if text is None else _WITHHELD


def _changed(output: OutputRow, path: str, stored: StoredObject, key: str) -> dict[str, object]:
    return {"output_id": output.output_id, "path": path, "object_key": key, **stored._asdict()}
