"""The form that starts a run: one field for each declared parameter, and the values that were typed into it."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from console.rendering.formatting import json_lines

PREFIX: Final = "p."
"""Before the names of parameters in the form, which has fields of its own."""

_LONG: Final = 200
_SHOWN: Final = 60
_NUMBERS: Final = {"integer": "a whole number", "number": "a number"}

Declared = Mapping[str, Any]


class StartField(NamedTuple):
    """A field of the form.

    Attributes:
        name: Of the parameter.
        kind: How it is typed in: `text`, `area`, `json`, `number`, `date`, `choice` or `s3_prefix`.
        value: The text of the field.
        options: Values and labels of a choice.
        step: Of a number.
        excerpt: Of JSON that cannot be read, the line with the error and a mark below its place.
    """

    name: str
    kind: str
    required: bool
    value: str
    help: str
    options: Sequence[tuple[str, str]] = ()
    step: str = ""
    minimum: str = ""
    maximum: str = ""
    min_length: int | None = None
    max_length: int | None = None
    error: str = ""
    excerpt: str = ""


class JsonPlaceError(ValueError):
    """JSON that cannot be read: the message has line and column, `excerpt` shows the place."""

    def __init__(self, message: str, excerpt: str) -> None:
        super().__init__(message)
        self.excerpt = excerpt


def start_fields(
    declared: Sequence[Declared], typed: Mapping[str, str], problems: Mapping[str, str]
) -> list[StartField]:
    """Returns the fields with their texts and the problems of parameters, by name."""
    return [_field(each, typed.get(each["name"], ""), problems.get(each["name"], "")) for each in declared]


def initial_texts(declared: Sequence[Declared], values: Mapping[str, Any]) -> dict[str, str]:
    """Returns the texts of fields that stand for these values; parameters without one are empty."""
    texts = {each["name"]: _text(each, values[each["name"]]) for each in declared if each["name"] in values}
    return {name: text for name, text in texts.items() if text or values[name] is not None}


def carried_texts(shown: Sequence[Declared], chosen: Sequence[Declared], typed: Mapping[str, str]) -> dict[str, str]:
    """Returns what was typed as texts of another version's fields, where that has a parameter of the name.

    A text stays as it is where the field is of the same kind, or where it stands for no value.
    """
    before = {each["name"]: each for each in shown}
    texts: dict[str, str] = {}
    for each in chosen:
        if (old := before.get(each["name"])) is None:
            continue
        text = typed.get(each["name"], "")
        if _kind(old) != _kind(each) and text.strip():
            with suppress(ValueError):
                text = _text(each, json.loads(_json(old, text)))
        texts[each["name"]] = text
    return texts


def json_of(declared: Sequence[Declared], typed: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Returns the parameters as JSON, and the problems of texts that stand for no value; an empty text is not sent.

    Numbers and JSON keep their spelling, so that no digit is lost.
    """
    members: list[str] = []
    problems: dict[str, str] = {}
    for each in declared:
        text = typed.get(each["name"], "")
        if not text.strip():
            continue
        try:
            members.append(f"{json.dumps(each['name'])}: {_json(each, text)}")
        except ValueError as error:
            problems[each["name"]] = str(error)
    return "{" + ", ".join(members) + "}", problems


def read_json(text: str) -> None:
    """Reads JSON only to check it.

    Raises:
        JsonPlaceError: it is none.
    """
    try:
        json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        # As the line of the error is counted: other marks that end a line may stand within a string.
        line = text.split("\n")[error.lineno - 1]
        start = max(0, error.colno - 1 - _SHOWN // 2)
        excerpt = f"{line[start : start + _SHOWN]}\n{' ' * (error.colno - 1 - start)}^"
        message = f"is not JSON: line {error.lineno}, column {error.colno}: {error.msg}"
        raise JsonPlaceError(message, excerpt) from None
    except (ValueError, RecursionError) as error:
        raise JsonPlaceError(f"is not JSON: {error}", "") from None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a value of JSON")


def _json(declared: Declared, text: str) -> str:
    if declared.get("enum") is not None or declared["type"] == "boolean":
        # Choices are sent as their JSON.
        read_json(text)
        return text
    if declared["type"] in _NUMBERS:
        number = text.strip()
        try:
            value = json.loads(number, parse_constant=_refuse_constant)
        except ValueError:
            value = None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"must be {_NUMBERS[declared['type']]}")
        return number
    if declared["type"] == "json":
        read_json(text)
        return text
    return json.dumps(text.strip() if declared["type"] in {"date", "s3_prefix"} else text)


def _field(declared: Declared, value: str, error: str) -> StartField:
    excerpt = ""
    if error and declared["type"] == "json" and value.strip():
        try:
            read_json(value)
        except JsonPlaceError as place:
            excerpt = place.excerpt
    numeric = declared["type"] in _NUMBERS
    return StartField(
        name=declared["name"],
        # A line of text would lose the line breaks of a value.
        kind="area" if _kind(declared) == "text" and "\n" in value else _kind(declared),
        required=bool(declared.get("required")) and declared.get("default") is None,
        value=value,
        help=_help(declared),
        options=_options(declared),
        step={"integer": "1", "number": "any"}.get(declared["type"], ""),
        minimum=_bound(declared, "minimum") if numeric else "",
        maximum=_bound(declared, "maximum") if numeric else "",
        min_length=declared.get("min_length"),
        max_length=declared.get("max_length"),
        error=error,
        excerpt=excerpt,
    )


def _kind(declared: Declared) -> str:
    if declared.get("enum") is not None or declared["type"] == "boolean":
        return "choice"
    if declared["type"] == "string":
        return "area" if (declared.get("max_length") or 0) > _LONG else "text"
    return "number" if declared["type"] in _NUMBERS else str(declared["type"])


def _options(declared: Declared) -> list[tuple[str, str]]:
    values = declared.get("enum")
    if values is None:
        if declared["type"] != "boolean":
            return []
        values = [True, False]
    none = "choose" if declared.get("required") and declared.get("default") is None else "not given"
    if declared.get("default") is not None:
        none = f"default: {_label(declared['default'])}"
    return [("", none), *((json.dumps(value), _label(value)) for value in values)]


def _label(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _help(declared: Declared) -> str:
    parts = [declared.get("description") or ""]
    if declared.get("default") is not None and _kind(declared) != "choice":
        parts.append(f"Empty means {json.dumps(declared['default'], ensure_ascii=False)}.")
    low, high = _bound(declared, "minimum"), _bound(declared, "maximum")
    if low and high:
        parts.append(f"From {low} to {high}.")
    elif low or high:
        parts.append(f"At least {low}." if low else f"At most {high}.")
    if declared.get("pattern") is not None:
        parts.append(f"All of it matches {declared['pattern']}.")
    if declared["type"] == "s3_prefix":
        parts.append("Of the form s3://bucket/prefix/.")
    return " ".join(part for part in parts if part)


def _bound(declared: Declared, name: str) -> str:
    bound = declared.get(name)
    return "" if bound is None else json.dumps(bound)


def _text(declared: Declared, value: Any) -> str:
    if value is None and declared["type"] != "json":
        return ""
    if _kind(declared) == "choice" or declared["type"] in _NUMBERS:
        return json.dumps(value)
    if declared["type"] == "json":
        return json_lines(json.dumps(value, ensure_ascii=False))
    return value if isinstance(value, str) else json.dumps(value)
