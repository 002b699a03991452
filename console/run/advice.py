"""What to do about a failure, by its kind; docs/agents.md and the contract (13.13) say what each means."""

from collections.abc import Mapping
from typing import Final

_MODEL_BUSY: Final = "The provider of the model was not available. Run it again later, or give the step a `retry`."
_BY_TYPE: Final[Mapping[str, str]] = {
    "ModelTimeout": "The model was too slow. Raise `request_timeout_seconds` of the agent, or give the step a `retry`.",
    "TimeLimit": "The step ran into its time limit. Raise `timeout_seconds` of its environment, or give it less to do.",
    "ModelUnreachable": "Check that this machine reaches the provider of the model, then run it again.",
    "ModelRateLimited": _MODEL_BUSY,
    "ModelUnavailable": _MODEL_BUSY,
    "ModelServerError": _MODEL_BUSY,
    "ModelUnauthorized": "The provider refused the key: renew the secret of the model.",
    "ModelQuotaExceeded": "The account at the provider of the model has no quota left: raise it.",
    "ModelNotFound": "The provider does not know the model: correct `model` of the agent.",
    "ModelInputTooLong": "The input is longer than the model takes: give it less, or choose another model.",
    "ModelOutputTooLong": "The answer was cut off: raise `max_tokens` of the agent.",
    "ModelNotConfigured": "Give the deployment a key for this provider, or install its library.",
    "SecretUnavailable": "Set the secret that the message names in the settings, or correct its name in the agent.",
    "InvalidAnswer": "The answer of the model does not fit `output_schema`: see the step's log, and adjust the prompt.",
    "OutputsNotStored": "The object store did not take the files of the step. Check it, then run it again.",
    "RedactionFailed": "Personal data could not be swept, so nothing was kept. Check the model of the PII policy.",
    "MemoryError": "The step needs more memory: raise `memory_mb` of its environment.",
}
_BY_CODE: Final[Mapping[str, str]] = {
    "node_failed": "The end of its log shows where it failed. Correct the agent or the inputs, and run it again.",
    "invariant_blocked": "It was rejected, or a step before it failed: see the decision or that step.",
    "input_materialisation_failed": "Check that the connector may read the prefix, and that it holds objects.",
    "wall_clock_limit_reached": "The time limit passed, waits for approvals included: raise `max_run_hours`.",
    "launch_failed": "The runtime could not start it. Nothing was done: run it again.",
    "orphaned": "The process that ran it ended. Runs are not resumed: run it again.",
    "license_unavailable": "The licence was on hold when it was to begin: see the deployment, then run it again.",
    "result_schema_mismatch": "The result is kept as the output result.json. Correct the agent, or the schema.",
}


def advice(code: str, error_type: str = "") -> str:
    """Returns what to do about an error by its type, else by its code; empty where nothing is known."""
    return _BY_TYPE.get(error_type) or _BY_CODE.get(code, "")


def run_advice(code: str) -> str:
    """Returns what to do about the failure of a run."""
    return "See the step that failed, below." if code == "node_failed" else _BY_CODE.get(code, "")
