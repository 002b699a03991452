"""An agent's code in a file or a folder, in every layer."""

from typing import Any

import pytest

from backend.runtime.agents import StepFailed
from tests.unit.backend.isolation.sandbox.steps import Steps


def folder(steps: Steps, files: dict[str, str], entrypoint: str = "main:run", **fields: Any) -> Any:
    agent = {"type": "python", "source": "agents", "entrypoint": entrypoint}
    source = {path: text.encode() for path, text in files.items()}
    return steps.run("", agent=agent, source=source, **fields)


def test_modules_and_files_of_a_folder_are_found(confined: Steps) -> None:
    files = {
        "main.py": "from lib.texts import greeting\nasync def run(context):\n    return greeting(context.input_text)\n",
        "lib/__init__.py": "",
        "lib/texts.py": (
            "from pathlib import Path\n"
            "def greeting(name):\n"
            "    return (Path(__file__).parent / 'data' / 'hello.txt').read_text() + name\n"
        ),
        "lib/data/hello.txt": "Hello ",
    }
    assert folder(confined, files, input_text="you") == "Hello you"


def test_an_entry_point_may_be_in_a_package(confined: Steps) -> None:
    files = {"digest/__init__.py": "", "digest/steps/main.py": "def go(context):\n    return __name__\n"}
    assert folder(confined, files, "digest.steps.main:go") == "digest.steps.main"


def test_a_traceback_has_the_files_as_their_author_knows_them(confined: Steps) -> None:
    files = {
        "main.py": "import helper\ndef run(context):\n    helper.fail()\n",
        "helper.py": "def fail():\n    1 / 0\n",
    }
    with pytest.raises(StepFailed, match="division by zero") as failed:
        folder(confined, files)
    log = failed.value.log.decode()
    assert 'File "main.py", line 3, in run\n    helper.fail()' in log
    assert 'File "helper.py", line 2, in fail\n    1 / 0' in log
    assert "runner" not in log


def test_a_module_that_fails_to_load_fails_the_step(confined: Steps) -> None:
    with pytest.raises(StepFailed, match="No module named 'absent'") as failed:
        folder(confined, {"main.py": "import absent\n"})
    assert 'File "main.py", line 1' in failed.value.log.decode()


def test_a_folder_without_the_function_fails_the_step(confined: Steps) -> None:
    with pytest.raises(StepFailed, match=r"the module main defines no function run\(context\)"):
        folder(confined, {"main.py": "run = 1\n"})


def test_a_step_may_change_its_copy_alone(confined: Steps) -> None:
    text = "def run(context):\n    text = open(__file__).read()\n    open(__file__, 'w').close()\n    return text\n"
    files = {"main.py": text}
    assert folder(confined, files) == folder(confined, files) == text


def test_a_file_has_its_name_in_tracebacks(confined: Steps) -> None:
    agent = {"type": "python", "code": "def run(context):\n    return 1 / 0\n", "code_file": "agents/digest.py"}
    with pytest.raises(StepFailed) as failed:
        confined.run("", agent=agent)
    assert 'File "digest.py", line 2, in run\n    return 1 / 0' in failed.value.log.decode()
