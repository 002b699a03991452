"""docs/manifests.md says what the rules of manifests say, and every example in it is valid."""

import json
import re
from collections.abc import Iterator

import pytest

from backend.services.workflows.manifests.kinds import KINDS
from backend.services.workflows.manifests.loader import check_manifests
from backend.services.workflows.manifests.nodes import Problem
from backend.services.workflows.manifests.records import Either, Field, ListOf, MapOf, Record, Variant
from backend.services.workflows.manifests.shapes import Shape
from backend.services.workflows.manifests.yaml_reader import read_documents
from scripts.manifest_reference import PAGE, SCHEMA, schema_text, with_tables
from tests.support.content_checks import UNBOUNDED

DOCUMENT = PAGE.read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```yaml\n(.*?)```", DOCUMENT, re.DOTALL)


def fields(name: str, shape: Shape) -> Iterator[tuple[str, Field]]:
    """Yields every field of a shape, and of the shapes that it is made of, by path."""
    match shape:
        case Variant():
            for word, record in shape.records.items():
                yield from fields(f"{name}({word})", record)
        case Record():
            for given, field in shape.fields.items():
                yield f"{name}.{given}", field
                yield from fields(f"{name}.{given}", field.shape)
        case ListOf() | MapOf():
            yield from fields(f"{name}[]", shape.member)
        case Either():
            yield from fields(name, shape.record)


FIELDS = [each for kind, rules in KINDS.items() for each in fields(kind, rules)]


def test_its_tables_are_those_of_the_rules() -> None:
    assert with_tables(DOCUMENT) == DOCUMENT, "run scripts/manifest_reference.py"


def test_the_schema_of_the_console_is_that_of_the_rules() -> None:
    assert SCHEMA.read_text(encoding="utf-8") == schema_text(), "run scripts/manifest_reference.py"


def test_a_page_that_lacks_a_table_is_refused() -> None:
    with pytest.raises(ValueError, match="needs one line"):
        with_tables(DOCUMENT.replace("<!-- fields of Environment -->", ""))


def test_every_field_is_described() -> None:
    assert len(FIELDS) > 200
    assert [name for name, field in FIELDS if not field.about.endswith(".")] == []


def test_every_field_has_a_valid_example() -> None:
    assert {name: problems for name, field in FIELDS if (problems := problems_of_example(name, field))} == {}


def problems_of_example(name: str, field: Field) -> list[Problem]:
    problems: list[Problem] = []
    (node,) = read_documents(json.dumps(field.example), problems)
    field.shape.read(node, name, problems)
    return problems


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_is_valid(example: str) -> None:
    assert check_manifests([("page", example)], UNBOUNDED).problems == []
