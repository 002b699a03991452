"""What every service is given: the database, the clock, and the deployment that they belong to."""

from dataclasses import dataclass

from backend.clock import Clock
from backend.cursors import Cursors
from backend.storage.database import Database


@dataclass(frozen=True, slots=True)
class Services:
    """Shared means of the domain services, made once by `backend.bootstrap`."""

    database: Database
    clock: Clock
    deployment_id: str
    cursors: Cursors
