"""Readers of the fields of a JSON body.

A reader is made once per field. It returns the field's value, or `None` when the value is absent or wrong, and adds
problems to the findings. A field given as null counts as absent, which is decided before a reader is called.
"""

import re
from collections.abc import Callable
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor

from contract.bounds import NO_NUL, ItemBounds, NumberBounds, TextBounds
from contract.fields import INTEGERS, is_map, json_name
from edge.codec.json_body import write_json
from edge.codec.text_fields import Findings, violation_of
from workflow_api.v1.options_pb2 import FieldRules

BodyReader = Callable[[Any, Findings], Any]

# The escape of U+0000 in JSON text, where a backslash itself is escaped.
_NUL: Final = re.compile(r"(?<!\\)(?:\\\\)*+\\u0000")


def body_reader(field: FieldDescriptor, rules: FieldRules) -> BodyReader:
    """Returns the reader of a field of a body.

    Raises:
        ValueError: a body cannot carry the field's type.
    """
    if is_map(field):
        return _text_map_reader(field, rules)
    if rules.raw_json:
        return _raw_json_reader(field, rules)
    if field.cpp_type in INTEGERS:
        return _number_reader(field, rules)
    if field.type == FieldDescriptor.TYPE_STRING:
        return _text_reader(field, rules)
    raise ValueError(f"{field.full_name}: a body's field is a string, an integer, a map of strings or raw JSON")


def _text_reader(field: FieldDescriptor, rules: FieldRules) -> BodyReader:
    bounds = TextBounds(rules)
    name, code = json_name(field, rules), violation_of(rules)

    def read(value: Any, findings: Findings) -> str | None:
        reason = _text_problem(value, bounds)
        if reason is None:
            return str(value)
        findings.add(code, name, reason)
        return None

    return read


def _text_problem(value: Any, bounds: TextBounds) -> str | None:
    return bounds.violation(value) if isinstance(value, str) else "must be a string"


def _number_reader(field: FieldDescriptor, rules: FieldRules) -> BodyReader:
    bounds = NumberBounds(field, rules)
    name, code = json_name(field, rules), violation_of(rules)

    def read(value: Any, findings: Findings) -> int | None:
        # JSON's true is an int to Python, and 1.0 equals one.
        if type(value) is int and bounds.accepts(value):
            return bounds.carried(value)
        findings.add(code, name, f"must be {bounds.allowed}")
        return None

    return read


def _text_map_reader(field: FieldDescriptor, rules: FieldRules) -> BodyReader:
    key_bounds, value_bounds = TextBounds(rules.keys), TextBounds(rules.values)
    item_bounds = ItemBounds(rules, "members")
    name, code = json_name(field, rules), violation_of(rules)

    def read(value: Any, findings: Findings) -> dict[str, str] | None:
        if not isinstance(value, dict):
            findings.add(code, name, "must be an object of strings")
            return None
        too_many = item_bounds.violation(len(value))
        if too_many is not None:
            findings.add(code, name, too_many)
            return None
        for key, member in value.items():
            named = f"{name}.{key}" if key else name
            if not key_bounds.accepts(key):
                findings.add(code, named, f"the name of a member must be {key_bounds.allowed}")
            reason = _text_problem(member, value_bounds)
            if reason is not None:
                findings.add(code, named, reason)
        return value

    return read


def _raw_json_reader(field: FieldDescriptor, rules: FieldRules) -> BodyReader:
    name, code = json_name(field, rules), violation_of(rules)
    needs_object = rules.raw_json_kind == "object"
    bounds = ItemBounds(rules, "members") if rules.HasField("max_items") else None

    def read(value: Any, findings: Findings) -> str | None:
        if needs_object and not isinstance(value, dict):
            findings.add(code, name, "must be an object")
            return None
        too_many = bounds.violation(len(value)) if bounds is not None else None
        if too_many is not None:
            findings.add(code, name, too_many)
            return None
        text = write_json(value)
        if _NUL.search(text):
            findings.add(code, name, NO_NUL)
            return None
        return text

    return read
