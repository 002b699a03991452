import re
from pathlib import Path

import pytest

from backend.redaction.counts import Counts
from backend.redaction.rules.labels import LABEL_RULES
from backend.redaction.search.finder import RULES
from backend.workflows.entity_types import ENTITY_TYPES
from backend.workflows.pii_policy import FIELDS

_TEXT = (Path(__file__).parents[4] / "docs" / "redaction.md").read_text(encoding="utf-8")


def test_every_entity_type_stands_in_the_table() -> None:
    assert set(re.findall(r"^\| ([A-Z_]+) \|", _TEXT, re.MULTILINE)) == ENTITY_TYPES


@pytest.mark.parametrize("entity", sorted(ENTITY_TYPES))
def test_every_score_of_a_type_stands_in_the_table(entity: str) -> None:
    [row] = re.findall(rf"^\| {entity} \| (.*) \|$", _TEXT, re.MULTILINE)
    documented = [float(score) for score in re.findall(r"(?:^|; )([01](?:\.[0-9]+)?): ", row)]
    scores = {score for rule in RULES if rule.entity == entity for score in (rule.score, rule.context_score)}
    scores |= {score for named, _, score in LABEL_RULES if named == entity}
    assert documented == sorted(scores - {0.0}, reverse=True)


def test_every_field_and_count_is_explained() -> None:
    assert [name for name in (*FIELDS, *Counts().as_dict()) if f"`{name}`" not in _TEXT] == []
