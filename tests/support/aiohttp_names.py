"""The private names of aiohttp's server, which a subclass neither uses nor takes for itself."""

import inspect
import re
from types import ModuleType

from aiohttp import web
from aiohttp.base_protocol import BaseProtocol


def names_within(code: type | ModuleType) -> set[str]:
    """Returns the names in the source of some code that begin with one underscore."""
    return set(re.findall(r"\b_[a-z]\w+", inspect.getsource(code)))


def private_names_of_aiohttp() -> set[str]:
    """Returns those of its connections and its server."""
    found = names_within(web.RequestHandler) | names_within(web.Server) | names_within(BaseProtocol)
    assert {"_request_in_progress", "_connections", "_reading_paused"} <= found
    return found
