"""Values that must not appear in any log, and the logs of the services that tests start."""

import base64
import json
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from urllib.parse import quote

SHORTEST = 16
"""Characters below which a value may stand in a log by chance."""

_values: set[str] = set()
_logs: set[Path] = set()


def plant(*values: str) -> None:
    """Remembers values that no log may hold; the short ones are left out."""
    _values.update(value for value in values if len(value) >= SHORTEST)


def plant_within(content: object) -> None:
    """Plants every string in a value of JSON, names of members apart."""
    match content:
        case str():
            plant(content)
        case dict():
            plant_within(list(content.values()))
        case list() | tuple():
            for item in content:
                plant_within(item)


def watch(log: Path) -> Path:
    """Remembers a file that a started service logs to."""
    _logs.add(log)
    return log


def leaks(*logs: Path) -> list[str]:
    """Every planted value that stands in one of these logs, else in any log, with the line that holds it."""
    return [
        found
        for log in logs or sorted(_logs)
        if log.exists()
        for found in leaks_in(log.read_text(errors="replace"), _values)
    ]


def leaks_in(text: str, values: Iterable[str]) -> Iterator[str]:
    """The values that stand in the text in any form, each with its first line."""
    lines = text.splitlines()
    for value in values:
        # Most values stand nowhere in the text, which one look at the whole shows much faster than one at each line.
        present = [form for form in _forms(value) if form in text]
        line = next((line for line in lines if any(form in line for form in present)), None) if present else None
        if line is not None:
            yield f"{value!r} in {line[:2000]}"


@cache
def _forms(value: str) -> frozenset[str]:
    forms = {value, quote(value, safe=""), repr(value)[1:-1], repr(value.encode())[2:-1], *_escaped(value)}
    return frozenset(forms | {escaped for form in forms for escaped in _escaped(form)} | set(_encoded(value)))


def _escaped(text: str) -> Iterator[str]:
    """What stands for it within a string of JSON."""
    yield json.dumps(text)[1:-1]
    yield json.dumps(text, ensure_ascii=False)[1:-1]


def _encoded(value: str) -> Iterator[str]:
    """The parts of its Base64 that do not hang on what stands before and behind."""
    for offset in range(3):
        encoded = base64.b64encode(b"\0" * offset + value.encode()).decode().rstrip("=")
        yield encoded[(4 if offset else 0) : len(encoded) - len(encoded) % 4]
