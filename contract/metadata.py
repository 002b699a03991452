"""The names of the gRPC metadata that a caller sends and of the trailer that a refusal comes with."""

from typing import Final

KEY_ID: Final = "workflow-api-key-id"
"""The API key that the edge admitted; absent for internal callers."""

ACTOR: Final = "workflow-api-actor"
"""The person or service that an internal caller acts for."""

PERSON: Final = "workflow-api-person"
"""The name of the person who has signed in to a console; empty where nobody has yet, and absent for other callers."""

REQUEST_ID: Final = "workflow-api-request-id"
"""The id of the HTTP request."""

STATUS_TRAILER: Final = "grpc-status-details-bin"
"""The trailer that holds the google.rpc.Status of a refusal."""
