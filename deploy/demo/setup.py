"""Sets up the demonstration: applies the example workflows and creates one key."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from contract.spellings import SCOPES
from deploy.client.backend import Backend, connected
from deploy.client.manifests import read_manifests
from deploy.config.settings import ClientTls
from deploy.demo.examples import MANIFESTS
from workflow_api.v1 import keys_pb2, workflows_pb2

ACTOR: Final = "demo"
KEY_NAME: Final = "Demo"
REQUESTS_A_MINUTE: Final = 600


@dataclass(frozen=True, slots=True)
class Demonstration:
    """Workflow ids by name, and the credentials of the key where this start created it."""

    workflows: Mapping[str, str]
    credentials: keys_pb2.KeyCredentials | None


def prepare_demonstration(address: str, examples: Path, tls: ClientTls) -> Demonstration:
    """Applies the examples through the backend at `address`, and creates a key unless an earlier start did."""
    with connected(address, ACTOR, tls) as backend:
        files = read_manifests([str(examples / name) for name in MANIFESTS])
        applied = backend.call(backend.workflows.ApplyManifests, workflows_pb2.ApplyManifestsRequest(files=files))
        workflows = {resource.name: resource.id for resource in applied.items if resource.kind == "Workflow"}
        return Demonstration(workflows, None if _has_key(backend) else _create_key(backend))


def _has_key(backend: Backend) -> bool:
    keys = backend.call(backend.keys.ListKeys, keys_pb2.ListKeysRequest())
    return any(record.key.name == KEY_NAME for record in keys.items)


def _create_key(backend: Backend) -> keys_pb2.KeyCredentials:
    request = keys_pb2.CreateKeyRequest(
        name=KEY_NAME,
        description="Made by the first start of the demonstration.",
        scopes=SCOPES.values(),
        rate_limit_rpm=REQUESTS_A_MINUTE,
    )
    return backend.call(backend.keys.CreateKey, request)
