"""Table of the deployment's processes, as they last reported."""

from sqlalchemy import BigInteger, Column, Table, Text

from backend.storage.tables.metadata import METADATA

# For people who look after the deployment; nothing else depends on it. Leases are in `workers`.
processes = Table(
    "processes",
    METADATA,
    # An id made at the start of the process and never used again.
    Column("process_id", Text, primary_key=True),
    # `backend`, `worker` or `edge`.
    Column("part", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("pid", BigInteger, nullable=False),
    Column("release", Text, nullable=False),
    Column("started_at", BigInteger, nullable=False),
    Column("seen_at", BigInteger, nullable=False),
    # Milliseconds; null where it is not known.
    Column("clock_ahead", BigInteger),
    # Bytes of the file systems of the data folder and of the object store; null where there is none.
    Column("data_total", BigInteger),
    Column("data_free", BigInteger),
    Column("objects_total", BigInteger),
    Column("objects_free", BigInteger),
    # Bytes an hour by which these two fill.
    Column("data_filling", BigInteger),
    Column("objects_filling", BigInteger),
    # Of the certificate that it presents to other parts; null where it presents none.
    Column("certificate_expires_at", BigInteger),
    # JSON list of texts: backends that it cannot call, and why; null where there are none.
    Column("unusable_backends", Text),
)
