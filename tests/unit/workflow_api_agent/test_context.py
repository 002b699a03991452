"""The types for authors are those of the context that steps get."""

from backend.isolation.sandbox.inside import context as inside
from workflow_api_agent import Context


def as_authors_see_it(real: inside.Context) -> Context:
    """mypy judges whether it fits the protocol, as it does for that of `run_agent` there."""
    return real


def public(kind: type) -> set[str]:
    return {name for name in (*vars(kind), *getattr(kind, "__annotations__", {})) if not name.startswith("_")}


def test_the_types_have_everything_that_the_context_has() -> None:
    attributes = {"attempt", "run_id", "step", "client_reference", "parameters", "input_text", "traceparent"}
    attributes |= {"item_index", "failure", "input"}
    assert public(Context) == public(inside.Context) | attributes
