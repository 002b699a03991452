"""What the settings of a deployment let workflows use."""

from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple


class Capabilities(NamedTuple):
    """The providers whose models can be called without an agent's own key or address, and the names of the secrets."""

    providers: AbstractSet[str] = frozenset()
    secrets: AbstractSet[str] = frozenset()


NO_CAPABILITIES: Final = Capabilities()
