"""Writes the generated part of the TypeScript client into the folder given: types, error codes and routes of the API.

`scripts/generate.py` runs it in a process of its own, which imports the protos as they were just compiled.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

from contract.fields import enum_of, is_duration, is_map, is_timestamp, json_name, message_of, public_fields, rules_of
from contract.fields import spellings as spellings_of
from contract.refusals import BY_CODE
from contract.routes import BASE, Route, RouteTable
from edge.openapi.comments import comments
from edge.openapi.failures import meaning
from edge.openapi.schemas import json_type
from edge.openapi.webhooks import MESSAGE, SCHEDULE_MESSAGE, webhook_schemas
from scripts.client_code import EDITED, camel_case, comment_lines, constant_of, is_nullable, is_repeatable
from workflow_api.v1.options_pb2 import FieldRules

PLAIN: Final = {
    FieldDescriptor.CPPTYPE_STRING: "string",
    FieldDescriptor.CPPTYPE_BOOL: "boolean",
    FieldDescriptor.CPPTYPE_DOUBLE: "number",
    FieldDescriptor.CPPTYPE_INT32: "number",
    FieldDescriptor.CPPTYPE_INT64: "number",
}
KINDS: Final = {"object": "Record<string, unknown>", "array": "unknown[]", "": "unknown"}
# Names of the web's own types, which a program that imports ours would lose.
RENAMED: Final = {"Event": "RunEvent"}
ANY_EVENT: Final = "An event of any type; `event.type` tells which."
CODES: Final = "Every error code that this release knows."
ROUTE: Final = """\
/** One method on one path below the base address. */
export interface Route {
  readonly method: string;
  readonly path: string;
  /** True if a call whose answer was lost may be sent again: it changes nothing, or the service recognizes it. */
  readonly repeatable: boolean;
  readonly takesBody: boolean;
}"""


class Records:
    """Collects the TypeScript types of all messages in answers."""

    def __init__(self) -> None:
        self._code: dict[str, str] = {}
        self._events: list[str] = []

    def module(self, messages: Sequence[Descriptor]) -> str:
        """Returns the module with the types of these messages and of everything in them."""
        for message in messages:
            self._type(message)
        union = "\n".join(f"  | {name}" for name in self._events)
        any_event = f"{_comment(ANY_EVENT)}export type AnyEvent =\n{union};"
        return _module("JSON of the API's answers", [*self._code.values(), any_event])

    def _type(self, message: Descriptor) -> str:
        shown = list(public_fields(message))
        if len(shown) == 1 and shown[0][1].inline:
            return self._type(message_of(shown[0][0]))
        name = RENAMED.get(message.name, message.name)
        if name not in self._code:
            self._code[name] = ""
            inline = [field for field, rules in shown if rules.inline]
            bases = [self._type(message_of(field)) for field in inline if field.message_type]
            own = [member for field, rules in shown if not rules.inline for member in self._member(field, rules)]
            if len(bases) < len(inline):
                own.append("  [name: string]: unknown;\n")
            if name == "RunEvent":
                own.insert(0, _member("id", "string", "`<segment_id>:<seq>`: where `events({ after })` continues."))
            self._code[name] = _interface(name, comments()[message.full_name], own, bases)
            for field, rules in shown:
                if rules.tagged_by:
                    self._tagged(message, field, rules)
        return name

    def _member(self, field: FieldDescriptor, rules: FieldRules) -> Iterator[str]:
        optional = rules.omit_when_unset or rules.may_be_absent
        annotation = self._annotation(field, rules)
        yield _member(json_name(field, rules), annotation, comments()[field.full_name], optional=optional)

    def _tagged(self, message: Descriptor, field: FieldDescriptor, rules: FieldRules) -> None:
        base = RENAMED.get(message.name, message.name)
        for member in json_type(rules).fields:
            name = f"{camel_case(member.name)}{message.name}"
            tag = [_member(rules.tagged_by, json.dumps(rules_of(member).tag), "The type.")]
            data = _member(json_name(field, rules), self._type(message_of(member)), comments()[field.full_name])
            self._code[name] = _interface(name, comments()[member.full_name], [*tag, data], [base])
            self._events.append(name)

    def _annotation(self, field: FieldDescriptor, rules: FieldRules) -> str:
        if is_map(field):
            value = message_of(field).fields_by_name["value"]
            return f"Record<string, {self._single(value, FieldRules())}>"
        single = self._single(field, rules)
        if field.is_repeated:
            listed = f"({single})[]" if " " in single else f"{single}[]"
            return f"{listed} | {json.dumps(rules.or_text)}" if rules.or_text else listed
        return f"{single} | null" if is_nullable(field, rules, omitted=False) and single != "unknown" else single

    def _single(self, field: FieldDescriptor, rules: FieldRules) -> str:
        if rules.raw_json:
            return self._json(rules)
        if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
            return self._enum(enum_of(field))
        if field.cpp_type != FieldDescriptor.CPPTYPE_MESSAGE:
            return PLAIN[field.cpp_type]
        if is_timestamp(field):
            return "string"
        return "number" if is_duration(field) else self._type(message_of(field))

    def _json(self, rules: FieldRules) -> str:
        if rules.tagged_by:
            return "object"
        if not rules.json_type:
            return KINDS[rules.raw_json_kind]
        name = self._type(json_type(rules))
        return f"{name}[]" if rules.json_list else name

    def _enum(self, enum: EnumDescriptor) -> str:
        name = f"{enum.containing_type.name if enum.containing_type else ''}{enum.name}"
        words = _union(word for word in spellings_of(enum).values() if word)
        self._code.setdefault(name, f"{_comment(comments()[enum.full_name])}export type {name} = {words};")
        return name


def errors_module() -> str:
    """Returns the module with the union of error codes."""
    codes = "\n".join(
        f"{_comment(f'{rule.http_status}: {meaning(code)}', 2)}  | {json.dumps(code)}" for code, rule in BY_CODE.items()
    )
    return _module("Error codes of the API", [f"{_comment(CODES)}export type ErrorCode =\n{codes};"])


def routes_module(routes: Sequence[Route]) -> str:
    """Returns the module with the routes of the API."""
    return _module("Routes of the API", [ROUTE, *(_route(route) for route in routes)])


def webhooks_module() -> str:
    """Returns the module with the messages to webhooks, as the description has them."""
    code = []
    for schema_name, name in ((MESSAGE, "RunWebhookMessage"), (SCHEDULE_MESSAGE, "ScheduleWebhookMessage")):
        schema = webhook_schemas()[schema_name]
        data_name = name.replace("Message", "Data")
        data = schema["properties"]["data"]
        code.append(_interface(data_name, data["description"], list(_properties(data))))
        message = {**schema["properties"], "data": {**data, "type": data_name}}
        identity = _member("id", "string", "Equal at every attempt: ignore ids that were processed.")
        members = [identity, *_properties({**schema, "properties": message})]
        code.append(_interface(name, schema["description"], members))
    return _module("Messages to webhooks", code)


def _properties(schema: Mapping[str, Any]) -> Iterator[str]:
    for name, property_ in schema["properties"].items():
        types = property_["type"] if isinstance(property_["type"], list) else [property_["type"]]
        annotation = " | ".join("number" if one == "integer" else one for one in types)
        if "enum" in property_:
            annotation = _union(property_["enum"])
        yield _member(name, annotation, property_["description"], optional=name not in schema["required"])


def _route(route: Route) -> str:
    rpc = route.descriptor
    values = {
        "method": route.method,
        "path": route.template.removeprefix(BASE),
        "repeatable": is_repeatable(route),
        "takesBody": route.takes_body,
    }
    members = "".join(f"  {name}: {json.dumps(value)},\n" for name, value in values.items())
    return f"{_comment(comments()[rpc.full_name])}export const {constant_of(rpc)}: Route = {{\n{members}}};"


def _module(title: str, code: Sequence[str]) -> str:
    return "\n\n".join([f"/** {title}. {EDITED} */", *code]) + "\n"


def _interface(name: str, text: str, members: Sequence[str], bases: Sequence[str] = ()) -> str:
    inherited = f" extends {', '.join(bases)}" if bases else ""
    head = f"{_comment(text)}export "
    if not members:
        return f"{head}type {name} = Record<string, never>;"
    return f"{head}interface {name}{inherited} {{\n{''.join(members)}}}"


def _member(name: str, annotation: str, text: str, *, optional: bool = False) -> str:
    return f"{_comment(text, 2)}  {name}{'?' if optional else ''}: {annotation};\n"


def _union(words: Iterable[str]) -> str:
    return " | ".join(json.dumps(word) for word in words)


def _comment(text: str, indent: int = 0) -> str:
    lines = list(comment_lines(text.replace("*/", "*\u200b/")))
    blank = " " * indent
    if len(lines) == 1:
        return f"{blank}/** {lines[0]} */\n"
    return "".join([f"{blank}/**\n", *(f"{blank} * {line}\n" for line in lines), f"{blank} */\n"])


def main() -> None:
    """Runs the command line."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    routes = RouteTable().routes
    answers = [route.descriptor.output_type for route in routes if not route.streaming]
    modules = {
        "records": Records().module(answers),
        "errors": errors_module(),
        "routes": routes_module(routes),
        "webhooks": webhooks_module(),
    }
    for name, code in modules.items():
        (folder / f"{name}.ts").write_text(code, encoding="utf-8")


if __name__ == "__main__":
    main()
