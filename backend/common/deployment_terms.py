"""Values that the settings of a deployment share with other layers: capabilities, bounds of validations, addresses."""

import re
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple


class Capabilities(NamedTuple):
    """The providers whose models can be called without an agent's own key or address, and the names of the secrets.

    `network` is the widest network access that an environment may give its steps. `mcp_hosts` are the hosts of servers
    whose tools models may call.
    """

    providers: AbstractSet[str] = frozenset()
    secrets: AbstractSet[str] = frozenset()
    network: Literal["none", "full"] = "none"
    mcp_hosts: AbstractSet[str] = frozenset()


NO_CAPABILITIES: Final = Capabilities()


@dataclass(frozen=True, slots=True)
class CheckBounds:
    """Processor time and memory of one validation: of a schema, of code or of an expression."""

    cpu_seconds: float = 5.0
    memory_mb: int = 256

    def __str__(self) -> str:
        return f"{self.cpu_seconds:g} seconds of processor time and {self.memory_mb} MB of memory"


CODE_BOUNDS: Final = CheckBounds(cpu_seconds=5.0, memory_mb=512)
"""Bounds of compiling one text of Python: twice what the densest file of 1 MiB takes; ordinary
code of 8 MiB fits, too."""

EXPRESSION_BOUNDS: Final = CheckBounds(cpu_seconds=0.1, memory_mb=64)
"""Bounds of checking or evaluating one expression, besides reading the values in its scope."""


HTTP_ADDRESS: Final = re.compile(r"https?://[A-Za-z0-9.:\[\]-]+(?:/[!-~]*)?")
