"""Names of the gRPC metadata of callers and of the trailer of refusals."""

import string
from typing import Final
from urllib.parse import quote, unquote

KEY_ID: Final = "workflow-api-key-id"
"""The API key that the edge admitted; absent for internal callers."""

ACTOR: Final = "workflow-api-actor"
"""The person or service that an internal caller acts for, as `encode_actor` writes it."""

PERSON: Final = "workflow-api-person"
"""The name of the person who has signed in to a console; empty where nobody has yet, and absent for other callers."""

REQUEST_ID: Final = "workflow-api-request-id"
"""The id of the HTTP request."""

STATUS_TRAILER: Final = "grpc-status-details-bin"
"""The trailer that holds the google.rpc.Status of a refusal."""

_VERBATIM: Final = "".join(sorted(set(string.punctuation) - {"%"})) + " "


def encode_actor(actor: str) -> str:
    """Returns an actor as the ASCII that gRPC requires: `%` and all but printable ASCII are percent-encoded UTF-8."""
    return quote(actor, safe=_VERBATIM)


def decode_actor(value: str) -> str:
    """Returns the actor that metadata names; a `%` that begins no escape stands for itself.

    Raises:
        ValueError: the escapes are no UTF-8, or of characters that cannot be printed.
    """
    if "%" not in value:
        return value
    actor = unquote(value, errors="strict")
    if not actor.isprintable():
        raise ValueError("characters that cannot be printed")
    return actor
