"""StepPackages of environments in every layer."""

from dataclasses import replace
from pathlib import Path

import pytest

from backend.isolation.sandbox import Sandbox, StepPackages
from backend.isolation.sandbox.limits import Limits
from backend.runtime.agents import StepFailed
from tests.support.poll import until
from tests.unit.backend.isolation.sandbox.layers import LAYERS, each
from tests.unit.backend.isolation.sandbox.steps import LIMITS, Steps


@pytest.fixture
def packages(tmp_path: Path) -> StepPackages:
    folder = tmp_path / "built"
    (folder / "alpha").mkdir(parents=True)
    (folder / "alpha" / "__init__.py").write_text("import os\nWHERE = os.getpid()\n")
    (folder / "broken.py").write_text("raise RuntimeError('broken on purpose')\n")
    return StepPackages(folder)


def with_packages(packages: StepPackages) -> Limits:
    return replace(LIMITS, packages=packages)


def test_a_step_imports_its_environments_packages(confined: Steps, packages: StepPackages) -> None:
    code = "def run(context):\n    import alpha, os\n    return alpha.WHERE == os.getpid()"
    assert confined.run(code, limits=with_packages(packages)) is True
    with pytest.raises(StepFailed, match="No module named 'alpha'"):
        confined.run(code)


def test_interpreters_that_a_step_starts_have_them_too(confined: Steps, packages: StepPackages) -> None:
    code = """
        import subprocess, sys
        def run(context):
            return subprocess.run([sys.executable, "-c", "import alpha"]).returncode
    """
    assert confined.run(code, limits=with_packages(packages)) == 0


def test_packages_cannot_be_changed_by_a_step(confined: Steps, packages: StepPackages) -> None:
    code = """
        import pathlib, sys
        def run(context):
            folder = pathlib.Path(sys.path[-1])
            refused = []
            for act in (
                lambda: (folder / "new.py").write_text(""),
                lambda: (folder / "alpha" / "__init__.py").write_text(""),
                lambda: (folder / "broken.py").unlink(),
            ):
                try:
                    act()
                except OSError as error:
                    refused.append(type(error).__name__)
            return len(refused)
    """
    assert confined.run(code, limits=with_packages(packages)) == 3
    assert (packages.folder / "broken.py").exists()


@pytest.mark.parametrize("name", each(LAYERS))
def test_modules_are_preloaded_before_the_step_is_known(name: str, packages: StepPackages, tmp_path: Path) -> None:
    layer = LAYERS[name]()
    layer.check()
    sandbox = Sandbox(layer, warm=1)
    limits = with_packages(replace(packages, preload=("alpha", "broken", "missing")))
    code = "import sys\ndef run(context):\n    return 'alpha' in sys.modules"
    steps = Steps(sandbox, tmp_path)
    try:
        sandbox.prepare(limits)
        until(lambda: steps.run(code, limits=limits), "a sandbox that has imported it", every=1)
        until(
            lambda: (
                b"broken could not be preloaded: RuntimeError: broken on purpose"
                in steps.run_logged(code, limits=limits)[1]
            ),
            "the failure in the log",
            every=1,
        )
    finally:
        sandbox.close()
