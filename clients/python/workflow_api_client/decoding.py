"""Decodes the API's JSON into records."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from datetime import datetime
from functools import cache
from types import UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from workflow_api_client.failures import UnexpectedAnswerError
from workflow_api_client.generated import records

T = TypeVar("T")
_Converter = Callable[[Any], Any]


def decode(kind: type[T], value: Any) -> T:
    """Returns JSON as a record. Unknown members are ignored, absent members are None.

    Raises:
        UnexpectedAnswerError: the JSON has another form.
    """
    try:
        record: T = _converter(cast("Any", kind))(value)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UnexpectedAnswerError(f"This is no {kind.__name__} that this release knows: {error!r}.") from error
    return record


def decode_event(value: Any, segment_id: str) -> records.AnyEvent:
    """Returns an event of a segment as the class of its type, or as `Event` for an unknown type.

    Raises:
        UnexpectedAnswerError: the JSON is no event.
    """
    if not isinstance(value, dict):
        raise UnexpectedAnswerError("This is no event.")
    kind = records.EVENT_TYPES.get(str(value.get("type")), records.Event)
    return decode(kind, {**value, "id": f"{segment_id}:{value.get('seq')}"})  # type: ignore[return-value] # or Event


@cache
def _converter(kind: Any) -> _Converter:
    if kind is datetime:
        return datetime.fromisoformat
    if is_dataclass(kind):
        return _record_converter(kind)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in {Union, UnionType}:
        return _union_converter(tuple(one for one in arguments if one is not type(None)))
    if origin is list and arguments[0] is not Any:
        return _list_converter(arguments[0])
    return lambda value: value


def _record_converter(kind: Any) -> _Converter:
    hints = get_type_hints(kind)
    members = [(one.name, _converter(hints[one.name])) for one in fields(kind)]

    def convert(value: Any) -> Any:
        given = {name: converter(value[name]) for name, converter in members if value.get(name) is not None}
        return kind(**{name: given.get(name) for name, _ in members})

    return convert


def _union_converter(kinds: tuple[Any, ...]) -> _Converter:
    # A union without null has one type, or a list and the word that stands for all items.
    kind = next(one for one in kinds if get_origin(one) is not Literal or len(kinds) == 1)
    converter = _converter(kind)
    return lambda value: value if value is None or (len(kinds) > 1 and isinstance(value, str)) else converter(value)


def _list_converter(kind: Any) -> _Converter:
    converter = _converter(kind)
    return lambda value: [converter(one) for one in value]
