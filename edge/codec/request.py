"""Decodes HTTP requests into protobuf messages, by field readers made from the descriptors once at the start."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor, MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from contract.bounds import require_bounds
from contract.fields import json_name, public_fields
from contract.refusals import Refusal, code_of
from edge.codec.body_fields import BodyReader, body_reader
from edge.codec.text_fields import (
    Findings,
    HeaderReader,
    Parser,
    PathReader,
    QueryReader,
    header_reader,
    parse_query,
    path_reader,
    query_parser,
    query_reader,
    violation_of,
)
from workflow_api.v1.options_pb2 import FieldRules, method_rules

Headers = Callable[[str], Sequence[str]]
"""Returns all values of a request header; none for a header that was not sent."""

_BODY: Final = "body"
# More unknown fields than these are one problem, so that answers stay bounded.
_MOST_UNKNOWN: Final = 100


class RequestCodec:
    """Decodes the requests of one RPC.

    `path_names` are the fields that the RPC's path template names. With `takes_body` all remaining fields come from the
    JSON body, else from the query.

    Raises:
        ValueError: the RPC's request has a field without bounds, or one that HTTP cannot carry.
    """

    def __init__(self, rpc: MethodDescriptor, path_names: Sequence[str], *, takes_body: bool) -> None:
        self._message: type[Message] = GetMessageClass(rpc.input_type)
        self._takes_body = takes_body
        self._path: list[tuple[str, PathReader]] = []
        self._headers: list[tuple[str, str, HeaderReader]] = []
        self._query: dict[str, tuple[str, QueryReader]] = {}
        self._parsed: list[tuple[str, Parser, str, str]] = []
        self._body: dict[str, tuple[str, BodyReader]] = {}
        self._required: list[str] = []
        unread = set(path_names)
        for field, rules in public_fields(rpc.input_type):
            require_bounds(field, rules)
            unread.discard(field.name)
            self._add(rpc, field, rules, in_path=field.name in path_names)
        if unread:
            raise ValueError(f"{rpc.full_name}: its request has no field {', '.join(sorted(unread))} of the path")

    def _add(self, rpc: MethodDescriptor, field: FieldDescriptor, rules: FieldRules, *, in_path: bool) -> None:
        is_id = _is_id(rpc, field)
        if in_path:
            if not is_id:
                raise ValueError(f"{rpc.full_name}: no error of it says that {field.name} is unknown")
            self._path.append((field.name, path_reader(field, rules)))
        elif rules.header:
            self._headers.append((field.name, rules.header, header_reader(rules)))
        elif self._takes_body:
            self._body[json_name(field, rules)] = (field.name, body_reader(field, rules))
            if rules.required:
                self._required.append(json_name(field, rules))
        else:
            name = json_name(field, rules)
            self._query[name] = (field.name, query_reader(field, rules, is_id=is_id))
            parse = query_parser(field)
            if parse is not None:
                self._parsed.append((field.name, parse, violation_of(rules), name))

    def decode(self, path_params: Mapping[str, str], query: str, headers: Headers, body: Any) -> Message:
        """Returns the RPC's request.

        `path_params` are raw path segments and `query` the raw query, as `RouteTable.match` and the request line give
        them. `body` is what `parse_json_body` returned, and is ignored on a route without a body.

        Raises:
            Refusal: all problems of the request, in one answer (contract 5.12, 5.14).
        """
        findings = Findings()
        fields: dict[str, Any] = {}
        for name, header, read_header in self._headers:
            fields[name] = read_header(headers(header), findings)
        for name, read_segment in self._path:
            fields[name] = read_segment(path_params[name], findings)
        if query and self._query:
            for name, values in parse_query(query).items():
                known = self._query.get(name)
                if known is not None:
                    field, read_values = known
                    fields[field] = read_values(values, findings)
        if self._takes_body:
            self._read_body(body, fields, findings)
        if findings:
            raise findings.refusal()
        for field, parse, code, name in self._parsed:
            if fields.get(field) is not None:
                fields[field] = _parsed(fields[field], parse, code, name)
        return self._message(**fields)

    def _read_body(self, body: Any, fields: dict[str, Any], findings: Findings) -> None:
        if not isinstance(body, dict):
            findings.add("invalid_request", _BODY, "must be a JSON object")
            return
        unknown = body.keys() - self._body.keys()
        if len(unknown) > _MOST_UNKNOWN:
            findings.add("invalid_request", _BODY, f"has {len(unknown):,} fields that are not fields of this request")
            unknown = set()
        for name, value in body.items():
            if name in unknown:
                findings.add("invalid_request", name, "is not a field of this request")
            elif value is not None and name in self._body:
                field, read = self._body[name]
                fields[field] = read(value, findings)
        for name in self._required:
            if body.get(name) is None:
                findings.add("invalid_request", name, "is required")


def _parsed(text: str, parse: Parser, code: str, name: str) -> Any:
    """Returns the value of a query text; called once nothing else is wrong with the request."""
    try:
        return parse(text)
    except ValueError as error:
        raise Refusal(code, f"{name} must be {error}.") from None


def _is_id(rpc: MethodDescriptor, field: FieldDescriptor) -> bool:
    """Returns whether the field is an id that the RPC may not find: `run_id`, where the RPC has `run_not_found`."""
    name = f"{field.name.removesuffix('_id')}_not_found"
    return any(code_of(reason) == name for reason in rpc.GetOptions().Extensions[method_rules].errors)
