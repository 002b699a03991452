"""The trailer in which every service puts the google.rpc.Status of a refusal."""

from contextlib import suppress

from google.protobuf.message import DecodeError
from google.rpc.status_pb2 import Status

from contract.refusals import Refusal, refusal_from_status


def refusal_from_trailer(trailer: object) -> Refusal:
    """Returns the refusal in the trailer's value; `runtime_error` when it is none of ours."""
    if isinstance(trailer, bytes):
        with suppress(DecodeError):
            return refusal_from_status(Status.FromString(trailer))
    return Refusal("runtime_error")
