"""JSON Schemas of workflow parameters, limited to features that the validators of all hosts support."""

import re
from collections.abc import Mapping
from typing import Any, Final

from workflow_api_client.generated import records

_TYPES: Final[Mapping[str, Mapping[str, Any]]] = {
    "string": {"type": "string"},
    "integer": {"type": "integer"},
    "number": {"type": "number"},
    "boolean": {"type": "boolean"},
    "date": {"type": "string", "format": "date"},
    "json": {},
    "s3_prefix": {"type": "string", "pattern": "^s3://"},
}
_NUMBERS: Final = frozenset({"integer", "number"})
_BOUNDS: Final = {"minimum": "minimum", "maximum": "maximum"}
_LENGTHS: Final = {"min_length": "minLength", "max_length": "maxLength"}

# Syntax of patterns that RE2, ECMAScript with the flag `u`, and Python's `re` read alike.
_ONE: Final = r"\\[nrtfv^$\\.*+?()\[\]{}|/]|\\x[0-9A-Fa-f]{2}"
_ESCAPED: Final = rf"\\[dDwWsS]|{_ONE}"
_MEMBER: Final = rf"(?:{_ONE}|\\-|[^\\\[\]^&~|-])"
_CLASS: Final = rf"\[\^?(?=[^\]])-?(?!-)(?:{_MEMBER}-{_MEMBER}|\\[dDwWsS]|{_MEMBER})*-?\]"
_QUANTIFIER: Final = r"(?:(?:[*+?]|\{[0-9]{1,4}(?:,[0-9]{0,4})?\})\??)?"
_ATOM: Final = rf"(?:{_CLASS}|{_ESCAPED}|\.|[^\\^$.|?*+()\[\]{{}}])"
_PORTABLE: Final = re.compile(rf"(?:{_ATOM}{_QUANTIFIER}|[|^$]|\\[bB]|\((?:\?:)?|\){_QUANTIFIER})*")


def schema_of(parameter: records.Parameter) -> dict[str, Any]:
    """Returns the schema of a parameter; its description has the rules that JSON Schema cannot express."""
    schema: dict[str, Any] = dict(_TYPES.get(parameter.type, {}))
    notes = [parameter.description] if parameter.description else []
    for name, keyword in _BOUNDS.items():
        bound = getattr(parameter, name)
        if bound is None:
            continue
        if parameter.type in _NUMBERS:
            schema[keyword] = bound
        else:
            notes.append(f"{name.capitalize()}: {bound}.")
    for name, keyword in _LENGTHS.items():
        if getattr(parameter, name) is not None:
            schema[keyword] = getattr(parameter, name)
    if parameter.enum is not None:
        schema["enum"] = parameter.enum
    if parameter.default is not None:
        schema["default"] = parameter.default
    if parameter.pattern is not None:
        # The declared pattern matches the whole value.
        if is_portable(parameter.pattern):
            schema["pattern"] = f"^(?:{parameter.pattern})$"
        else:
            notes.append(f"The whole value matches this RE2 expression: {parameter.pattern}")
    if notes:
        schema["description"] = "\n".join(notes)
    return schema


def is_portable(pattern: str) -> bool:
    """Returns whether an RE2 pattern is also valid in ECMAScript with the flag `u` and in Python."""
    if not _PORTABLE.fullmatch(pattern):
        return False
    try:
        re.compile(pattern)
    except (re.error, OverflowError):
        return False
    return True
