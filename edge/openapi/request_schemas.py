"""JSON Schemas of request bodies and parameters, with the bounds that the codecs hold callers to."""

from collections.abc import Iterable

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from contract.fields import INTEGERS, is_duration, is_map, json_name, public_fields
from edge.openapi.comments import comments
from edge.openapi.schemas import PLAIN, Schema, any_json, array, described, json_type, one_of, or_null
from workflow_api.v1.options_pb2 import FieldRules


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
