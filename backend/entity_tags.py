"""Strong entity tags of rows, for callers that ask whether anything changed."""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

import orjson

from contract.versions import API_VERSION, RELEASE

_DIGEST_BYTES: Final = 16
# A release that shows a row otherwise gives it another tag.
_RELEASE: Final = f"{API_VERSION} {RELEASE}".encode()
# The block of the key is digested once.
_KEYED: Final = blake2b(digest_size=_DIGEST_BYTES, key=_RELEASE)


def entity_tag(row: Sequence[object]) -> str:
    """Returns the tag of a row, without quotes: equal for equal values, and another one for any other."""
    digest = _KEYED.copy()
    digest.update(orjson.dumps(tuple(row)))
    return digest.hexdigest()


def matches(tag: str, if_none_match: Sequence[str]) -> bool:
    """Returns whether a caller has the tag already; `*` stands for any."""
    return any(given in {"*", tag} for given in if_none_match)
