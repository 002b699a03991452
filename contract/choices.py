"""Allowed values of a key's lifetime and of the overlap of its rotation."""

from collections.abc import Sequence
from typing import Final

from google.protobuf.descriptor import Descriptor

from contract.fields import rules_of
from workflow_api.v1.keys_pb2 import CreateKeyRequest, RotateKeyRequest


def _choices(message: Descriptor, field: str) -> Sequence[int]:
    return tuple(rules_of(message.fields_by_name[field]).choices)


EXPIRY_DAYS: Final = _choices(CreateKeyRequest.DESCRIPTOR, "lifetime")
"""Days after which a key may expire."""

OVERLAP_HOURS: Final = _choices(RotateKeyRequest.DESCRIPTOR, "overlap")
"""Hours for which a rotated secret may stay valid."""
