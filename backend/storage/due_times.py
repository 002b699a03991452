"""SQL condition for a time that has come: `backend.clock.is_due`, in the words of a query."""

from sqlalchemy import BigInteger, BindParameter, ColumnElement, cast, literal_column, or_


def is_due(at: ColumnElement[int], now: BindParameter[int], longest_ms: int) -> ColumnElement[bool]:
    """Returns whether a time has come that was set at most `longest_ms` ahead; never for NULL.

    A time later than that was set by a clock that was ahead and has been corrected since, and has come too.
    """
    return or_(at <= now, at > cast(now, BigInteger) + literal_column(str(longest_ms)))
