"""The services of the generated code."""

import functools
import importlib
import pkgutil

from google.protobuf.descriptor import FileDescriptor, MethodDescriptor, ServiceDescriptor

import workflow_api.v1


@functools.cache
def services() -> tuple[ServiceDescriptor, ...]:
    """Returns every service, by the modules of the generated package."""
    names = [module.name for module in pkgutil.iter_modules(workflow_api.v1.__path__) if module.name.endswith("_pb2")]
    files: list[FileDescriptor] = [
        importlib.import_module(f"{workflow_api.v1.__name__}.{name}").DESCRIPTOR for name in sorted(names)
    ]
    return tuple(service for file in files for service in file.services_by_name.values())


@functools.cache
def methods() -> dict[str, MethodDescriptor]:
    """Returns every RPC by its name on the wire, as `/workflow_api.v1.RunsService/GetRun`."""
    return {f"/{service.full_name}/{method.name}": method for service in services() for method in service.methods}


def method_named(name: str) -> MethodDescriptor:
    """Returns the RPC of a name as `GetRun` or `RunsService/GetRun`.

    Raises:
        ValueError: there is none, or there are several.
    """
    found = [method for path, method in methods().items() if path.endswith((f"/{name}", f".{name}"))]
    if len(found) != 1:
        several = ", ".join(f"{method.containing_service.name}/{method.name}" for method in found)
        raise ValueError(f"{name!r} names no RPC." if not found else f"{name!r} names several RPCs: {several}.")
    return found[0]
