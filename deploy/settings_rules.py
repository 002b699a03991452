"""What settings must hold together, beside what each of them may be."""

from collections.abc import Iterator

from deploy.redis_address import secret_of
from deploy.settings import Settings


def contradictions(settings: Settings) -> Iterator[tuple[str, str]]:
    """Give the name of each setting that does not go with the others, and what it must be."""
    for provider, model in settings.models.items():
        if model.api_key is not None and model.api_key not in settings.secrets:
            yield f"models.{provider}", f"must have as api_key a name that [secrets] holds; '{model.api_key}' is none"
    if settings.runtime.engine == "dbos":
        if settings.backend.database is None:
            yield "runtime.engine", "dbos needs PostgreSQL: set backend.database, or leave the engine local"
        if settings.objects.store == "folder" and settings.objects.folder is None:
            yield "objects.store", "workers need the same objects: use s3, or set objects.folder to a folder they share"
    if settings.edge.processes > 1 and settings.edge.redis_url is None:
        yield "edge.processes", "must be 1, or edge.redis_url must name a Redis in which they hold rate limits together"
    secret = secret_of(settings.edge.redis_url or "")
    if secret is not None and secret not in settings.secrets:
        yield "edge.redis_url", f"must name a secret that [secrets] holds; '{secret}' is none"
