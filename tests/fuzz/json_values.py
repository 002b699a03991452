"""JSON bodies that are built: fields of the three routes that take a body, in every spelling that JSON allows."""

import random
from collections.abc import Iterator

from tests.fuzz import json_bodies
from tests.fuzz.choices import Choices
from tests.fuzz.target import Target

_FIELDS = (
    "parameters",
    "input_text",
    "client_reference",
    "labels",
    "pii_policy_override",
    "version",
    "reason",
    "a",
    "",
)
_LETTERS = ("a", "~", " ", "é", "日", "😀", "\x7f", ":", "{", "]", ",", "/", "\u2028", "\uffff", '"', "\\", "\n", "\0")
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "/": "\\/"}
_BLANKS = ("", "", "", " ", "\t", "\r\n", "  ")
_WORDS = ("null", "true", "false", "{}", "[]", '""', "1", "0", "-0", "1.0", "9" * 18, "9" * 19, "9" * 309, "-1e-400")
_LENGTHS = (0, 1, 2, 10, 11, 64, 65, 256, 257, 500, 501, 20_000, 20_001)
_DEPTHS = (1, 2, 253, 254, 255, 996, 997, 998, 999, 1_000, 1_001)


def check(data: bytes) -> None:
    """Holds of the body that the choices come to what `json_bodies` holds of any."""
    body = spelled(Choices(data)).encode()
    try:
        json_bodies.check(body)
    except BaseException as error:
        error.add_note(f"the body: {body!r}")
        raise


def spelled(choices: Choices) -> str:
    """One body, nearly always JSON."""
    return _blanks(choices) + _object(choices, 0) + _blanks(choices)


def _blanks(choices: Choices) -> str:
    return choices.one_of(_BLANKS)


def _object(choices: Choices, depth: int) -> str:
    members = (
        f"{_blanks(choices)}{_name(choices)}{_blanks(choices)}:{_blanks(choices)}{_value(choices, depth + 1)}"
        for _ in range(choices.below(7 if depth else 12))
    )
    return "{" + ",".join(members) + _blanks(choices) + "}"


def _name(choices: Choices) -> str:
    return _text(choices, choices.one_of(_FIELDS)) if choices.below(4) else _string(choices)


def _value(choices: Choices, depth: int) -> str:
    match choices.below(8) if depth < 20 else 0:
        case 1 | 2:
            return _object(choices, depth)
        case 3:
            items = (_value(choices, depth + 1) + _blanks(choices) for _ in range(choices.below(6)))
            return f"[{','.join(items)}]"
        case 4:
            levels = choices.one_of(_DEPTHS)
            return "[" * levels + _value(choices, 20) + "]" * levels
        case 5:
            return _number(choices)
        case 6 | 7:
            return _string(choices)
    return choices.one_of(_WORDS)


def _number(choices: Choices) -> str:
    digits = "".join(str(choices.below(10)) for _ in range(choices.below(24)))
    sign, fraction = choices.one_of(("", "-")), choices.one_of(("", f".{digits}5", ".0"))
    exponent = choices.one_of(("", "", f"e{choices.below(400)}", f"E-{choices.below(400)}", "e+0"))
    return f"{sign}{choices.below(10)}{fraction}{exponent}" if fraction or exponent else f"{sign}1{digits}"


def _string(choices: Choices) -> str:
    if choices.below(3):
        return _text(choices, "".join(choices.one_of(_LETTERS) for _ in range(choices.below(12))))
    return '"' + choices.one_of(("a", "é", "😀")) * choices.one_of(_LENGTHS) + '"'


def _text(choices: Choices, text: str) -> str:
    """A string of JSON, each character as it is or in one of its escapes."""
    how = choices.below(4)
    parts = []
    for letter in text:
        escaped = (choices.below(2) if how == 1 else how == 2) or letter < " "
        if letter in _ESCAPES and not escaped:
            parts.append(_ESCAPES[letter])
        elif escaped:
            units = letter.encode("utf-16-be")
            parts += [f"\\u{units[at]:02{'Xx'[how % 2]}}{units[at + 1]:02x}" for at in range(0, len(units), 2)]
        else:
            parts.append(letter)
    return f'"{"".join(parts)}"'


def seeds() -> Iterator[bytes]:
    """Rows of choices that lead everywhere."""
    generator = random.Random(0)
    return (generator.randbytes(length) for length in (0, 10, 20, 40, 80, 160, 320) for _ in range(20))


TARGET = Target(name="json_values", check=check, seeds=seeds, words=(), longest=512)
