"""Runs bounded jobs on untrusted data in confined worker processes that can be killed at any moment.

    pool = ConfinedPool("backend.resources.schemas.program", size=2, name="schemas")
    pool.run("validate", {"schema": schema, "value": value}, owner=key_id, cpu_seconds=5.0, memory_bytes=256 * 2**20)

The program is a module with a mapping `OPERATIONS` of functions `(arguments, descriptors) -> JSON`, and optionally a
function `configure(configuration, scratch)` that runs once in each process, before its first job.
"""

from backend.isolation.confined.frames import Answer, Arguments, ConfinedError, FailureKind, JobFailedError
from backend.isolation.confined.pool import ConfinedPool

__all__ = ["Answer", "Arguments", "ConfinedError", "ConfinedPool", "FailureKind", "JobFailedError"]
