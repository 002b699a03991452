"""What every service is given: the database, the clock, secrets, and the deployment that they belong to."""

from dataclasses import dataclass, field

from backend.clock import Clock
from backend.cursors import Cursors
from backend.release import RELEASE
from backend.secrets import Secrets
from backend.storage.database import Database
from backend.workflows.known_terms import KnownTerms


@dataclass(frozen=True, slots=True)
class Services:
    """Shared means of the domain services, made once by `backend.bootstrap`; `release` is the deployment's."""

    database: Database
    clock: Clock
    deployment_id: str
    cursors: Cursors
    release: str = RELEASE
    secrets: Secrets = field(default_factory=Secrets)
    terms: KnownTerms = field(default_factory=KnownTerms)
