"""Failure codes of runs."""

from typing import Final

NODE_FAILED: Final = "node_failed"
INVARIANT_BLOCKED: Final = "invariant_blocked"
INPUT_MATERIALISATION_FAILED: Final = "input_materialisation_failed"
LAUNCH_FAILED: Final = "launch_failed"
LICENSE_UNAVAILABLE: Final = "license_unavailable"
WALL_CLOCK_LIMIT_REACHED: Final = "wall_clock_limit_reached"
ORPHANED: Final = "orphaned"

ALL: Final = (
    NODE_FAILED,
    INVARIANT_BLOCKED,
    INPUT_MATERIALISATION_FAILED,
    LAUNCH_FAILED,
    LICENSE_UNAVAILABLE,
    WALL_CLOCK_LIMIT_REACHED,
    ORPHANED,
)
