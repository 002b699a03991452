import re
from pathlib import Path

from backend.runtime.redaction import Counts
from backend.workflows.entity_types import ENTITY_TYPES
from backend.workflows.pii_policy import FIELDS

_TEXT = (Path(__file__).parents[5] / "docs" / "redaction.md").read_text(encoding="utf-8")


def test_every_entity_type_stands_in_the_table() -> None:
    assert set(re.findall(r"^\| ([A-Z_]+) \|", _TEXT, re.MULTILINE)) == ENTITY_TYPES


def test_every_field_and_count_is_explained() -> None:
    assert [name for name in (*FIELDS, *Counts().as_dict()) if f"`{name}`" not in _TEXT] == []
