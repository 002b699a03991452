"""JSON Schemas of messages and fields, in the form that the codecs give them."""

from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from edge.codec.rules import INTEGERS, TIMESTAMP, enum_of, is_links, is_map, message_of, public_fields, spellings
from edge.openapi.comments import comments
from workflow_api.v1.options_pb2 import FieldRules

Schema = dict[str, Any]

_PLAIN: Final[dict[int, Schema]] = {
    FieldDescriptor.CPPTYPE_STRING: {"type": "string"},
    FieldDescriptor.CPPTYPE_BOOL: {"type": "boolean"},
    FieldDescriptor.CPPTYPE_DOUBLE: {"type": "number", "format": "double"},
    FieldDescriptor.CPPTYPE_INT32: {"type": "integer", "format": "int32"},
    FieldDescriptor.CPPTYPE_INT64: {"type": "integer", "format": "int64"},
}


class ResponseSchemas:
    """Collects the component schemas of all messages that answers consist of."""

    def __init__(self) -> None:
        self.components: dict[str, Schema] = {}

    def reference(self, message: Descriptor) -> Schema:
        """Return a reference to the schema of a message, which becomes a component with all it holds."""
        shown = list(public_fields(message))
        if len(shown) == 1 and shown[0][1].inline:
            return self.reference(message_of(shown[0][0]))
        if message.name not in self.components:
            schema: Schema = {"type": "object", "description": comments()[message.full_name]}
            self.components[message.name] = schema
            schema["properties"] = properties = self._properties(message)
            schema["required"] = [name for name in properties if name not in _omitted(message)]
        return {"$ref": f"#/components/schemas/{message.name}"}

    def _properties(self, message: Descriptor) -> dict[str, Schema]:
        properties: dict[str, Schema] = {}
        for field, rules in public_fields(message):
            if rules.inline:
                properties |= self._properties(message_of(field))
            else:
                properties[field.name] = self._field(field, rules)
        return properties

    def _field(self, field: FieldDescriptor, rules: FieldRules) -> Schema:
        if is_map(field):
            value = message_of(field).fields_by_name["value"]
            schema: Schema = {"type": "object", "additionalProperties": self._single(value, FieldRules())}
        elif field.is_repeated:
            schema = {"type": "array", "items": self._single(field, rules)}
        else:
            schema = self._single(field, rules)
            if _nullable(field, rules):
                schema = or_null(schema)
        return {**schema, "description": _described(field)}

    def _single(self, field: FieldDescriptor, rules: FieldRules) -> Schema:
        if rules.raw_json:
            return {}
        if rules.link:
            return {"type": "string", "format": "uri-reference", "examples": [rules.link]}
        if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
            return {"type": "string", "enum": [text for text in spellings(enum_of(field)).values() if text]}
        if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
            message = message_of(field)
            if message.full_name == TIMESTAMP:
                return {"type": "string", "format": "date-time"}
            return self.reference(message)
        return _PLAIN[field.cpp_type]


def body_schema(message: Descriptor, names: list[str]) -> Schema:
    """Return the schema of a JSON body with the fields `names`; null counts as absent, and other fields are refused."""
    fields = {field.name: (field, rules) for field, rules in public_fields(message)}
    properties = {
        name: {**or_null(bounded(*fields[name])), "description": _described(fields[name][0])} for name in names
    }
    required = [name for name in names if fields[name][1].required]
    return {
        "type": "object",
        "description": comments()[message.full_name],
        "properties": properties,
        "additionalProperties": False,
        **({"required": required} if required else {}),
    }


def bounded(field: FieldDescriptor, rules: FieldRules) -> Schema:
    """Return the schema of a request field with its bounds."""
    if is_map(field):
        return {
            "type": "object",
            "maxProperties": rules.max_items,
            "propertyNames": _text(rules.keys),
            "additionalProperties": _text(rules.values),
        }
    if rules.raw_json:
        return {"type": rules.raw_json_kind} if rules.raw_json_kind else {}
    return _number(field, rules) if field.cpp_type in INTEGERS else _text(rules)


def or_null(schema: Schema) -> Schema:
    """Return a schema that allows null beside what it allowed."""
    if "$ref" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    if "type" not in schema:
        return schema
    widened = {**schema, "type": [schema["type"], "null"]}
    if "enum" in schema:
        widened["enum"] = [*schema["enum"], None]
    return widened


def _text(rules: FieldRules) -> Schema:
    schema: Schema = {"type": "string"}
    if rules.min_length:
        schema["minLength"] = rules.min_length
    if rules.HasField("max_length"):
        schema["maxLength"] = rules.max_length
    # U+0000 is refused in every string.
    schema["pattern"] = f"^{rules.pattern}$" if rules.pattern else "^[^\\u0000]*$"
    return schema


def _number(field: FieldDescriptor, rules: FieldRules) -> Schema:
    schema = dict(_PLAIN[field.cpp_type])
    if rules.HasField("minimum"):
        schema["minimum"] = rules.minimum
    if rules.HasField("maximum"):
        schema["maximum"] = rules.maximum
    if rules.HasField("default_value"):
        schema["default"] = rules.default_value
    return schema


def _nullable(field: FieldDescriptor, rules: FieldRules) -> bool:
    # A message field is null only where the proto says `optional`: the others are always set.
    if rules.link or rules.omit_when_unset or (field.message_type and is_links(message_of(field))):
        return False
    return field.containing_oneof is not None and field.has_presence


def _omitted(message: Descriptor) -> set[str]:
    omitted: set[str] = set()
    for field, rules in public_fields(message):
        if rules.inline:
            omitted |= _omitted(message_of(field))
        elif rules.omit_when_unset:
            omitted.add(field.name)
    return omitted


def _described(field: FieldDescriptor) -> str:
    text = comments()[field.full_name]
    if field.cpp_type != FieldDescriptor.CPPTYPE_ENUM:
        return text
    enum = enum_of(field)
    meanings = (
        f"- `{spelling}`: {comments()[f'{enum.full_name}.{enum.values_by_number[number].name}']}"
        for number, spelling in spellings(enum).items()
        if spelling
    )
    return "\n".join([text, "", *meanings])
