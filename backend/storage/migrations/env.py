"""How alembic reaches the tables and the database."""

from alembic import context

import backend.deployment.tables
import backend.keys.tables
import backend.outputs.tables
import backend.runs.tables
import backend.workflows.tables  # noqa: F401 - each import adds its tables to the catalogue
from backend.storage.metadata import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    render_as_batch=True,
    compare_type=True,
)
with context.begin_transaction():
    context.run_migrations()
