"""What a template answers to its worker: READY once, then for each step FORKED with a pidfd, or why there is none."""

from __future__ import annotations

import errno

READY, FORKED = b"ready", b"forked"
IMPOSSIBLE, FAILED = b"impossible: ", b"failed: "
"""Before a reason: steps can never be forked here, or not at the moment."""

_MOST_REASON_BYTES = 1_000
_LASTING = {errno.EPERM, errno.EACCES, errno.EINVAL, errno.ENODEV, errno.ENOSYS, errno.EOPNOTSUPP}


class UnforkableError(Exception):
    """What is preloaded cannot be forked for steps; the message says why."""


def failure(error: BaseException) -> bytes:
    """Returns the answer for an error: what the machine may only lack at the moment is worth another try."""
    lasting = error.errno in _LASTING if isinstance(error, OSError) else not isinstance(error, MemoryError)
    text = f"{type(error).__name__}: {error}".encode(errors="replace")
    return (IMPOSSIBLE if lasting else FAILED) + text[:_MOST_REASON_BYTES]


def reason(answer: bytes) -> str:
    """Returns the reason of an answer that has one, else an empty string."""
    return answer.partition(b": ")[2].decode(errors="replace")
