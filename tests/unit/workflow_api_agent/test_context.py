"""The types for authors are those of the context that steps get."""

from backend.sandbox.inside import context as inside
from workflow_api_agent import Context
from workflow_api_agent.testing import _Context


def as_authors_see_it(real: inside.Context, tested: _Context) -> tuple[Context, Context]:
    """mypy judges whether both fit the protocol."""
    return real, tested


def public(kind: type) -> set[str]:
    return {name for name in (*vars(kind), *getattr(kind, "__annotations__", {})) if not name.startswith("_")}


def test_the_types_have_everything_that_the_context_has() -> None:
    attributes = {"attempt", "parameters", "input_text", "traceparent"}
    assert public(Context) == public(inside.Context) | attributes
