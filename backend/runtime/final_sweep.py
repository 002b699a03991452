"""The final sweep: what a finished run leaves is given out only once it was swept. (DECISIONS.md, 5 and 6).

Nothing is opened before all of it is swept and stored, in one transaction. A sweep that fails, or dies with the
process, leaves everything closed and is tried again from the beginning. What it stored until then is removed, for it
was announced before; so is what an erasure came before.
"""

import logging
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from backend import json_text, metrics
from backend.clock import Clock
from backend.outputs.store import outputs_of
from backend.runs import redaction_manifest
from backend.runtime import final_sweep_store as store
from backend.runtime.pauses import Pauses
from backend.runtime.redaction import Counts
from backend.runtime.redactor import Redactor
from backend.runtime.result import (
    RESULT_PATH,
    SUMMARY_TOO_LONG,
    inline_result,
    is_summary_too_long,
    summary_of,
)
from backend.runtime.run_redaction import OUTPUTS
from backend.storage.database import Database, Tx, run_of
from backend.storage.object_keys import object_key
from backend.storage.objects import ObjectStore
from backend.storage.objects.reading import copy_to_file

_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class _Sweep:
    """One attempt for one run; `policy` has the model calls that are left."""

    row: Any
    policy: dict[str, Any]
    counts: Counts = field(default_factory=Counts)
    changed: list[dict[str, object]] = field(default_factory=list)
    withheld: list[str] = field(default_factory=list)
    columns: dict[str, object] = field(default_factory=dict)

    def add(self, counts: Counts) -> None:
        self.counts.add(counts)
        self.policy["max_model_calls"] -= counts.model_calls

    @property
    def redacts(self) -> bool:
        return bool(self.policy["mode"] == "redact")


class FinalSweeps:
    """Sweeps one run after the other in the calling thread. `folder` is for copies of what is being swept."""

    def __init__(
        self, database: Database, clock: Clock, objects: ObjectStore, redactor: Redactor, folder: Path
    ) -> None:
        self._database = database
        self._objects = objects
        self._redactor = redactor
        self._folder = folder
        self._pauses = Pauses(clock)

    def round(self) -> None:
        """Sweeps every finished run that waits for it, and removes the originals of those that were."""
        waiting, unnamed = self._database.snapshot(store.to_do)
        self._pauses.keep({*waiting, *unnamed})
        self._remove(unnamed)
        for run_id in waiting:
            if self._pauses.over(run_id):
                with self._database.hold(f"final sweep {run_id}") as mine:
                    if mine:
                        self._try(run_id)

    def _try(self, run_id: str) -> None:
        try:
            with self._copies():
                self._sweep(run_id)
        except Exception:  # noqa: BLE001 - its outputs stay closed, and other runs must not wait for it
            metrics.FINAL_SWEEP_FAILURES.add()
            pause = self._pauses.begin(run_id)
            _LOG.exception("The final sweep of run %s failed and is tried again in %d s", run_id, pause)
        else:
            self._remove(self._database.snapshot(store.to_do)[1])

    def _sweep(self, run_id: str) -> None:
        row = self._database.read(lambda tx: store.run(tx, run_id))
        if row is None:
            # Another process has done it since.
            return
        policy = json_text.parse(row.pii_policy)
        policy["max_model_calls"] = max(
            0, policy["max_model_calls"] - redaction_manifest.model_calls(row.pii_redaction)
        )
        sweep = _Sweep(row, policy)
        outputs: list[Any] = []
        if OUTPUTS in policy["stages"]:
            outputs = self._database.read(lambda tx: outputs_of(tx, run_id))
            if sweep.redacts:
                keys = [_swept_key(output) for output in outputs]
                self._database.write(lambda tx: store.announce(tx, keys), of=run_of(run_id))
            self._sweep_texts(sweep)
            self._sweep_outputs(sweep, outputs)
        manifest = redaction_manifest.with_counts(row.pii_redaction, OUTPUTS, sweep.counts.as_dict())
        sweep.columns["pii_redaction"] = redaction_manifest.ended(manifest, began=bool(row.began), opened=True)
        originals = [output.object_key for output in outputs] if sweep.redacts else []

        def finish(tx: Tx) -> bool:
            return store.finish(tx, row, sweep.changed, sweep.withheld, originals, **sweep.columns)

        self._database.write(finish, of=run_of(run_id))

    def _sweep_texts(self, sweep: _Sweep) -> None:
        """What the run itself says: why it failed, what did not land, what its result lacks."""
        row = sweep.row
        texts = [row.error_message, json_text.parse(row.warnings), row.result_error_message]
        swept, counts = self._redactor.values(sweep.policy, texts)
        sweep.add(counts)
        if sweep.redacts:
            sweep.columns["error_message"] = swept[0]
            sweep.columns["warnings"] = json_text.write(swept[1])
            sweep.columns["result_error_message"] = swept[2]

    def _sweep_outputs(self, sweep: _Sweep, outputs: Iterable[Any]) -> None:
        files = [output for output in outputs if output.path != RESULT_PATH]
        names, counts = self._redactor.names(sweep.policy, [output.path for output in files])
        sweep.add(counts)
        for output, name in zip(files, names, strict=True):
            self._sweep_file(sweep, output, name)
        for output in outputs:
            if output.path == RESULT_PATH:
                self._sweep_result(sweep, output)

    def _sweep_file(self, sweep: _Sweep, output: Any, name: str) -> None:
        source, target = self._folder / "source", self._folder / "target"
        copy_to_file(self._objects, output.object_key, output.size_bytes, source)
        outcome, counts = self._redactor.file(sweep.policy, source, target, output.path)
        sweep.add(counts)
        if outcome.withheld:
            sweep.withheld.append(output.output_id)
        elif sweep.redacts:
            key = _swept_key(output)
            size, sha256 = self._objects.put_file(key, target)
            sweep.changed.append(_changed(output, name, size, sha256, key))
            target.unlink()

    def _sweep_result(self, sweep: _Sweep, output: Any) -> None:
        value = json_text.parse(b"".join(self._objects.open_range(output.object_key, 0, output.size_bytes)))
        (swept,), counts = self._redactor.values(sweep.policy, [value])
        sweep.add(counts)
        if not sweep.redacts:
            return
        text = json_text.write(swept)
        key = _swept_key(output)
        size, sha256 = self._objects.put_bytes(key, text.encode())
        sweep.changed.append(_changed(output, output.path, size, sha256, key))
        sweep.columns |= {
            "result": inline_result(text) if sweep.row.result_error_code is None else None,
            "result_size_bytes": size,
            "result_sha256": sha256,
            "summary_markdown": summary_of(swept),
        }
        self._warn_of_summary(sweep, swept)

    def _warn_of_summary(self, sweep: _Sweep, result: Any) -> None:
        """Has the warnings say whether the summary is too long as it was swept, not as it was before."""
        given = json_text.parse(sweep.row.warnings)
        swept = json_text.parse(str(sweep.columns["warnings"]))
        others = [after for before, after in zip(given, swept, strict=True) if before != SUMMARY_TOO_LONG]
        warnings = [*others, SUMMARY_TOO_LONG] if is_summary_too_long(result) else others
        sweep.columns["warnings"] = json_text.write(warnings)

    def _remove(self, keys: Iterable[str]) -> None:
        """Removes objects that no row names; one that a store keeps holds up neither others nor any sweep."""
        removed = []
        for key in keys:
            if not self._pauses.over(key):
                continue
            try:
                self._objects.delete(key)
            except OSError:
                metrics.REMOVAL_FAILURES.add()
                _LOG.exception("%s is still to be removed; next try in %d s", key, self._pauses.begin(key))
            else:
                removed.append(key)
        if removed:
            self._database.write(lambda tx: store.deleted(tx, removed), of="deletions")

    @contextmanager
    def _copies(self) -> Iterator[None]:
        """Nothing unswept stays on the working disk, also when an earlier process died in mid-sweep."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        try:
            yield
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)


def _swept_key(output: Any) -> str:
    return object_key(output.run_id, f"{output.output_id}-swept")


def _changed(output: Any, path: str, size: int, sha256: str, key: str) -> dict[str, object]:
    return {"output_id": output.output_id, "path": path, "size_bytes": size, "sha256": sha256, "object_key": key}
