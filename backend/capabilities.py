"""What the settings of a deployment let workflows use."""

from collections.abc import Set as AbstractSet
from typing import Final, Literal, NamedTuple


class Capabilities(NamedTuple):
    """The providers whose models can be called without an agent's own key or address, and the names of the secrets.

    `network` is the most that an environment may allow its steps.
    """

    providers: AbstractSet[str] = frozenset()
    secrets: AbstractSet[str] = frozenset()
    network: Literal["none", "full"] = "none"


NO_CAPABILITIES: Final = Capabilities()
