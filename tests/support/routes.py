"""The contract's route table, written down apart from the protos. (contract 3.1)"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Route:
    """One of the 17 routes; `scope` is None for any key and empty for no key at all."""

    method: str
    template: str
    scope: str | None
    success: int = 200

    def path(self, **ids: str) -> str:
        """The path with ids in it; those not given are ids of nothing."""
        known = {"workflow_id": "wf_none", "run_id": "run_none", "output_id": "out_none", **ids}
        return self.template.format(**known)

    @property
    def takes_input(self) -> bool:
        return self.template not in {"/health", "/me"}

    def __str__(self) -> str:
        return f"{self.method} {self.template}"


ROUTES = (
    Route("GET", "/health", ""),
    Route("GET", "/me", None),
    Route("GET", "/workflows", "workflows:read"),
    Route("GET", "/workflows/{workflow_id}", "workflows:read"),
    Route("GET", "/workflows/{workflow_id}/parameters", "workflows:read"),
    Route("POST", "/workflows/{workflow_id}/runs", "runs:create", 201),
    Route("GET", "/runs", "runs:read"),
    Route("GET", "/runs/{run_id}", "runs:read"),
    Route("GET", "/runs/{run_id}/approvals", "runs:read"),
    Route("POST", "/runs/{run_id}/cancel", "runs:create", 202),
    Route("DELETE", "/runs/{run_id}/data", "runs:delete", 202),
    Route("GET", "/runs/{run_id}/events", "runs:read"),
    Route("GET", "/runs/{run_id}/outputs", "outputs:read"),
    Route("GET", "/runs/{run_id}/outputs.zip", "outputs:read"),
    Route("GET", "/runs/{run_id}/outputs/{output_id}/content", "outputs:read"),
    Route("GET", "/runs/{run_id}/pii-redaction", "runs:read"),
    Route("GET", "/runs/{run_id}/steps", "runs:read"),
)
KEYED = tuple(route for route in ROUTES if route.scope != "")
SCOPED = tuple(route for route in ROUTES if route.scope)
RUN_ROUTES = tuple(route for route in ROUTES if "{run_id}" in route.template)
