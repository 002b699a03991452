"""Writes the generated part of the Python client into the folder given: records, errors and routes of the public API.

`scripts/generate.py` runs it in a process of its own, which imports the protos as they were just compiled.
"""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor, MethodDescriptor
from google.protobuf.descriptor_pb2 import MethodOptions

from contract.fields import (
    enum_of,
    is_duration,
    is_links,
    is_map,
    is_timestamp,
    json_name,
    message_of,
    public_fields,
    rules_of,
    spellings,
)
from contract.refusals import BY_CODE
from contract.routes import BASE, Route, RouteTable
from edge.openapi.comments import comments
from edge.openapi.failures import meaning
from edge.openapi.schemas import json_type
from workflow_api.v1.options_pb2 import TIME_UNIT_HOURS, FieldRules

EDITED = "Made from the protos by `make generate`; never edited by hand."
WIDTH = 110
PLAIN = {
    FieldDescriptor.CPPTYPE_STRING: "str",
    FieldDescriptor.CPPTYPE_BOOL: "bool",
    FieldDescriptor.CPPTYPE_DOUBLE: "float",
    FieldDescriptor.CPPTYPE_INT32: "int",
    FieldDescriptor.CPPTYPE_INT64: "int",
}
KINDS = {"object": "dict[str, Any]", "array": "list[Any]", "": "Any"}
RECORD = "@dataclass(frozen=True, slots=True, kw_only=True)"
ANY_EVENT = "An event of any type; `event.type` tells which."
EVENT_CLASSES = "The class of every type of event."
ERROR_CLASSES = "The exception of every error code."
ERROR_STATUSES = "The HTTP status of every error code."
IMPORTS = """\
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, TypedDict, Union
"""
EVENT_ID = 'id: str\n"""Segment and number, `<segment_id>:<seq>`: where `events(after=...)` continues."""'


class Records:
    """Collects the Python types of all messages in answers."""

    def __init__(self) -> None:
        self._code: dict[str, str] = {}
        self._tags: dict[str, str] = {}

    def module(self, messages: Sequence[Descriptor]) -> str:
        """Returns the module with the types of these messages and of everything in them."""
        for message in messages:
            self._type(message)
        tags = "".join(f"{tag!r}: {name}," for tag, name in self._tags.items())
        return "\n\n".join(
            [
                f'"""Records that the API answers with, as dataclasses. {EDITED}"""',
                IMPORTS,
                *self._code.values(),
                f"AnyEvent = Union[{', '.join(self._tags.values())}]\n{_docstring(ANY_EVENT)}",
                f"EVENT_TYPES: Final[Mapping[str, type[Event]]] = {{{tags}}}\n{_docstring(EVENT_CLASSES)}",
            ]
        )

    def _type(self, message: Descriptor) -> str:
        shown = list(public_fields(message))
        if len(shown) == 1 and shown[0][1].inline:
            return self._type(message_of(shown[0][0]))
        if message.name not in self._code:
            self._code[message.name] = ""
            # Types of members come before the type that has them.
            code = self._record(message)
            del self._code[message.name]
            self._code[message.name] = code
            for field, rules in shown:
                if rules.tagged_by:
                    self._events(message, field, rules)
        return message.name

    def _record(self, message: Descriptor) -> str:
        bases = [self._type(message_of(field)) for field, rules in public_fields(message) if rules.inline]
        members = [
            f"{json_name(field, rules)}: {self._annotation(field, rules)}"
            f"{' = None' if rules.omit_when_unset else ''}\n{_docstring(comments()[field.full_name])}"
            for field, rules in public_fields(message)
            if not rules.inline
        ]
        if message.name == "Event":
            members.insert(0, EVENT_ID)
        inherited = f"({', '.join(bases)})" if bases else ""
        head = f"{RECORD}\nclass {message.name}{inherited}:"
        return _block(head, [_docstring(comments()[message.full_name]), *members])

    def _events(self, message: Descriptor, field: FieldDescriptor, rules: FieldRules) -> None:
        for member in json_type(rules).fields:
            tag, name = rules_of(member).tag, f"{camel_case(member.name)}{message.name}"
            data = self._data(message_of(member))
            lines = [
                _docstring(comments()[member.full_name]),
                f"{rules.tagged_by}: Literal[{tag!r}]",
                f"{json_name(field, rules)}: {data}",
            ]
            self._code[name] = _block(f"{RECORD}\nclass {name}({message.name}):", lines)
            self._tags[tag] = name

    def _data(self, message: Descriptor) -> str:
        """Returns the name of the TypedDict of an event's data, whose times stay text."""
        name = message.name if message.name.endswith("Data") else f"{message.name}Data"
        if name in self._code:
            return name
        always: list[str] = []
        sometimes: list[str] = []
        for field, rules in public_fields(message):
            if rules.inline:
                continue
            line = f"{json_name(field, rules)}: {self._annotation(field, rules, omitted=False, times='str')}"
            (sometimes if rules.omit_when_unset or rules.may_be_absent else always).append(
                f"{line}\n{_docstring(comments()[field.full_name])}"
            )
        base = "TypedDict"
        if always and sometimes:
            base = f"_{name}Always"
            self._code[base] = _block(f"class {base}(TypedDict):", always)
        total = ", total=False" if sometimes else ""
        self._code[name] = _block(
            f"class {name}({base}{total}):", [_docstring(comments()[message.full_name]), *(sometimes or always)]
        )
        return name

    def _annotation(
        self, field: FieldDescriptor, rules: FieldRules, *, omitted: bool = True, times: str = "datetime"
    ) -> str:
        if is_map(field):
            value = message_of(field).fields_by_name["value"]
            return f"dict[str, {self._single(value, FieldRules(), times)}]"
        single = self._single(field, rules, times)
        if field.is_repeated:
            return f"list[{single}] | Literal[{rules.or_text!r}]" if rules.or_text else f"list[{single}]"
        return f"{single} | None" if is_nullable(field, rules, omitted=omitted) and single != "Any" else single

    def _single(self, field: FieldDescriptor, rules: FieldRules, times: str) -> str:
        if rules.raw_json:
            return self._json(rules)
        if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
            return self._enum(enum_of(field))
        if field.cpp_type != FieldDescriptor.CPPTYPE_MESSAGE:
            return PLAIN[field.cpp_type]
        if is_timestamp(field):
            return times
        if is_duration(field):
            return "float" if rules.unit == TIME_UNIT_HOURS else "int"
        return self._type(message_of(field))

    def _json(self, rules: FieldRules) -> str:
        if rules.tagged_by:
            return "Mapping[str, Any]"
        if not rules.json_type:
            return KINDS[rules.raw_json_kind]
        name = self._type(json_type(rules))
        return f"list[{name}]" if rules.json_list else name

    def _enum(self, enum: EnumDescriptor) -> str:
        name = f"{enum.containing_type.name if enum.containing_type else ''}{enum.name}"
        words = ", ".join(repr(word) for word in spellings(enum).values() if word)
        self._code.setdefault(name, f"{name} = Literal[{words}]\n{_docstring(comments()[enum.full_name])}")
        return name


def errors_module() -> str:
    """Returns the module with an exception for each error code."""
    classes = [
        _block(f"class {_error_name(code)}(ApiError):", [_docstring(f"`{code}`, {rule.http_status}: {meaning(code)}")])
        for code, rule in BY_CODE.items()
    ]
    table = "".join(f"{code!r}: {_error_name(code)}," for code in BY_CODE)
    statuses = "".join(f"{code!r}: {rule.http_status}," for code, rule in BY_CODE.items())
    return "\n\n".join(
        [
            f'"""An exception for each error code of the API. {EDITED}"""',
            "from collections.abc import Mapping\nfrom typing import Final",
            "from workflow_api_client.failures import ApiError",
            *classes,
            f"BY_CODE: Final[Mapping[str, type[ApiError]]] = {{{table}}}\n{_docstring(ERROR_CLASSES)}",
            f"STATUSES: Final[Mapping[str, int]] = {{{statuses}}}\n{_docstring(ERROR_STATUSES)}",
        ]
    )


def routes_module(routes: Sequence[Route]) -> str:
    """Returns the module with the routes of the API."""
    return "\n\n".join(
        [
            f'"""Routes of the API. {EDITED}"""',
            "from typing import Final",
            "from workflow_api_client.route import Route",
            *(_route(route) for route in routes),
        ]
    )


def _route(route: Route) -> str:
    rpc, path = route.descriptor, route.template.removeprefix(BASE)
    repeats = f"repeatable={is_repeatable(route)}, takes_body={route.takes_body}"
    values = f"method={route.method!r}, path={path!r}, {repeats}"
    return f"{constant_of(rpc)}: Final = Route({values})\n{_docstring(comments()[rpc.full_name])}"


def is_repeatable(route: Route) -> bool:
    """Returns whether a call of a route may be sent again after its answer was lost."""
    options: MethodOptions = route.descriptor.GetOptions()
    return options.idempotency_level in {MethodOptions.NO_SIDE_EFFECTS, MethodOptions.IDEMPOTENT}


def constant_of(rpc: MethodDescriptor) -> str:
    """Returns the name of a route's constant."""
    return "".join(f"_{letter}" if letter.isupper() else letter for letter in rpc.name).lstrip("_").upper()


def is_nullable(field: FieldDescriptor, rules: FieldRules, *, omitted: bool) -> bool:
    """Returns whether a field may be null; with `omitted` also where it would be absent."""
    if rules.omit_when_unset:
        return omitted
    if rules.link or (field.message_type and is_links(message_of(field))):
        return False
    return field.containing_oneof is not None and field.has_presence


def _error_name(code: str) -> str:
    name = camel_case(code)
    return name if name.endswith("Error") else f"{name}Error"


def camel_case(name: str) -> str:
    """Returns a name of words and underscores as the name of a class."""
    return "".join(map(str.capitalize, name.split("_")))


def _block(head: str, members: Sequence[str]) -> str:
    body = "\n".join(members) or "pass"
    return head + "\n" + "\n".join(f"    {line}" if line else "" for line in body.splitlines())


def _docstring(text: str) -> str:
    quote = '"""' if "\\" not in text else 'r"""'
    wrapped = "\n".join(comment_lines(text))
    return f'{quote}{wrapped}"""'


def comment_lines(text: str) -> Iterator[str]:
    """Yields a comment as lines of at most `WIDTH` characters."""
    line = ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > WIDTH:
            yield line
            line = word
        else:
            line = f"{line} {word}".lstrip()
    yield line


def _formatted(code: str) -> str:
    done = subprocess.run(
        [Path(sys.executable).parent / "ruff", "format", "--isolated", "--line-length", "120", "-"],
        input=code,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(done.stderr)
    return done.stdout


def main() -> None:
    """Runs the command line."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    routes = RouteTable().routes
    answers = [route.descriptor.output_type for route in routes if not route.streaming]
    modules = {
        "__init__": f'"""What the client takes from the protos. {EDITED}"""\n',
        "records": Records().module(answers),
        "errors": errors_module(),
        "routes": routes_module(routes),
    }
    for name, code in modules.items():
        (folder / f"{name}.py").write_text(_formatted(code), encoding="utf-8")


if __name__ == "__main__":
    main()
