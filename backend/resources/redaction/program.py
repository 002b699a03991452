"""Program of confined processes that sweep for personal data; see `backend.isolation.confined`.

Policies have the form of `pii_policy.normalise`. Each answer has the `counts` of its sweep.
"""

import gc
import logging
import os
import shutil
import warnings
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Final, NamedTuple

from backend.common import json_text
from backend.common.json_text import JsonMapping
from backend.common.optional_parts import PII_MODEL
from backend.common.retry import Backoff, RetryPolicy
from backend.common.secrets import Secrets
from backend.isolation.confined import Answer, Arguments, JobFailedError
from backend.resources.models import MODEL_RETRY, ModelFailedError, Models, ModelUnusableError
from backend.resources.redaction.model_recognizer import LanguageModelRecognizer
from backend.settings import ModelProvider
from redaction.formats.outcome import MACHINE_ERRORS, WithheldError
from redaction.formats.preview import preview_of
from redaction.formats.table_pages import table_page
from redaction.local_model.local_recognizer import LocalRecognizer
from redaction.model import Column, Mention, ModelError, ModelNotInstalledError, ModelRecognizer
from redaction.policy import LOCAL, Policy
from redaction.redactor import Redactor

_KEY: Final = "key"
_ALLOCATIONS_BETWEEN_COLLECTIONS: Final = 100_000
_FIRST_POLICY: Final = Policy(min_confidence=0.0)
_FIELDS: Final = frozenset(field.name for field in fields(Policy)) - {"model"}
_FIRST_TEXT: Final = "Jane Roe, jane.roe@example.com, 10.0.0.1, 202-555-0143"

_scratch: Path
_model_retry: RetryPolicy
_bounds: "_Bounds"


class _Bounds(NamedTuple):
    expanded_bytes: int
    model_seconds: float


def configure(configuration: JsonMapping, scratch: Path | None) -> None:
    """Prepares the process.

    `configuration` has the attempts and the backoff of a failing model, `expanded_bytes` of a zip or parquet file,
    and the `model_seconds` of the local model in a sweep.
    """
    global _scratch, _model_retry, _bounds
    assert scratch is not None
    backoff = Backoff(**configuration["model_backoff"])
    retry = replace(MODEL_RETRY, attempts=configuration["model_attempts"], backoff=backoff)
    bounds = _Bounds(configuration["expanded_bytes"], configuration["model_seconds"])
    _scratch, _model_retry, _bounds = scratch, retry, bounds
    # Log lines and warnings of libraries may quote the text that is swept.
    logging.getLogger().addHandler(logging.NullHandler())
    warnings.simplefilter("ignore")
    # The first search compiles the patterns; made here, it does not count as processor time of a job.
    Redactor(_FIRST_POLICY).value(_FIRST_TEXT)
    collect_seldom()


def collect_seldom() -> None:
    """Makes garbage collections rare: sweeps leave no cycles of objects, and collections take a fifth of the time."""
    gc.freeze()
    gc.set_threshold(_ALLOCATIONS_BETWEEN_COLLECTIONS)


def sweep_values(arguments: Arguments, _: Sequence[int]) -> Answer:
    """Sweeps JSON `values`; returns them as `swept`, which is null if the policy does not redact."""
    engine = _engine(arguments)
    with _described_failures(engine):
        swept = [engine.value(value) for value in arguments["values"]]
    return {"swept": swept if engine.redacts else None, "counts": engine.counts}


def sweep_names(arguments: Arguments, _: Sequence[int]) -> Answer:
    """Sweeps the `names` of files into distinct names."""
    engine = _engine(arguments)
    with _described_failures(engine):
        swept = [engine.name(name) for name in arguments["names"]]
    return {"swept": swept, "counts": engine.counts}


def sweep_file(arguments: Arguments, descriptors: Sequence[int]) -> Answer:
    """Sweeps the file at the first descriptor, whose name is `name`, into the file at the second."""
    engine = _engine(arguments)
    source, target = _scratch / "source", _scratch / "target"
    with _described_failures(engine):
        _copy(descriptors[0], source)
        outcome = engine.file(source, target, arguments["name"])
        if target.exists():
            _write(target, descriptors[1])
    return {
        "kind": outcome.kind,
        "values": outcome.values,
        "withheld": outcome.withheld,
        "reason": outcome.reason,
        "counts": engine.counts,
    }


def sweep_text(arguments: Arguments, _: Sequence[int]) -> Answer:
    """Sweeps a value in the form of JSON `text`.

    Returns `swept` text, which is null if the policy does not redact, and its swept `member` if that is a string.
    """
    engine = _engine(arguments)
    with _described_failures(engine):
        value = engine.value(json_text.parse(arguments["text"]))
        found = value.get(arguments["member"]) if isinstance(value, dict) else None
        swept = json_text.write(value) if engine.redacts else None
    return {"swept": swept, "member": found if isinstance(found, str) else None, "counts": engine.counts}


def sweep_lines(arguments: Arguments, _: Sequence[int]) -> Answer:
    """Sweeps the lines `text` of a text that grows, which follow the lines `above`.

    `kept` is the number of characters at the end of both that are `above` for the next lines.
    """
    engine = _engine(arguments)
    with _described_failures(engine):
        swept, above = engine.lines(arguments["above"], arguments["text"])
    return {"swept": swept, "kept": len(above), "counts": engine.counts}


def preview_file(arguments: Arguments, descriptors: Sequence[int]) -> Answer:
    """Returns the beginning of the file at the first descriptor, whose name is `name`, after a sweep of the whole file.

    The preview of a table has the first `rows`, or with `first` that many rows from there on and the number of all;
    with `head` the file is only the first bytes of a file, cut anywhere.
    `preview` is null for a file that cannot be swept, for the `reason`.
    """
    engine = _engine(arguments)
    source, target = _scratch / "source", _scratch / "target"
    reason: str | None = None
    preview = None
    with _described_failures(engine):
        _copy(descriptors[0], source)
        try:
            if engine.redacts:
                outcome = engine.file(source, target, arguments["name"])
                reason = outcome.reason if outcome.withheld else None
            if reason is None:
                shown = target if engine.redacts else source
                name, rows, first = arguments["name"], arguments["rows"], arguments["first"]
                found = None if first is None else table_page(shown, name, first, rows)
                preview = (found or preview_of(shown, name, rows, head=arguments["head"])).as_dict()
        except WithheldError as error:
            reason = error.reason
    return {"preview": preview, "reason": reason, "counts": engine.counts}


OPERATIONS = {
    "values": sweep_values,
    "text": sweep_text,
    "lines": sweep_lines,
    "names": sweep_names,
    "file": sweep_file,
    "preview": preview_file,
}


class _ExhaustedModel:
    """Model whose calls are used up; with it the engine counts the texts that it would have been asked about."""

    def find(self, text: str, categories: Collection[str], columns: Sequence[Column] = ()) -> Sequence[Mention]:
        raise NotImplementedError


def _engine(arguments: Arguments) -> Redactor:
    given, access = arguments["policy"], arguments["model"]
    policy = Policy.of({name: value for name, value in given.items() if name in _FIELDS})
    model: ModelRecognizer
    if given["model"] is None:
        return Redactor(policy, expanded_bytes=_bounds.expanded_bytes)
    if access is None:
        policy = replace(policy, max_model_calls=0)
        return Redactor(policy, _ExhaustedModel(), expanded_bytes=_bounds.expanded_bytes)
    if given["model"] == LOCAL:
        model = LocalRecognizer(_bounds.model_seconds)
        return Redactor(policy, model, expanded_bytes=_bounds.expanded_bytes, whole_files=True)
    provider = given["model"].partition(":")[0]
    reached = ModelProvider(None if access["api_key"] is None else _KEY, access["base_url"])
    secrets = Secrets({_KEY: "env:KEY"}, {"KEY": access["api_key"] or ""})
    model = LanguageModelRecognizer(Models(secrets, {provider: reached}), given["model"], _model_retry)
    return Redactor(policy, model, expanded_bytes=_bounds.expanded_bytes)


@contextmanager
def _described_failures(engine: Redactor) -> Iterator[None]:
    """Replaces errors by JobFailedError, whose text does not quote what was swept.

    Its data have the number of calls to the model so far, and whether a `retry` may succeed.
    """
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - its text may quote what was swept
        data = {"model_calls": engine.counts["model_calls"], "retry": _is_transient(error)}
        raise JobFailedError(_reason(error), data) from None


def _is_transient(error: Exception) -> bool:
    return isinstance(error, ModelError) or (isinstance(error, OSError) and error.errno in MACHINE_ERRORS)


def _reason(error: BaseException) -> str:
    match error:
        case ModelError(__cause__=BaseException() as cause):
            return _reason(cause)
        case ModelNotInstalledError():
            return PII_MODEL.not_installed
        case ModelUnusableError() | ModelFailedError():
            return str(error)
        case OSError(strerror=str(reason)):
            return reason
    return f"an unexpected failure ({type(error).__name__})"


def _copy(descriptor: int, target: Path) -> None:
    with os.fdopen(os.dup(descriptor), "rb") as given, target.open("wb") as file:
        shutil.copyfileobj(given, file, 2**20)


def _write(source: Path, descriptor: int) -> None:
    with source.open("rb") as file, os.fdopen(os.dup(descriptor), "wb") as taken:
        shutil.copyfileobj(file, taken, 2**20)
