"""Secrets by name: whether each can be read, and what names it."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping

from backend.health.sql import SecretRow
from backend.secrets import FILE, SecretError, Secrets
from backend.settings import ModelProvider
from workflow_api.v1 import deployment_health_pb2 as pb


def secret_use(secrets: Secrets, rows: Iterable[SecretRow], models: Mapping[str, ModelProvider]) -> pb.SecretUse:
    """Returns every secret that the settings, a resource or a provider of models names; a value goes no further."""
    users: defaultdict[str, list[pb.SecretUser]] = defaultdict(list)
    for row in rows:
        for name in _named(row):
            users[name].append(pb.SecretUser(kind=row.kind, name=row.name, id=row.resource_id))
    for provider, defaults in sorted(models.items()):
        if defaults.api_key is not None:
            users[defaults.api_key].append(pb.SecretUser(kind="model_provider", name=provider))
    names = sorted({*secrets.names, *users})
    return pb.SecretUse(secrets=[_secret(secrets, name, users[name]) for name in names])


def _named(row: SecretRow) -> list[str]:
    single = [name for name in (row.secret, row.api_key) if name is not None]
    return list(dict.fromkeys([*single, *(json.loads(row.secrets) if row.secrets else ())]))


def _secret(secrets: Secrets, name: str, used_by: list[pb.SecretUser]) -> pb.NamedSecret:
    source = secrets.sources.get(name)
    if source is None:
        state, kept_in = pb.SECRET_STATE_MISSING, ""
    else:
        state, kept_in = pb.SECRET_STATE_UNREADABLE, "file" if source.startswith(FILE) else "environment"
    try:
        secrets.get(name)
    except SecretError as error:
        return pb.NamedSecret(name=name, state=state, problem=str(error), kept_in=kept_in, used_by=used_by)
    return pb.NamedSecret(name=name, state=pb.SECRET_STATE_SET, kept_in=kept_in, used_by=used_by)
