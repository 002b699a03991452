import pytest

from redaction.entity_types import ENTITY_TYPES
from redaction.search.finder import Finder

_FINDER = Finder(ENTITY_TYPES, 0.8)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (
            "\u0433-\u043d \u041f\u0435\u0442\u0440\u043e\u0432 \u043f\u0440\u0438\u0435\u0445\u0430\u043b",
            "\u041f\u0435\u0442\u0440\u043e\u0432",
        ),
        (
            (
                "\u0424\u0418\u041e: \u0418\u0432\u0430\u043d\u043e\u0432 \u0418\u0432\u0430\u043d "
                "\u0418\u0432\u0430\u043d\u043e\u0432\u0438\u0447"
            ),
            (
                "\u0418\u0432\u0430\u043d\u043e\u0432 \u0418\u0432\u0430\u043d "
                "\u0418\u0432\u0430\u043d\u043e\u0432\u0438\u0447"
            ),
        ),
        (
            "\u0406\u043c\u02bc\u044f: \u041e\u043b\u0435\u043d\u0430 \u0428\u0435\u0432\u0447\u0435\u043d\u043a\u043e",
            "\u041e\u043b\u0435\u043d\u0430 \u0428\u0435\u0432\u0447\u0435\u043d\u043a\u043e",
        ),
        (
            (
                "\u039a\u03cd\u03c1\u03b9\u03bf\u03c2 \u039d\u03af\u03ba\u03bf\u03c2 "
                "\u03a0\u03b1\u03c0\u03b1\u03b4\u03cc\u03c0\u03bf\u03c5\u03bb\u03bf\u03c2"
            ),
            "\u039d\u03af\u03ba\u03bf\u03c2 \u03a0\u03b1\u03c0\u03b1\u03b4\u03cc\u03c0\u03bf\u03c5\u03bb\u03bf\u03c2",
        ),
        (
            "\u038c\u03bd\u03bf\u03bc\u03b1: \u039c\u03b1\u03c1\u03af\u03b1 \u03a0\u03b1\u03c0\u03c0\u03ac",
            "\u039c\u03b1\u03c1\u03af\u03b1 \u03a0\u03b1\u03c0\u03c0\u03ac",
        ),
        (
            "\u0627\u0644\u0633\u064a\u062f \u0645\u062d\u0645\u062f \u0627\u0644\u0639\u0644\u064a",
            "\u0645\u062d\u0645\u062f \u0627\u0644\u0639\u0644\u064a",
        ),
        (
            "\u0627\u0644\u0627\u0633\u0645: \u0645\u062d\u0645\u062f \u0639\u0644\u064a",
            "\u0645\u062d\u0645\u062f \u0639\u0644\u064a",
        ),
        ("\u59d3\u540d\uff1a\u738b\u5c0f\u660e", "\u738b\u5c0f\u660e"),
        ("\u738b\u5148\u751f\u4f60\u597d", "\u738b"),
        ("\u5c71\u7530\u592a\u90ce\u69d8", "\u5c71\u7530\u592a\u90ce"),
        ("\uc774\ub984: \uae40\ucca0\uc218", "\uae40\ucca0\uc218"),
        ("\uae40\ucca0\uc218 \uc528", "\uae40\ucca0\uc218"),
    ],
)
def test_a_name_in_another_script_is_found_by_its_title_or_field(text: str, name: str) -> None:
    assert [text[match.start : match.end] for match in _FINDER.find(text)] == [name]


@pytest.mark.parametrize(
    "text",
    [
        "\u304a\u5ba2\u69d8\u3078",
        "\u7686\u3055\u3093",
        "\uace0\uac1d\ub2d8\uaed8",
        "\u0413\u043e\u0441\u043f\u043e\u0434\u0438\u043d \u0443\u0448\u0451\u043b",
        "\u5148\u751f\u4f60\u597d",
        "\u59d3\u540d\u5fc5\u586b",
    ],
)
def test_a_title_without_a_name_stays(text: str) -> None:
    assert _FINDER.find(text) == []
