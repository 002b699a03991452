import pytest

from backend.services.workflows.manifests.nodes import Problem
from backend.services.workflows.manifests.yaml_reader import read_documents


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: 1\nb\nc: 2\n", 2),
        ("steps:\n  - name: a\n    agent b\n  - name: c\n", 3),
        ("a: 1\nb: 'x\nc: 2\n\nd: 3", 2),
        ("a: [1, 2\nb: 3\nc: 4", 1),
        ("a: {x: 1\n\n\nb: 2\n", 1),
        ('a: ["x",\n "y"\n "z"]\n', 2),
        ('a: [\n "x" "y"\n]', 2),
        ("a: b: c\nd: 1", 1),
        ("a: 1\n  b: 2\n", 2),
        ("a:\n   b: 1\n  c: 2\n", 3),
        ("a: @x\nb: 2", 1),
        ("a: 1\n\tb: 2\n", 2),
    ],
)
def test_a_mistake_of_yaml_is_of_the_line_to_correct(text: str, line: int) -> None:
    problems: list[Problem] = []
    read_documents(text, problems)
    assert [each.line for each in problems] == [line]
