"""Routes of the API. Made from the protos by `make generate`; never edited by hand."""

from typing import Final

from workflow_api_client.route import Route

GET_HEALTH: Final = Route(method="GET", path="/health", repeatable=True, takes_body=False)
"""Liveness, and whether keys are accepted on this deployment."""

GET_ME: Final = Route(method="GET", path="/me", repeatable=True, takes_body=False)
"""The calling key and its limits."""

LIST_WORKFLOWS: Final = Route(method="GET", path="/workflows", repeatable=True, takes_body=False)
"""Active workflows within the key's reach, by name, then id."""

GET_WORKFLOW: Final = Route(method="GET", path="/workflows/{workflow_id}", repeatable=True, takes_body=False)
"""One workflow, with its readiness. Only a key with a list of workflows reads drafts and inactive ones, those
listed."""

LIST_PARAMETERS: Final = Route(
    method="GET", path="/workflows/{workflow_id}/parameters", repeatable=True, takes_body=False
)
"""The declared run inputs of the workflow's active version."""

START_RUN: Final = Route(method="POST", path="/workflows/{workflow_id}/runs", repeatable=True, takes_body=True)
"""Starts a run; the same `Idempotency-Key` with the same body answers, for 24 hours, the run that exists
already."""

LIST_RUNS: Final = Route(method="GET", path="/runs", repeatable=True, takes_body=False)
"""The calling key's runs, newest first."""

GET_RUN: Final = Route(method="GET", path="/runs/{run_id}", repeatable=True, takes_body=False)
"""One run in full."""

LIST_RUN_APPROVALS: Final = Route(method="GET", path="/runs/{run_id}/approvals", repeatable=True, takes_body=False)
"""The nodes parked on a human gate now. While the deployment's licence is on hold they can still be decided, and
a run that has begun goes on."""

CANCEL_RUN: Final = Route(method="POST", path="/runs/{run_id}/cancel", repeatable=False, takes_body=True)
"""Asks for the end of a run; asking again before it took effect is accepted again."""

ERASE_RUN_DATA: Final = Route(method="DELETE", path="/runs/{run_id}/data", repeatable=False, takes_body=True)
"""Erases a finished run's objects and every value that holds content; ids, status, times and counts stay. Nobody
can reach any of it from the answer on; the stored objects are removed soon after."""

LIST_RUN_EVENTS: Final = Route(method="GET", path="/runs/{run_id}/events", repeatable=True, takes_body=False)
"""Replays the durable event log of one runtime segment. An attempt of a step writes at most 10,000 events with 8
MB of data together; what is beyond is dropped, and one `warning` event counts it."""

LIST_RUN_STEPS: Final = Route(method="GET", path="/runs/{run_id}/steps", repeatable=True, takes_body=False)
"""The state of every step, read from the run's board."""

LIST_OUTPUTS: Final = Route(method="GET", path="/runs/{run_id}/outputs", repeatable=True, takes_body=False)
"""The promoted outputs of a finished run. A step leaves at most 10,000 files in 10,000 directories, 32 levels
deep; what is beyond, and what is no plain file, is not promoted, and a warning of the run counts it."""

GET_OUTPUTS_ZIP: Final = Route(method="GET", path="/runs/{run_id}/outputs.zip", repeatable=True, takes_body=False)
"""All outputs as one zip of at most 500,000,000 bytes of content and 2,000 files, whole or one range of it."""

GET_OUTPUT_CONTENT: Final = Route(
    method="GET", path="/runs/{run_id}/outputs/{output_id}/content", repeatable=True, takes_body=False
)
"""One output's bytes, whole or one range of them."""

GET_PII_REDACTION: Final = Route(method="GET", path="/runs/{run_id}/pii-redaction", repeatable=True, takes_body=False)
"""What redaction found and did, in counts only."""
