"""The choices that a key's lifetime and the overlap of its rotation are made from."""

from collections.abc import Sequence
from typing import Final

from google.protobuf.descriptor import Descriptor

from contract.fields import rules_of
from workflow_api.v1.keys_pb2 import CreateKeyRequest, RotateKeyRequest


def _choices(message: Descriptor, field: str) -> Sequence[int]:
    return tuple(rules_of(message.fields_by_name[field]).choices)


EXPIRY_DAYS: Final = _choices(CreateKeyRequest.DESCRIPTOR, "expires_days")
"""Days after which a key may expire."""

OVERLAP_HOURS: Final = _choices(RotateKeyRequest.DESCRIPTOR, "overlap_hours")
"""Hours for which a rotated secret may stay valid."""
