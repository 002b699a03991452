"""Sets up the demonstration: applies the example workflows, creates one key and the first administrator."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from contract.spellings import SCOPES
from deploy.client.backend import Backend, connected
from deploy.client.manifests import read_manifests
from deploy.config.settings import ClientTls
from deploy.demo.examples import MANIFESTS
from workflow_api.v1 import keys_pb2, users_pb2, workflows_pb2

ACTOR: Final = "demo"
ADMINISTRATOR: Final = "admin"
KEY_NAME: Final = "Demo"
REQUESTS_A_MINUTE: Final = 600


@dataclass(frozen=True, slots=True)
class Demonstration:
    """Workflow ids by name, and what this start created: the credentials of the key, the administrator's password.

    `key_ids` are keys of the demonstration that earlier starts created and that are in use.
    """

    workflows: Mapping[str, str]
    credentials: keys_pb2.KeyCredentials | None
    password: str | None = None
    key_ids: frozenset[str] = frozenset()


def prepare_demonstration(address: str, examples: Path, tls: ClientTls) -> Demonstration:
    """Applies the examples through the backend at `address`; creates key and administrator unless an earlier start did.

    Nobody is added where somebody was before: whoever deleted or renamed the administrator wanted that.
    """
    with connected(address, ACTOR, tls) as backend:
        files = read_manifests([str(examples / name) for name in MANIFESTS])
        applied = backend.call(backend.workflows.ApplyManifests, workflows_pb2.ApplyManifestsRequest(files=files))
        workflows = {resource.name: resource.id for resource in applied.items if resource.kind == "Workflow"}
        keys = _keys(backend)
        return Demonstration(
            workflows,
            None if keys else _create_key(backend),
            None if _has_users(backend) else _create_administrator(backend),
            frozenset(record.key.key_id for record in keys if record.state == "active"),
        )


def _keys(backend: Backend) -> list[keys_pb2.KeyRecord]:
    pages = backend.pages(backend.keys.ListKeys, keys_pb2.ListKeysRequest())
    return [record for page in pages for record in page.items if record.key.name == KEY_NAME]


def _has_users(backend: Backend) -> bool:
    return bool(backend.call(backend.users.ListUsers, users_pb2.ListUsersRequest(page_size=1)).items)


def _create_administrator(backend: Backend) -> str:
    request = users_pb2.CreateUserRequest(name=ADMINISTRATOR, role=users_pb2.ROLE_ADMINISTRATOR)
    return backend.call(backend.users.CreateUser, request).password


def _create_key(backend: Backend) -> keys_pb2.KeyCredentials:
    request = keys_pb2.CreateKeyRequest(
        name=KEY_NAME,
        description="Made by the first start of the demonstration.",
        scopes=SCOPES.values(),
        rate_limit_rpm=REQUESTS_A_MINUTE,
    )
    return backend.call(backend.keys.CreateKey, request)
