"""Agents import the types for authors in every layer."""

from tests.unit.backend.isolation.sandbox.steps import Steps


def test_the_types_for_authors_are_importable_inside(confined: Steps) -> None:
    code = """
        from workflow_api_agent import Context, run_agent

        def inner(context: Context) -> str:
            return (context.input_text or "").upper()

        def run(context: Context) -> list[str]:
            return [inner(context), run_agent(inner, input_text="b").value]
    """
    assert confined.run(code, input_text="a") == ["A", "B"]


def test_they_are_not_loaded_for_agents_that_do_not_import_them(confined: Steps) -> None:
    code = """
        import sys

        def run(context):
            return [name for name in sys.modules if name.startswith("workflow_api_agent")]
    """
    assert confined.run(code) == []
