"""Gives alembic the tables and the connection."""

from alembic import context

import backend.storage.tables  # noqa: F401 - adds every table to the catalogue
from backend.storage.tables.metadata import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    render_as_batch=True,
    compare_type=True,
)
with context.begin_transaction():
    context.run_migrations()
