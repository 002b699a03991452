"""Encodes protobuf messages as JSON, by functions whose source is generated from the descriptors once at the start.

The form is that of the contract's section 2, not of protobuf's own JSON mapping: snake_case names, numbers as
numbers (also int64), every field present, null where unset.
"""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import takewhile
from typing import Any, Final
from urllib.parse import quote

import orjson
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from contract.fields import (
    DURATION,
    TIMESTAMP,
    enum_of,
    is_links,
    is_map,
    json_name,
    message_of,
    names_in,
    public_fields,
    spellings,
)
from contract.times import milliseconds_of
from workflow_api.v1.options_pb2 import (
    TIME_UNIT_DAYS,
    TIME_UNIT_HOURS,
    TIME_UNIT_MILLISECONDS,
    TIME_UNIT_SECONDS,
    FieldRules,
)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_UNRESERVED: Final = re.compile(r"[A-Za-z0-9_.~-]*")
_INDENT: Final = "    "
_DURATIONS: Final = {
    TIME_UNIT_MILLISECONDS: "milliseconds({})",
    TIME_UNIT_SECONDS: "{}.seconds",
    TIME_UNIT_HOURS: "{}.seconds / 3600",
    TIME_UNIT_DAYS: "{}.seconds // 86400",
}
"""Python source that counts a duration, by unit."""


class ResponseCodec:
    """Encodes the messages of one type as JSON.

    Raises:
        ValueError: a field has no JSON form, or a link names a field that no enclosing message has.
    """

    def __init__(self, message: Descriptor) -> None:
        writer = _Writer()
        open_names = writer.add(message)
        if open_names:
            raise ValueError(f"{message.full_name}: no field fills {', '.join(open_names)} of its links")
        self._to_object: Callable[[Message], dict[str, Any]] = writer.compiled(message)

    def encode(self, message: Message) -> bytes:
        """Returns the message as JSON."""
        return orjson.dumps(self._to_object(message))


def timestamp_text(timestamp: Timestamp) -> str:
    """Returns a time as `2026-09-24T10:15:30.123+00:00`, milliseconds cut off rather than rounded (contract 2.1)."""
    return f"{_second_text(timestamp.seconds)}.{timestamp.nanos // 1_000_000:03d}+00:00"


@lru_cache(maxsize=4096)
def _second_text(seconds: int) -> str:
    # Times of answers lie close together: the text of a second is cached.
    return (_EPOCH + timedelta(seconds=seconds)).isoformat()[:19]


def object_of(
    message: Descriptor, *, raw: Callable[[str], object], links: Callable[[str], object]
) -> Callable[[Message], dict[str, Any]]:
    """Returns the function that makes a message a dict; `raw` and `links` convert the JSON text of such fields."""
    writer = _Writer(raw, links)
    writer.add(message)
    return writer.compiled(message)


def path_segment(value: str) -> str:
    """Returns an id as it stands in a path, percent-encoded where it must be."""
    return value if _UNRESERVED.fullmatch(value) else quote(value, safe="")


class _Writer:
    """Generates a Python function for each message type, which converts a message to a dict and fills its links."""

    def __init__(
        self, raw: Callable[[str], object] = orjson.Fragment, links: Callable[[str], object] = orjson.Fragment
    ) -> None:
        self._source: list[str] = []
        self._open_names: dict[str, tuple[str, ...]] = {}
        self._names: dict[str, Any] = {
            "raw": raw,
            "links": links,
            "time": timestamp_text,
            "milliseconds": milliseconds_of,
            "quote": path_segment,
        }

    def compiled(self, message: Descriptor) -> Callable[[Message], dict[str, Any]]:
        """Returns the function of a type that was added."""
        # Source and names come from our own descriptors, never from a caller.
        exec(compile("\n".join(self._source), f"<codec of {message.full_name}>", "exec"), self._names)  # noqa: S102
        function: Callable[[Message], dict[str, Any]] = self._names[_function(message)]
        return function

    def add(self, message: Descriptor) -> tuple[str, ...]:
        """Writes the functions of a type and its fields' types; returns the link names that the caller must fill."""
        known = self._open_names.get(message.full_name)
        if known is not None:
            return known
        self._open_names[message.full_name] = ()
        body = _Body()
        self._write_fields(message, "m", body)
        own = dict(_paths(message, "m"))
        open_names = tuple(name for name in body.needed if name not in own)
        filled = [f"{_variable(name)} = quote({own[name]})" for name in body.needed if name in own]
        arguments = ", ".join(["m", *map(_variable, open_names)])
        lines = [*filled, *body.written(), "return d"]
        self._source += [f"def {_function(message)}({arguments}):", *(_INDENT + line for line in lines)]
        self._open_names[message.full_name] = open_names
        return open_names

    def _write_fields(self, message: Descriptor, holder: str, body: "_Body") -> None:
        for field, rules in public_fields(message):
            if rules.inline:
                self._write_fields(message_of(field), body.variable(f"{holder}.{field.name}"), body)
                continue
            value = self._value(field, rules, f"{holder}.{field.name}", body)
            present = f'{holder}.HasField("{field.name}")'
            name = json_name(field, rules)
            if not _may_be_unset(field, rules):
                body.members.append((name, value, None))
            elif rules.omit_when_unset:
                body.members.append((name, value, present))
            else:
                body.members.append((name, f"{value} if {present} else None", None))

    def _value(self, field: FieldDescriptor, rules: FieldRules, value: str, body: "_Body") -> str:
        if rules.link:
            body.need(names_in(rules.link))
            template = rules.link
            for name in names_in(rules.link):
                template = template.replace(f"{{{name}}}", f"{{{_variable(name)}}}")
            return f'f"{template}"'
        if is_map(field):
            entry = message_of(field).fields_by_name["value"]
            one = self._single(entry, FieldRules(), "v", body)
            # Sorted, because protobuf keeps no order: the same message is the same bytes.
            pairs = f"sorted({value}.items())"
            return f"dict({pairs})" if one == "v" else f"{{k: {one} for k, v in {pairs}}}"
        if field.is_repeated:
            one = self._single(field, rules, "v", body)
            if rules.or_text:
                return f"{rules.or_text!r} if {value} == [{rules.or_text!r}] else {value}[:]"
            return f"{value}[:]" if one == "v" else f"[{one} for v in {value}]"
        return self._single(field, rules, value, body)

    def _single(self, field: FieldDescriptor, rules: FieldRules, value: str, body: "_Body") -> str:
        if rules.raw_json:
            return f"raw({value}) if {value} else None"
        if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
            enum = enum_of(field)
            table = "enum_" + enum.full_name.replace(".", "_")
            # A number of a later release has no spelling here and is null.
            self._names[table] = spellings(enum).get
            return f"{table}({value})"
        if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
            message = message_of(field)
            if message.full_name == TIMESTAMP:
                return f"time({value})"
            if message.full_name == DURATION:
                return self._duration(field, rules, value)
            if is_links(message):
                return self._links(message, body)
            names = self.add(message)
            body.need(names)
            made = f"{_function(message)}({', '.join([value, *map(_variable, names)])})"
            return f"dict(sorted({made}.items()))" if rules.members_sorted else made
        if field.type == FieldDescriptor.TYPE_BYTES:
            raise ValueError(f"{field.full_name}: bytes have no form in the JSON API")
        return value

    @staticmethod
    def _duration(field: FieldDescriptor, rules: FieldRules, value: str) -> str:
        if rules.unit not in _DURATIONS:
            raise ValueError(f"{field.full_name}: no unit says how the JSON API counts it")
        return _DURATIONS[rules.unit].format(value)

    def _links(self, message: Descriptor, body: "_Body") -> str:
        # Values in links are percent-encoded, so that JSON needs no escapes.
        links = [
            f'"{json_name(field, rules)}":"{self._value(field, rules, "", body)[2:-1]}"'
            for field, rules in public_fields(message)
        ]
        return f"links(f'{{{{{','.join(links)}}}}}')"


class _Body:
    """Body of one generated function, and the names that its links need."""

    def __init__(self) -> None:
        self.members: list[tuple[str, str, str | None]] = []
        """Name, value, and condition for the presence of each member."""
        self.needed: list[str] = []
        self._variables: list[str] = []

    def variable(self, value: str) -> str:
        self._variables.append(value)
        return f"m{len(self._variables)}"

    def written(self) -> list[str]:
        sure = list(takewhile(lambda member: member[2] is None, self.members))
        display = ", ".join(f'"{name}": {value}' for name, value, _ in sure)
        return [
            *(f"m{number} = {value}" for number, value in enumerate(self._variables, start=1)),
            # One dict display costs less than adding members one by one.
            f"d = {{{display}}}",
            *(
                f'd["{name}"] = {value}' if condition is None else f'if {condition}: d["{name}"] = {value}'
                for name, value, condition in self.members[len(sure) :]
            ),
        ]

    def need(self, names: tuple[str, ...]) -> None:
        self.needed += [name for name in names if name not in self.needed]


def _function(message: Descriptor) -> str:
    return "object_" + message.full_name.replace(".", "_")


def _variable(name: str) -> str:
    return f"link_{name}"


def _may_be_unset(field: FieldDescriptor, rules: FieldRules) -> bool:
    if rules.link or not field.has_presence or (rules.raw_json and not rules.omit_when_unset):
        return False
    return field.message_type is None or not is_links(field.message_type)


def _paths(message: Descriptor, holder: str) -> Iterator[tuple[str, str]]:
    """Yields names and expressions of strings that may fill a link: inlined ones, then the message's own."""
    for field, rules in public_fields(message):
        if rules.inline:
            yield from _paths(message_of(field), f"{holder}.{field.name}")
    for field in message.fields:
        if field.type == FieldDescriptor.TYPE_STRING and not field.is_repeated:
            yield field.name, f"{holder}.{field.name}"
