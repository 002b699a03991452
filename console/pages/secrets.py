"""The page of secrets: which there are, which are missing, and what names each; never a value."""

from collections.abc import Mapping
from typing import Final

from console.rendering.formatting import Badge
from console.resources.lookup import CONNECTORS, GRAPHS, path_of
from console.visit import PageResult, View, Visit
from workflow_api.v1 import deployment_health_pb2
from workflow_api.v1.deployment_health_pb2 import GetSecretUseRequest, NamedSecret, SecretUse, SecretUser

PATH: Final = "/resources/secrets"

_STATES: Final = {
    deployment_health_pb2.SECRET_STATE_SET: Badge("set", "good"),
    deployment_health_pb2.SECRET_STATE_UNREADABLE: Badge("unreadable", "bad"),
    deployment_health_pb2.SECRET_STATE_MISSING: Badge("missing", "bad"),
}
_UNKNOWN: Final = Badge("unknown")
_KINDS: Final[Mapping[str, str]] = {
    "agent": "Agent",
    "connector": "Connector",
    "knowledge_graph": "Knowledge graph",
    "model_provider": "Models of",
}


async def named_secrets(visit: Visit) -> list[NamedSecret]:
    """Returns every secret that is set or that something names."""
    found: SecretUse = await visit.services.call("DeploymentHealthService/GetSecretUse", GetSecretUseRequest())
    return list(found.secrets)


async def show(visit: Visit) -> PageResult:
    """Lists secrets by name."""
    rows = [
        (each, _STATES.get(each.state, _UNKNOWN), [_user(user) for user in each.used_by])
        for each in await named_secrets(visit)
    ]
    return View("resources/secrets.html", {"rows": rows})


def _user(user: SecretUser) -> tuple[str, str, str]:
    """Returns what names a secret: kind in words, name, and the address of its page; empty without one."""
    kind = {"connector": CONNECTORS, "knowledge_graph": GRAPHS}.get(user.kind)
    return _KINDS.get(user.kind, user.kind), user.name, "" if kind is None else path_of(kind, user.id)
