"""Rules between settings, beyond the checks of single values."""

from collections.abc import Iterator
from typing import Final

from deploy.config.addresses import Addresses, BackendAddress, UnixSocket
from deploy.config.redis_address import secret_name
from deploy.config.settings import ServerTls, Settings

NEEDS_TLS: Final = "must be on this machine (127.0.0.1:9090, unix:/path) where no certificate is given"


def contradictions(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yields the name of each setting that contradicts the others, and what it must be."""
    for provider, model in settings.models.items():
        if model.api_key is not None and model.api_key not in settings.secrets:
            # The value is not quoted: it may be the key itself.
            yield f"models.{provider}", "must have as api_key a name that [secrets] holds"
    yield from _worker_contradictions(settings)
    yield from _edge_contradictions(settings)
    yield from _oidc_contradictions(settings)
    backend = settings.backend
    yield from _grpc_contradictions("backend.grpc", backend.grpc, "backend.tls", backend.tls)
    for part, caller in (("edge", settings.edge), ("console", settings.console)):
        tls = caller.backend_tls
        yield from _grpc_contradictions(f"{part}.backend", caller.backend, f"{part}.backend_tls", tls)
        if isinstance(caller.backend, Addresses) and tls.given and tls.server_name is None:
            yield f"{part}.backend_tls.server_name", "must be given: several backends share one certificate name"
    yield from _tls_contradictions("admin.backend_tls", settings.admin.backend_tls)
    if backend.tls.given and not settings.identities:
        yield "identities", "must say who may call what, where backend.tls gives a certificate"
    if settings.identities and not backend.tls.given:
        yield "identities", "must not be given without backend.tls: plain gRPC does not identify callers"


def _worker_contradictions(settings: Settings) -> Iterator[tuple[str, str]]:
    if settings.runtime.engine != "dbos":
        return
    if settings.backend.database is None:
        yield "runtime.engine", "dbos needs PostgreSQL: set backend.database, or leave the engine local"
    if settings.objects.store == "folder" and settings.objects.folder is None:
        yield "objects.store", "workers need the same objects: use s3, or set objects.folder to a folder they share"


def _edge_contradictions(settings: Settings) -> Iterator[tuple[str, str]]:
    secret = secret_name(settings.edge.redis_url or "")
    if secret is not None and secret not in settings.secrets:
        yield "edge.redis_url", f"must name a secret that [secrets] holds; '{secret}' is none"


def _oidc_contradictions(settings: Settings) -> Iterator[tuple[str, str]]:
    oidc = settings.oidc
    needed = ("issuer", "client_id", "client_secret", "roles")
    missing = [name for name in needed if getattr(oidc, name) is None]
    if len(missing) == len(needed):
        return
    for name in missing:
        yield f"oidc.{name}", "must be given too: sign-in with a provider needs issuer, client_id, client_secret, roles"
    if oidc.client_secret is not None and oidc.client_secret not in settings.secrets:
        # The value is not quoted: it may be the secret itself.
        yield "oidc.client_secret", "must be a name that [secrets] holds"
    if oidc.roles is not None:
        # Its messages are imported for this setting only.
        from contract.roles import ROLE_NAMES

        known = tuple(ROLE_NAMES.values())
        for role in set(oidc.roles.values()) - set(known):
            yield "oidc.roles", f"must map to {' or '.join(known)}; '{role}' is no role"


def _grpc_contradictions(
    name: str, address: BackendAddress, tls_name: str, tls: ServerTls
) -> Iterator[tuple[str, str]]:
    yield from _tls_contradictions(tls_name, tls)
    if not tls.given and not address.is_local:
        yield name, f"{NEEDS_TLS} in {tls_name}"
    if tls.given and isinstance(address, UnixSocket):
        yield name, f"must be HOST:PORT where {tls_name} gives a certificate: a socket is kept by its folder"


def _tls_contradictions(name: str, tls: ServerTls) -> Iterator[tuple[str, str]]:
    files = {"certificate": tls.certificate, "key": tls.key, "ca": tls.ca}
    missing = [f"{name}.{file}" for file, path in files.items() if path is None]
    if missing and tls.given:
        yield missing[0], "must be given too: a certificate goes with its key and with the authorities of the others"
