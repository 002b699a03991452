"""Optional parts of the installation."""

import tomllib
from pathlib import Path

from backend.common import optional_parts
from backend.common.optional_parts import OptionalPart

PARTS = [part for part in vars(optional_parts).values() if isinstance(part, OptionalPart)]


def test_a_part_without_one_of_its_modules_is_not_installed() -> None:
    assert OptionalPart("part", ("json.decoder",)).installed
    assert not OptionalPart("part", ("json", "no_such_package")).installed
    assert not OptionalPart("part", ("no_such_package.module",)).installed


def test_every_part_is_an_extra_that_is_installed_for_development() -> None:
    extras = tomllib.loads(Path("pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {part.name for part in PARTS} == extras.keys() - {"testing"}
    assert all(part.installed for part in PARTS)
