"""The tools that an agent of type `llm` may declare, as the model sees them."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any

from backend.runtime.agents import connector_reading, reading
from backend.runtime.agents.base import StepRequest
from backend.secrets import Secrets

Tool = Callable[..., Awaitable[dict[str, Any]]]


def tools_of(declared: Iterable[str], request: StepRequest, secrets: Secrets) -> list[Tool]:
    """Returns the functions of the declared tools; the model sees their names, parameters and docstrings.

    `secrets` are for the connectors that name one.
    """
    makers: dict[str, Callable[[StepRequest], Iterator[Tool]]] = {
        "inputs": _inputs,
        "files": _files,
        "connectors": lambda request: _connectors(request, secrets),
    }
    return [tool for name in declared for tool in makers[name](request)]


def _inputs(request: StepRequest) -> Iterator[Tool]:
    root = request.inputs
    folders = {} if root is None else {path.name: path for path in root.iterdir()}

    async def list_inputs(prefix: str = "") -> dict[str, Any]:
        """Lists the input files of this run whose paths begin with a prefix, with their sizes."""
        return await asyncio.to_thread(reading.list_files, folders, prefix)

    async def read_input(path: str, offset: int = 0) -> dict[str, Any]:
        """Reads a part of an input file from a byte offset; next_offset is null at its end."""
        return await asyncio.to_thread(reading.read_file, folders, path, offset)

    yield from (list_inputs, read_input)


def _files(request: StepRequest) -> Iterator[Tool]:
    async def list_files(prefix: str = "") -> dict[str, Any]:
        """Lists the files that earlier steps left whose paths begin with a prefix, with their sizes."""
        return await asyncio.to_thread(reading.list_files, request.files, prefix)

    async def read_file(path: str, offset: int = 0) -> dict[str, Any]:
        """Reads a part of a file that an earlier step left from a byte offset; next_offset is null at its end."""
        return await asyncio.to_thread(reading.read_file, request.files, path, offset)

    yield from (list_files, read_file)


def _connectors(request: StepRequest, secrets: Secrets) -> Iterator[Tool]:
    connectors = request.connectors

    async def list_connector_objects(connector: str, prefix: str = "") -> dict[str, Any]:
        """Lists the objects of a connector under a prefix, with their sizes; without one, the prefixes it allows."""
        return await asyncio.to_thread(connector_reading.list_objects, secrets, connectors, connector, prefix)

    async def read_connector_object(connector: str, key: str, offset: int = 0) -> dict[str, Any]:
        """Reads a part of an object of a connector from a byte offset; next_offset is null at its end."""
        return await asyncio.to_thread(connector_reading.read_object, secrets, connectors, connector, key, offset)

    yield from (list_connector_objects, read_connector_object)
