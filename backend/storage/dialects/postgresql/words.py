"""What PostgreSQL says of a failure, for the log."""

from typing import Final

import psycopg
from psycopg import errors
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

_MOST_CHARACTERS: Final = 300


def words_of(error: Exception) -> str:
    """Returns the first line of what the server or the driver says, with SQLSTATE where there is one.

    Other lines may quote statements. Of what says nothing of the state of the server there is only the class.
    """
    if isinstance(error, PoolTimeoutError):
        return "all connections of this process are in use"
    said = type(error).__name__
    if isinstance(error, (psycopg.OperationalError, errors.ReadOnlySqlTransaction)):
        first = str(error).strip().partition("\n")[0]
        said = first.strip().rstrip(".")[:_MOST_CHARACTERS] or said
    sqlstate = error.sqlstate if isinstance(error, psycopg.Error) else None
    return f"{said} (SQLSTATE {sqlstate})" if sqlstate else said
