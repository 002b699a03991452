import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from backend.services.workflows.pii_policy import FIELDS
from redaction.command import main
from redaction.counts import Counts
from redaction.entity_types import ENTITY_TYPES
from redaction.rules.loader import all_rules
from redaction.rules.tables import LABELS, scored_patterns

_README = Path(__file__).parents[3] / "redaction" / "README.md"
_TEXT = (Path(__file__).parents[3] / "docs" / "redaction.md").read_text(encoding="utf-8")


def test_every_entity_type_stands_in_the_table() -> None:
    assert set(re.findall(r"^\| ([A-Z_]+) \|", _TEXT, re.MULTILINE)) == ENTITY_TYPES


def test_every_score_of_a_type_stands_in_the_table() -> None:
    scores: dict[str, set[float]] = {entity: set() for entity in ENTITY_TYPES}
    for rule in all_rules():
        scores[rule.entity] |= {rule.score, rule.context_score}
    for entity, _, score in scored_patterns(LABELS):
        scores[entity].add(score)
    rows = re.findall(r"^\| ([A-Z_]+) \| (.*) \|$", _TEXT, re.MULTILINE)
    documented = {
        entity: [float(score) for score in re.findall(r"(?:^|; )([01](?:\.[0-9]+)?): ", row)] for entity, row in rows
    }
    assert documented == {entity: sorted(given - {0.0}, reverse=True) for entity, given in scores.items()}


def test_every_field_and_count_is_explained() -> None:
    assert [name for name in (*FIELDS, *Counts().as_dict()) if f"`{name}`" not in _TEXT] == []


def _block(language: str) -> list[str]:
    [block] = re.findall(rf"^```{language}\n(.*?)^```$", _README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [line for line in block.splitlines() if line]


def test_the_examples_of_the_readme_give_what_they_say(tmp_path: Path) -> None:
    (tmp_path / "source").write_text("name,mail\nJane Roe,jane.roe@example.com\n")
    names: dict[str, Any] = {"source": tmp_path / "source", "target": tmp_path / "target"}
    shown = []
    for line in _block("python"):
        code, _, expected = line.partition("  # ")
        if not expected:
            exec(code, names)  # noqa: S102 - a line of our own page
            continue
        value = eval(code, names)  # noqa: S307 - as above
        shown.append((value, eval(expected.partition(";")[0].strip(), {})))  # noqa: S307 - as above
    assert len(shown) == 5
    assert [one for one in shown if one[0] != one[1]] == []
    assert (tmp_path / "target").read_text() == "name,mail\n[PERSON],[EMAIL_ADDRESS]\n"


def test_the_commands_of_the_readme_can_be_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "letter.txt").write_text("Hello")
    (tmp_path / "policy.yaml").write_text("mode: redact")
    monkeypatch.chdir(tmp_path)
    commands = [shlex.split(line, comments=True) for line in _block("bash")]
    assert [main(words[1:]) for words in commands if words[0] == "redact"] == [0, 0]
