"""How values of enums are spelt in JSON."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from google.protobuf.descriptor import EnumDescriptor, EnumValueDescriptor

from workflow_api.v1.options_pb2 import Scope, enum_spelling


def spellings(enum: EnumDescriptor) -> dict[int, str | None]:
    """Returns the JSON value of every number of an enum; the unspecified one is null."""
    return {value.number: _spelling(enum, value) if value.number else None for value in enum.values}


def _spelling(enum: EnumDescriptor, value: EnumValueDescriptor) -> str:
    stated: str = value.GetOptions().Extensions[enum_spelling]
    return stated or value.name.removeprefix(_prefix(enum)).lower()


def _prefix(enum: EnumDescriptor) -> str:
    # Buf's naming rule gives the zero value the enum's prefix and `UNSPECIFIED`.
    return enum.values_by_number[0].name.removesuffix("UNSPECIFIED")


SCOPES: Final[Mapping[str, Scope.ValueType]] = MappingProxyType(
    {text: Scope.ValueType(number) for number, text in spellings(Scope.DESCRIPTOR).items() if text}
)
"""Every scope by its spelling, in the contract's order."""

SCOPE_SPELLINGS: Final[Mapping[int, str]] = MappingProxyType({number: text for text, number in SCOPES.items()})
"""The spelling of every scope by its number."""
