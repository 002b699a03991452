import pytest

from backend.services.workflows.manifests.nodes import Problem
from backend.services.workflows.manifests.yaml_reader import read_documents, read_file

_ABOVE = "kind: Workflow\nname: one\n"
_BELOW = "status: active\nlabels:\n  team: a\n"

_MISTAKES = {
    "an unclosed single quote": ("description: 'it is\n", 1),
    "an unclosed double quote": ('description: "it is\n', 1),
    "an unclosed quote that a later one closes": ("description: 'it is\nother: 'x'\n", 1),
    "an unclosed quote of an item": ("steps:\n  - name: 'a\n    agent: b\n  - name: c\n    agent: d\n", 2),
    "a quote within quotes": ("description: 'it's one'\n", 1),
    "text behind a quote": ('description: "a" b\n', 1),
    "an unknown escape": ('description: "\\q"\n', 1),
    "an indentation by a tab": ("steps:\n\t- name: a\n\t  agent: b\n\t- name: c\n", 2),
    "a tab within an item": ("steps:\n  - name: a\n\tagent: b\n  - name: c\n", 3),
    "a field indented too far": ("steps:\n  - name: a\n      agent: b\n    needs: [c]\n  - name: c\n", 3),
    "a field indented too little": ("steps:\n  - name: a\n   agent: b\n  - name: c\n", 3),
    "a field beside its item": ("steps:\n  - name: a\n  agent: b\n  - name: c\n", 3),
    "a field within a value": ("description: x\n  more: y\n  most: z\n", 2),
    "an item beside fields": ("- name: a\n- name: b\n", 1),
    "an item indented too little": ("steps:\n    - name: a\n      agent: b\n   - name: c\n     agent: d\n", 4),
    "no blank behind a colon": ("description:x\n", 1),
    "no blank behind the colon of an item": ("steps:\n  - name:a\n    agent: b\n  - name: c\n", 2),
    "no blank behind a later colon of an item": ("steps:\n  - name: a\n    agent:b\n  - name: c\n", 3),
    "no colon": ("description x\n", 1),
    "no colon of an item": ("steps:\n  - name: a\n    agent b\n  - name: c\n", 3),
    "a second colon": ("description: a: b\n", 1),
    "an unclosed list": ("needs: [a, b\n", 1),
    "an unclosed list of several lines": ("needs: [\n  a,\n  b\n", 3),
    "an unclosed list in an item": ("steps:\n  - name: a\n    needs: [b, c\n    agent: d\n  - name: e\n", 3),
    "an unclosed mapping": ("needs: {a: 1, b: 2\n", 1),
    "a list closed as a mapping": ("needs: [a, b}\n", 1),
    "a list within a mapping not closed": ("needs:\n  - {a: [1, 2}\n  - {b: 2}\n", 2),
    "a missing comma": ('needs: [\n  "a",\n  "b"\n  "c",\n  "d"\n]\n', 3),
    "a bracket too many": ("needs: [a]]\n", 1),
    "an unknown anchor": ("parameters: *nowhere\nresult: *nowhere\n", 1),
    "an anchor without a name": ("parameters: & x\n", 1),
    "a tag": ("parameters: !python/object x\n", 1),
    "a reserved character": ("description: @x\n", 1),
    "a percent sign": ("description: %x\n", 1),
    "a block text with more in its first line": ("description: |x\n  one\n  two\n", 1),
    "a block text without indentation": ("description: |\nimport os\nimport sys\n\nimport re\nprint(os)\n", 2),
}
_READABLE = "kind: Agent\nname: two\n"


def _problems(text: str) -> list[Problem]:
    problems: list[Problem] = []
    read_documents(text, problems)
    return problems


@pytest.mark.parametrize("mistake", _MISTAKES)
def test_a_single_mistake_is_one_problem_of_its_line(mistake: str) -> None:
    text, line = _MISTAKES[mistake]
    text = f"{_ABOVE}{text}{_BELOW}"
    if mistake != "an item beside fields":
        assert [each.line for each in _problems(text)] == [line + 2], _problems(text)
    assert [each.line for each in _problems(f"{_READABLE}---\n{text}---\n{_READABLE}")] == [line + 5]


# Each mistake comes before and behind three others. What follows a block text without indentation may be text.
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (first, second)
        for distance in (1, 11, 23)
        for first, second in zip(_MISTAKES, [*_MISTAKES][distance:] + [*_MISTAKES][:distance], strict=True)
        if first != "a block text without indentation"
    ],
)
def test_mistakes_apart_from_each_other_are_told_together(first: str, second: str) -> None:
    above, line = _MISTAKES[first]
    below, other = _MISTAKES[second]
    between = "between: active\nretention: 3\n"
    text = f"{_ABOVE}{above}{between}{below.replace('*nowhere', '*elsewhere')}{_BELOW}"
    apart = 2 + above.count("\n") + 2 + other
    found = [each.line for each in _problems(text) if each.reason != "must not be given twice"]
    assert found == [line + 2, apart], (text, _problems(text))


def test_a_mistake_of_syntax_has_its_column() -> None:
    assert [each.reason.rpartition(", at ")[2] for each in _problems("a: 'x\nb: 1\nc: [1, 2\nd: 1\ne: @x\n")] == [
        "column 4",
        "column 9",
        "column 4",
    ]


def test_documents_beside_one_with_a_mistake_are_read() -> None:
    problems: list[Problem] = []
    text = f"%YAML 1.1\n---\n{_READABLE}---\nkind: 'x\n---\n{_READABLE}...\n---\na: [\n---\n{_READABLE}"
    read = read_file(text, problems)
    assert [each.line for each in read.documents] == [3, 8, 14]
    assert [each.line for each in problems] == [6, 12]
    assert not read.complete


def test_at_most_ten_mistakes_of_a_document_are_told() -> None:
    assert len(_problems("a: @x\nb: 1\n" * 50)) == 10
