"""The failure codes of runs. (SPEC.md, Failure codes)."""

from typing import Final

NODE_FAILED: Final = "node_failed"
INVARIANT_BLOCKED: Final = "invariant_blocked"
INPUT_MATERIALISATION_FAILED: Final = "input_materialisation_failed"
LAUNCH_FAILED: Final = "launch_failed"
LICENSE_UNAVAILABLE: Final = "license_unavailable"
WALL_CLOCK_LIMIT_REACHED: Final = "wall_clock_limit_reached"
ORPHANED: Final = "orphaned"
