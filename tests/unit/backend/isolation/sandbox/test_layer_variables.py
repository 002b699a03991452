"""Variables of environments in every layer."""

from tests.unit.backend.isolation.sandbox.steps import Steps

VARIABLES = {"REPORT_LANGUAGE": "de", "EMPTY": "", "TEXT": "a=b\nü ${vars.X} $HOME"}


def test_a_step_and_the_programs_that_it_starts_have_its_environments_variables(confined: Steps) -> None:
    code = """
        import json, os, subprocess, sys
        NAMES = ("REPORT_LANGUAGE", "EMPTY", "TEXT")
        def run(context):
            program = "import json, os; print(json.dumps([os.environ.get(name) for name in %r]))" % (NAMES,)
            started = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
            return [[os.environ.get(name) for name in NAMES], json.loads(started.stdout)]
    """
    assert confined.run(code, variables=VARIABLES) == [list(VARIABLES.values())] * 2


def test_a_later_step_without_variables_has_none(confined: Steps) -> None:
    code = "def run(context):\n    import os\n    return os.environ.get('REPORT_LANGUAGE')"
    assert confined.run(code, variables=VARIABLES) == "de"
    assert confined.run(code) is None
