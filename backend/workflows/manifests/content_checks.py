"""Checks of what manifests hold in other languages: JSON Schemas, and the Python of agents."""

from typing import Any, Protocol

from backend.schemas.source_code import CodeProblem


class ContentChecks(Protocol):
    """Checks within limits of time and memory; see `backend.schemas.judge.ManifestChecks`."""

    def schema_problem(self, schema: Any, *, answer: bool) -> str | None:
        """Returns the problem of a schema, or None; `answer` marks the schema of a model's answer."""

    def code_problem(self, text: str | bytes, *, defines: str | None = None) -> CodeProblem | None:
        """Returns the problem of Python source that is no Python, or does not define a name at its top, or None."""
