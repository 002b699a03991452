"""What removes the secrets of a step from everything that it reports and leaves."""

import asyncio
from collections.abc import Mapping
from typing import NamedTuple, Self

from backend.secret_scrubbing import Scrubber


class Scrubbing(NamedTuple):
    """The scrubber of what people read (log, events, errors), and that of data (return value, output files)."""

    words: Scrubber
    data: Scrubber

    @classmethod
    async def of(cls, secrets: Mapping[str, str]) -> Self:
        """Returns the scrubbers for the values of these secrets, which are made off the loop."""
        values = list(secrets.values())
        if not values:
            return cls(Scrubber(()), Scrubber(()))
        return await asyncio.to_thread(lambda: cls(Scrubber(values), Scrubber(values, data=True)))
