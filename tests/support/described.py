"""The service's own description, ready to generate calls from and to hold answers to."""

from typing import Any

import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.support.client import call
from tests.support.wire import Address

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]


def described(address: Address) -> Any:
    """The description without its security: tests say themselves whether a call has a key."""
    description = call(address, "GET", "/openapi.json").json()
    del description["components"]["securitySchemes"]
    description.pop("security", None)
    for item in description["paths"].values():
        for method in ("get", "post", "delete"):
            item.get(method, {}).pop("security", None)
    return schemathesis.openapi.from_dict(description)
