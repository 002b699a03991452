"""The log of a process follows its settings file."""

import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

FOLLOWING = """
import logging, os, pathlib, sys
from deploy.config.source import read_settings
from deploy.serve.log_settings import LogFollower

config = pathlib.Path(sys.argv[1])
follower = LogFollower(read_settings(os.environ, config=config, given={"log_format": sys.argv[2] or None}), "edge")
log = logging.getLogger("edge.x")

def change(text):
    other = config.with_suffix(".new")
    other.write_text(text)
    other.replace(config)
    follower.apply_changes()

log.info("one")
change('log_level = "warning,edge=debug"\\nlog_format = "json"')
log.debug("two")
change('log_level = "loud"')
log.debug("three")
config.unlink()
follower.apply_changes()
change('log_level = "error"')
log.warning("four")
"""

FAILING = """
import logging, os, pathlib, sys
import deploy.serve.log_settings as log_settings
from deploy.config.source import read_settings

config = pathlib.Path(sys.argv[1])
follower = log_settings.LogFollower(read_settings(os.environ, config=config), "edge")
config.write_text('log_level = "debug"')

class Ended:
    looks = 0

    def wait(self, seconds):
        self.looks += 1
        return self.looks > 5

def failing(*given, **named):
    if ended.looks < 4:
        raise MemoryError
    return read_settings(*given, **named)

ended = Ended()
log_settings.read_settings = failing
follower.follow(ended)
logging.getLogger("edge.x").debug("followed")
"""


def followed(folder: Path, form: str = "", program: str = FOLLOWING, **environment: str) -> str:
    config = folder / "settings.toml"
    config.write_text('log_level = "warning"\nlog_format = "json"\n')
    ended = subprocess.run(
        [sys.executable, "-c", program, str(config), form],
        env={**os.environ, **environment},
        capture_output=True,
        encoding="utf-8",
        check=True,
        timeout=60,
    )
    return ended.stderr


def messages(text: str) -> list[Any]:
    return [json.loads(line)["message"] for line in text.splitlines()]


def test_levels_are_taken_from_a_changed_file_and_stay_where_it_is_not_valid(tmp_path: Path) -> None:
    assert messages(followed(tmp_path)) == [
        "The log has changed: level warning,edge=debug, format json",
        "two",
        "The settings file has changed and is not valid, the log stays as it is: log_level",
        "three",
    ]


def test_what_a_variable_or_an_option_gives_is_not_changed_by_the_file(tmp_path: Path) -> None:
    text = followed(tmp_path, "text", WORKFLOW_API_LOG_LEVEL="info")
    assert [line.split("  ")[-1] for line in text.splitlines()] == [
        "one",
        "The settings file has changed and is not valid, the log stays as it is: log_level",
        "four",
    ]
    assert logging.getLevelName(logging.INFO) in text


def test_a_failure_of_any_kind_is_said_once_and_the_file_is_followed_on(tmp_path: Path) -> None:
    assert messages(followed(tmp_path, program=FAILING)) == [
        "The settings file cannot be read, and the log stays as it is until it can be",
        "The log has changed: level debug, format auto",
        "followed",
    ]
