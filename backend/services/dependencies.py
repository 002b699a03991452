"""Dependencies that all domain services share: the database, the clock, secrets, and the deployment."""

from dataclasses import dataclass, field
from typing import Literal

from backend.common.caches import RevisionedCache
from backend.common.clock import Clock
from backend.common.deployment_terms import Capabilities
from backend.common.paging import Cursors
from backend.common.secrets import Secrets
from backend.resources.schemas.validator import SchemaValidator
from backend.storage.database import Database
from contract.versions import RELEASE


@dataclass(frozen=True, slots=True)
class Services:
    """Shared dependencies of the domain services, made once by `backend.bootstrap`.

    `release` is the deployment's; `model_providers` are those whose models a PII policy may name; `network` is the most
    that an environment may allow its steps; `mcp_hosts` are those of servers whose tools models may call.
    """

    database: Database
    clock: Clock
    deployment_id: str
    cursors: Cursors
    release: str = RELEASE
    secrets: Secrets = field(default_factory=Secrets)
    cache: RevisionedCache = field(default_factory=RevisionedCache)
    model_providers: frozenset[str] = frozenset()
    network: Literal["none", "full"] = "none"
    mcp_hosts: frozenset[str] = frozenset()
    schemas: SchemaValidator = field(default_factory=SchemaValidator)

    @property
    def capabilities(self) -> Capabilities:
        """Capabilities that the settings let workflows use."""
        return Capabilities(self.model_providers, self.secrets.names, self.network, self.mcp_hosts)
