"""docs/logs.md lists every event with its fields, and describes each field; a line has the name of its level."""

import logging
import re
from pathlib import Path

from telemetry.log_events import COMMON_FIELDS, MESSAGE, MESSAGE_FIELDS
from telemetry.requests import REQUEST
from tests.support.log_lines import EVENTS, written_log

DOCUMENT = (Path(__file__).parents[3] / "docs" / "logs.md").read_text(encoding="utf-8")


def rows(text: str) -> list[list[str]]:
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:3] == "| `"]
    return [[cell.strip("`") if cell.count("`") == 2 else cell for cell in row] for row in cells]


def test_every_event_is_documented_with_its_logger_and_fields() -> None:
    table = DOCUMENT.split("<!-- events -->")[1].split("<!-- fields -->")[0]
    documented = {row[0]: (row[1], tuple(re.findall("`([a-z_]+)`", f"`{row[3].strip('`')}`"))) for row in rows(table)}
    assert documented.pop(MESSAGE) == ("each its own", MESSAGE_FIELDS)
    assert documented == {event: (each.logger, each.fields) for event, each in EVENTS.items()}


def test_every_field_is_documented_once() -> None:
    common, rest = DOCUMENT.split("## Fields of every line")[1].split("## Events")
    assert tuple(row[0] for row in rows(common)) == COMMON_FIELDS
    described = [row[0] for row in rows(rest.split("<!-- fields -->")[1].split("## Cost")[0])]
    assert sorted(described) == sorted({field for each in EVENTS.values() for field in each.fields})


def test_a_line_has_the_name_of_its_level(tmp_path: Path) -> None:
    levels = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL)
    with written_log(tmp_path / "log", REQUEST, level="DEBUG") as log:
        for level in levels:
            REQUEST.write("said", {}, level)
        assert [line["level"] for line in log.lines()] == ["debug", "info", "warning", "error", "critical"]
