"""JSON Schemas of messages: answers as the codecs write them, requests with the bounds that the codecs enforce."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from contract.fields import (
    DURATION,
    INTEGERS,
    TIMESTAMP,
    enum_of,
    is_duration,
    is_links,
    is_map,
    json_name,
    message_of,
    public_fields,
    rules_of,
    spellings,
)
from edge.openapi.comments import comments
from workflow_api.v1.event_data_pb2 import EventData
from workflow_api.v1.options_pb2 import TIME_UNIT_HOURS, FieldRules
from workflow_api.v1.outputs_pb2 import PiiRedaction
from workflow_api.v1.pii_policy_pb2 import PiiPolicy
from workflow_api.v1.runs_pb2 import InputsManifestEntry

Schema = dict[str, Any]

ANY_OBJECT: Final[Mapping[str, Any]] = MappingProxyType({"type": "object", "additionalProperties": True})
PLAIN: Final[Mapping[int, Schema]] = MappingProxyType(
    {
        FieldDescriptor.CPPTYPE_STRING: {"type": "string"},
        FieldDescriptor.CPPTYPE_BOOL: {"type": "boolean"},
        FieldDescriptor.CPPTYPE_DOUBLE: {"type": "number", "format": "double"},
        FieldDescriptor.CPPTYPE_INT32: {"type": "integer", "format": "int32"},
        FieldDescriptor.CPPTYPE_INT64: {"type": "integer", "format": "int64"},
    }
)
"""Schemas of scalar fields by their protobuf `cpp_type`."""

_JSON_TYPES: Final[Mapping[str, Descriptor]] = MappingProxyType(
    {
        message.DESCRIPTOR.full_name: message.DESCRIPTOR
        for message in (EventData, InputsManifestEntry, PiiPolicy, PiiRedaction)
    }
)


class ResponseSchemas:
    """Collects the component schemas of all messages that answers consist of."""

    def __init__(self) -> None:
        self.components: dict[str, Schema] = {}

    def reference(self, message: Descriptor) -> Schema:
        """Returns a reference to a message's schema, and adds components for the message and its fields' messages."""
        shown = list(public_fields(message))
        if len(shown) == 1 and shown[0][1].inline:
            return self.reference(message_of(shown[0][0]))
        if message.name not in self.components:
            self.components[message.name] = {}
            tagged = [(field, rules) for field, rules in shown if rules.tagged_by]
            schema = self._union(message, *tagged[0]) if tagged else self._record(message)
            self.components[message.name] = schema
        return {"$ref": f"#/components/schemas/{message.name}"}

    def _record(self, message: Descriptor) -> Schema:
        properties = self._properties(message)
        return {
            "type": "object",
            "description": comments()[message.full_name],
            "properties": properties,
            "required": [name for name in properties if name not in _omitted(message)],
            **({"additionalProperties": True} if _is_open(message) else {}),
        }

    def _union(self, message: Descriptor, field: FieldDescriptor, rules: FieldRules) -> Schema:
        """Returns the `oneOf` of a message with a tagged field, and adds a component for each tag."""
        mapping: dict[str, str] = {}
        for member in json_type(rules).fields:
            tag = rules_of(member).tag
            schema = self._record(message)
            schema["description"] = comments()[member.full_name]
            schema["properties"][rules.tagged_by] = {"type": "string", "const": tag, "description": f"`{tag}`."}
            data = {**self.reference(message_of(member)), "description": described(field)}
            schema["properties"][json_name(field, rules)] = data
            name = f"{_camel_case(member.name)}{message.name}"
            self.components[name] = schema
            mapping[tag] = f"#/components/schemas/{name}"
        return {
            "description": comments()[message.full_name],
            "oneOf": [{"$ref": reference} for reference in mapping.values()],
            "discriminator": {"propertyName": rules.tagged_by, "mapping": mapping},
        }

    def _properties(self, message: Descriptor) -> dict[str, Schema]:
        properties: dict[str, Schema] = {}
        for field, rules in public_fields(message):
            if not rules.inline:
                properties[json_name(field, rules)] = self._field(field, rules)
            elif not rules.raw_json:
                properties |= self._properties(message_of(field))
        return properties

    def _field(self, field: FieldDescriptor, rules: FieldRules) -> Schema:
        if is_map(field):
            value = message_of(field).fields_by_name["value"]
            schema: Schema = {"type": "object", "additionalProperties": self._single(value, FieldRules())}
        elif field.is_repeated:
            schema = array(self._single(field, rules), rules)
        else:
            schema = self._single(field, rules)
            if _nullable(field, rules):
                schema = or_null(schema)
        return {**schema, "description": described(field)}

    def _single(self, field: FieldDescriptor, rules: FieldRules) -> Schema:
        if rules.raw_json:
            return self._json(rules)
        if rules.link:
            return {"type": "string", "format": "uri-reference"}
        if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
            return one_of(field)
        if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
            message = message_of(field)
            if message.full_name == TIMESTAMP:
                return {"type": "string", "format": "date-time"}
            if message.full_name == DURATION:
                whole = rules.unit != TIME_UNIT_HOURS
                return PLAIN[FieldDescriptor.CPPTYPE_INT64 if whole else FieldDescriptor.CPPTYPE_DOUBLE]
            return self.reference(message)
        return PLAIN[field.cpp_type]

    def _json(self, rules: FieldRules) -> Schema:
        if rules.json_type and not rules.tagged_by:
            reference = self.reference(json_type(rules))
            return {"type": "array", "items": reference} if rules.json_list else reference
        return any_json(rules.raw_json_kind)


def json_type(rules: FieldRules) -> Descriptor:
    """Returns the type of the message whose JSON a text field holds."""
    return _JSON_TYPES[rules.json_type]


def any_json(kind: str) -> Schema:
    """Returns the schema of any JSON of a kind, `object` or `array`; an empty kind allows all JSON."""
    if kind == "object":
        return dict(ANY_OBJECT)
    return {"type": "array", "items": {}} if kind == "array" else {}


def array(items: Schema, rules: FieldRules) -> Schema:
    """Returns the schema of a repeated field, or of the text that its rules allow instead."""
    schema = {"type": "array", "items": items}
    if rules.or_text:
        # The array comes first: openapi-python-client tries nothing after a constant that does not fit.
        return {"anyOf": [schema, {"type": "string", "const": rules.or_text}]}
    return schema


def one_of(field: FieldDescriptor) -> Schema:
    """Returns the schema of an enum field: its spellings."""
    return {"type": "string", "enum": [text for text in spellings(enum_of(field)).values() if text]}


def or_null(schema: Schema) -> Schema:
    """Returns a schema extended to allow null."""
    null = {"type": "null"}
    if "anyOf" in schema:
        return {**schema, "anyOf": [*schema["anyOf"], null]}
    if "$ref" in schema or "enum" in schema:
        return {"anyOf": [schema, null]}
    return {**schema, "type": [schema["type"], "null"]} if "type" in schema else schema


def described(field: FieldDescriptor) -> str:
    """Returns the description of a field, with the meaning of each enum value, as Markdown."""
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


def _nullable(field: FieldDescriptor, rules: FieldRules) -> bool:
    # A message field is null only where the proto says `optional`: the others are always set.
    if rules.link or rules.omit_when_unset or (field.message_type and is_links(message_of(field))):
        return False
    return field.containing_oneof is not None and field.has_presence


def _omitted(message: Descriptor) -> set[str]:
    omitted: set[str] = set()
    for field, rules in public_fields(message):
        if rules.inline and not rules.raw_json:
            omitted |= _omitted(message_of(field))
        elif rules.omit_when_unset or rules.may_be_absent:
            omitted.add(json_name(field, rules))
    return omitted


def _is_open(message: Descriptor) -> bool:
    return any(rules.inline and rules.raw_json for _, rules in public_fields(message))


def _camel_case(name: str) -> str:
    return "".join(map(str.capitalize, name.split("_")))


class RequestSchemas:
    """Collects the component schemas of all bodies and the objects in them."""

    def __init__(self) -> None:
        self.components: dict[str, Schema] = {}

    def reference(self, name: str, message: Descriptor, fields: Iterable[str]) -> Schema:
        """Returns a reference to the component `name`: an object that may have these fields of a message and no others.

        Null counts as absent.
        """
        if name not in self.components:
            self.components[name] = self._object(message, frozenset(fields))
        return {"$ref": f"#/components/schemas/{name}"}

    def _object(self, message: Descriptor, names: frozenset[str]) -> Schema:
        fields = [(field, rules) for field, rules in public_fields(message) if field.name in names]
        required = [json_name(field, rules) for field, rules in fields if rules.required]
        return {
            "type": "object",
            "description": comments()[message.full_name],
            "properties": {
                json_name(field, rules): {**or_null(self._property(field, rules)), "description": described(field)}
                for field, rules in fields
            },
            "additionalProperties": False,
            **({"required": required} if required else {}),
        }

    def _property(self, field: FieldDescriptor, rules: FieldRules) -> Schema:
        if not rules.json_type:
            return bounded(field, rules)
        message = json_type(rules)
        name = "".join(map(str.capitalize, field.name.split("_")))
        return self.reference(name, message, (field.name for field, _ in public_fields(message)))


def bounded(field: FieldDescriptor, rules: FieldRules) -> Schema:
    """Returns the schema of a request field with its bounds."""
    if is_map(field):
        return {
            "type": "object",
            "maxProperties": rules.max_items,
            "propertyNames": text(rules.keys),
            "additionalProperties": text(rules.values),
        }
    if rules.raw_json:
        return any_json(rules.raw_json_kind) | ({"maxProperties": rules.max_items} if rules.max_items else {})
    if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
        schema = one_of(field)
    elif field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        schema = text(rules)
    elif field.cpp_type in INTEGERS or is_duration(field):
        schema = _number(field, rules)
    else:
        schema = PLAIN[field.cpp_type]
    return array(schema, rules) if field.is_repeated else schema


def text(rules: FieldRules) -> Schema:
    """Returns the schema of a text with its bounds."""
    schema: Schema = {"type": "string"}
    if rules.min_length:
        schema["minLength"] = rules.min_length
    if rules.HasField("max_length"):
        schema["maxLength"] = rules.max_length
    # U+0000 is refused in every string.
    schema["pattern"] = f"^{rules.pattern}$" if rules.pattern else "^[^\\u0000]*$"
    return schema


def _number(field: FieldDescriptor, rules: FieldRules) -> Schema:
    schema = dict(PLAIN[FieldDescriptor.CPPTYPE_INT32 if is_duration(field) else field.cpp_type])
    if rules.HasField("minimum"):
        schema["minimum"] = rules.minimum
    if rules.HasField("maximum"):
        schema["maximum"] = rules.maximum
    if rules.HasField("default_value"):
        schema["default"] = rules.default_value
    return schema
