"""What each error reason means, read from the options in errors.proto."""

from collections.abc import Mapping
from typing import Final

from workflow_api.v1 import errors_pb2

RULES: Final[Mapping[int, errors_pb2.ErrorRules]] = {
    value.number: value.GetOptions().Extensions[errors_pb2.error_rules]
    for value in errors_pb2.ErrorReason.DESCRIPTOR.values
    if value.number != errors_pb2.ERROR_REASON_UNSPECIFIED
}
