import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import pytest

from redaction.formats.outcome import FileOutcome
from redaction.model import Column, Mention
from redaction.redactor import Redactor

SweepFile = Callable[..., tuple[FileOutcome, bytes | None]]


def engine_of(**policy: Any) -> Redactor:
    return Redactor({"mode": "redact", **policy})


class EveryWord:
    """Model that takes every word for a name."""

    def find(self, text: str, _: Collection[str], __: Sequence[Column] = ()) -> Sequence[Mention]:
        return [Mention("PERSON", word[0], 0.9, word.start()) for word in re.finditer(r"\w+", text)]


@pytest.fixture
def engine() -> Redactor:
    return engine_of()


@pytest.fixture
def sweep_file(tmp_path: Path) -> SweepFile:
    """Sweeps bytes under a name; the outcome, and the bytes of the copy, or None where there is none."""

    def sweep(engine: Redactor, name: str, content: bytes) -> tuple[FileOutcome, bytes | None]:
        source, target = tmp_path / "source", tmp_path / "target"
        source.write_bytes(content)
        target.unlink(missing_ok=True)
        outcome = engine.file(source, target, name)
        assert sorted(path.name for path in tmp_path.iterdir()) in (["source"], ["source", "target"])
        return outcome, target.read_bytes() if target.exists() else None

    return sweep
