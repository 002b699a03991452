"""Fields of an approval's form: its values as a page shows them, and as a decision sends them."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from console.forms.urlencoded import Form, Problems
from contract.refusals import Refusal

PREFIX: Final = "form."
"""Beginning of the names of the fields, as of the names in problems."""

_LONG_CHARS: Final = 100
_FLAGS: Final = (("true", "yes"), ("false", "no"))
_INTEGER: Final = re.compile(r"-?[0-9]{1,16}")


class FormField(NamedTuple):
    """A field of a form.

    Attributes:
        name: Name of the field in requests.
        kind: `text`, `area` or `select`.
        options: Of a `select`: values and their labels.
        bounds: The allowed values, in words.
    """

    name: str
    label: str
    help: str
    kind: str
    required: bool
    longest: int | None
    options: Sequence[tuple[str, str]]
    value: str
    problem: str


def sent_texts(form: Form) -> dict[str, str]:
    """Returns the texts of the fields that were sent, by the names of their values."""
    return {
        name.removeprefix(PREFIX): texts[0].strip() for name, texts in form.items() if name.startswith(PREFIX) and texts
    }


def form_fields(schema: str, texts: Mapping[str, str], problems: Problems) -> list[FormField]:
    """Returns the fields of a form, given as JSON Schema, with texts by name and problems by `form.<name>`."""
    form = json.loads(schema)
    required = frozenset(form.get("required", ()))
    return [
        _field(name, value, texts.get(name, ""), problems.get(PREFIX + name, ""), required=name in required)
        for name, value in form["properties"].items()
    ]


def _field(name: str, value: Mapping[str, object], text: str, problem: str, *, required: bool) -> FormField:
    kind, longest = "text", value.get("maxLength")
    options: Sequence[tuple[str, str]] = ()
    allowed = value.get("enum")
    if value["type"] == "boolean":
        options = _FLAGS
    elif isinstance(allowed, list):
        options = [(str(each), str(each)) for each in allowed]
    elif value["type"] == "string" and (not isinstance(longest, int) or longest > _LONG_CHARS):
        kind = "area"
    if options:
        kind, options = "select", [("", "choose"), *options]
    about = str(value.get("description") or "").rstrip(".")
    notes = ". ".join(filter(None, (about, _bounds(value, required=required))))
    return FormField(
        name=PREFIX + name,
        label=str(value.get("title") or name),
        help=notes + ".",
        kind=kind,
        required=required,
        longest=longest if isinstance(longest, int) else None,
        options=options,
        value=text,
        problem=problem,
    )


def _bounds(value: Mapping[str, object], *, required: bool) -> str:
    """Returns the allowed values of a field, in words."""
    parts = [] if required else ["Optional"]
    if value["type"] in {"integer", "number"}:
        parts.append("a whole number" if value["type"] == "integer" else "a number")
    for name, words in (("minimum", "at least {}"), ("maximum", "at most {}")):
        if (bound := value.get(name)) is not None:
            parts.append(words.format(_number_text(bound)))
    for name, words in (("minLength", "at least {} characters"), ("maxLength", "at most {} characters")):
        if bound := value.get(name):
            parts.append(words.format(f"{bound:,}"))
    text = ", ".join(parts) or "Required"
    return text[0].upper() + text[1:]


def _number_text(bound: object) -> str:
    """Returns a bound as people write it: `0`, not `0.0`."""
    return f"{int(bound):,}" if isinstance(bound, float) and bound.is_integer() else f"{bound:,}"


def form_values(schema: str, texts: Mapping[str, str]) -> str:
    """Returns the values that were filled in, as JSON; a text that is no value of its type stays text.

    The backend alone validates them. An empty text is no value.
    """
    properties: Mapping[str, Mapping[str, object]] = json.loads(schema)["properties"]
    kinds = {name: str(value["type"]) for name, value in properties.items()}
    return json.dumps({name: _typed(kinds.get(name, ""), text) for name, text in texts.items() if text})


def _typed(kind: str, text: str) -> object:
    if kind == "boolean":
        return {"true": True, "false": False}.get(text, text)
    if kind == "integer" or (kind == "number" and _INTEGER.fullmatch(text)):
        return int(text) if _INTEGER.fullmatch(text) else text
    if kind == "number":
        try:
            number = float(text)
        except ValueError:
            return text
        # JSON has no infinity.
        return number if abs(number) < float("inf") else text
    return text


def form_problems(refusal: Refusal) -> dict[str, str]:
    """Returns the problems of the form of a decision, by `form` and `form.<name>`; none if other fields are refused."""
    found = dict(_named(refusal))
    return found if all(name == "form" or name.startswith(PREFIX) for name in found) else {}


def _named(refusal: Refusal) -> Iterator[tuple[str, str]]:
    if refusal.code == "invalid_request" and isinstance(refusal.details, list):
        for problem in refusal.details:
            yield str(problem["name"]), str(problem["reason"])
