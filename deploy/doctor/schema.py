"""The schema of a database, of either kind, held against this release."""

from backend.storage.migrate import known_revisions, newest_revision
from deploy.doctor.check import Check, failed, ok, warning


def schema_check(schema: str) -> Check:
    """Holds the revision of a database against this release."""
    newest = newest_revision()
    if schema == newest:
        return ok("schema", f"The database has schema {schema}, that of this release.")
    if schema in known_revisions():
        return warning(
            "schema",
            f"The database has schema {schema}, and this release {newest}.",
            "Back up; the next start of a backend migrates it.",
        )
    remedy = "Run the release that has migrated it, or a newer one; or restore a backup of before that."
    return failed("schema", f"The database has schema {schema}, and this release none after {newest}.", remedy)
