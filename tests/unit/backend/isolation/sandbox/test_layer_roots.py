"""Roots of environments in every layer, and the machine's fonts without one."""

import ctypes
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from backend.isolation.sandbox import Network, Sandbox, SandboxUnavailableError, StepRoot
from backend.isolation.sandbox.host_libraries import host_libraries
from backend.isolation.sandbox.limits import Limits
from backend.resources.roots.store import RootStore
from tests.support.roots import LIBRARY, PROGRAM, make_root
from tests.unit.backend.isolation.sandbox.layers import EVERY_LAYER, each, opened
from tests.unit.backend.isolation.sandbox.steps import LIMITS, Steps

CALLS = f"""
    import ctypes, os, subprocess, sys
    def run(context):
        done = subprocess.run(["{PROGRAM}"], capture_output=True, text=True, check=True)
        assert "HOME=" in done.stdout
        library = ctypes.CDLL("{LIBRARY}")
        library.floor.restype = ctypes.c_double
        child = "import json, ssl, sys; print(sys.version_info[:2], sys.prefix)"
        asked = subprocess.run([sys.executable, "-c", child], capture_output=True, text=True, check=True)
        own = f"{{sys.version_info[:2]}} {{sys.prefix}}\\n"
        return [library.floor(ctypes.c_double(2.5)), asked.stdout == own, os.environ["LANG"]]
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> StepRoot:
    folder = tmp_path_factory.mktemp("machine")
    store = RootStore(folder / "private" / "roots")
    added = store.add("small", make_root(folder / "source"), 5)
    # As the data folder of a service, which no other user may enter.
    (folder / "private").chmod(0o700)
    return store.for_step("small", added.digest)


@pytest.fixture(params=each(EVERY_LAYER))
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    with opened(request.param) as sandbox:
        yield sandbox


@pytest.fixture
def steps(sandbox: Sandbox, tmp_path: Path) -> Steps:
    return Steps(sandbox, tmp_path)


def rooted(root: StepRoot) -> Limits:
    return replace(LIMITS, root=root)


def test_a_step_uses_programs_and_libraries_of_its_root(steps: Steps, root: StepRoot) -> None:
    steps.sandbox.layer.check_root(root)
    assert steps.run(CALLS, limits=rooted(root), awaits_template=False) == [2.0, True, "C.UTF-8"]


def test_a_step_without_a_root_has_none_of_it(steps: Steps, root: StepRoot) -> None:
    code = f"import shutil\ndef run(context):\n    return shutil.which('{PROGRAM}')"
    assert steps.run(code, limits=rooted(root), awaits_template=False) is not None
    assert steps.run(code, awaits_template=False) is None
    with pytest.raises(OSError, match=LIBRARY):
        ctypes.CDLL(LIBRARY)


def test_a_root_cannot_be_changed_by_a_step(confined: Steps, root: StepRoot) -> None:
    code = f"""
        import os, pathlib, shutil
        def run(context):
            program = pathlib.Path(os.path.realpath(shutil.which("{PROGRAM}")))
            refused = []
            for act in (lambda: program.write_text(""), program.unlink, lambda: program.with_name("new").mkdir()):
                try:
                    act()
                except OSError as error:
                    refused.append(type(error).__name__)
            return len(refused)
    """
    assert confined.run(code, limits=rooted(root), awaits_template=False) == 3
    assert (root.folder / "usr" / "bin" / PROGRAM).stat().st_size > 0


def test_the_machines_files_are_not_seen_beside_a_root(isolated: Steps, root: StepRoot) -> None:
    code = """
        import os
        def run(context):
            with open("/proc/self/status") as file:
                held = {line.split()[1] for line in file if line.startswith("Cap")}
            return [sorted(os.listdir("/usr")), os.path.exists("/etc/passwd"), sorted(held)]
    """
    answer = isolated.run(code, limits=rooted(root), awaits_template=False)
    assert answer == [["bin", "lib", "lib64"], False, ["0" * 16]]


def test_what_a_root_links_to_on_the_machine_is_not_shown(isolated: Steps, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("private")
    source = make_root(tmp_path / "source")
    for part in ("opt", "var/cache/fontconfig"):
        (source / part).parent.mkdir(parents=True, exist_ok=True)
        (source / part).symlink_to(secret)
    store = RootStore(tmp_path / "roots")
    hostile = store.for_step("hostile", store.add("hostile", source, 5).digest)
    code = """
        import os
        def run(context):
            return [os.path.exists(path + "/key") for path in ("/opt", "/var/cache/fontconfig")]
    """
    assert isolated.run(code, limits=rooted(hostile), awaits_template=False) == [False, False]


def test_no_template_is_started_for_a_root(bwrap: Sandbox, root: StepRoot) -> None:
    assert bwrap.layer.launch_template(rooted(root)) is None


def test_sandboxes_of_another_root_are_not_taken(root: StepRoot) -> None:
    others = [replace(root, folder=root.folder / "other"), replace(root, digest="other"), None]
    assert all(replace(LIMITS, root=other).fixed_at_start != rooted(root).fixed_at_start for other in others)


@pytest.mark.parametrize("c_library", ["glibc 999.1", "musl"])
def test_layers_without_mounts_refuse_a_root_for_another_c_library(root: StepRoot, c_library: str) -> None:
    layer = EVERY_LAYER["none"]()
    with pytest.raises(SandboxUnavailableError, match=f"its programs are for {c_library}, and in this sandbox layer"):
        layer.check_root(replace(root, c_library=c_library))


FONTS = """
    import subprocess
    def run(context):
        def told(*command):
            return subprocess.run(command, capture_output=True, text=True, check=True)
        match, listed = told("fc-match", "-f", "%{file}", "sans"), told("fc-list")
        return [match.stdout, match.stdout in listed.stdout, match.stderr + listed.stderr]
"""


def test_fontconfig_finds_the_machines_fonts(steps: Steps) -> None:
    file, is_listed, errors = steps.run(FONTS, awaits_template=False)
    assert Path(file).suffix in {".ttf", ".otf", ".ttc", ".pfb"}
    assert (is_listed, errors) == (True, "")


def test_fontconfig_has_a_cache_that_it_can_write(steps: Steps) -> None:
    code = """
        import os, pathlib
        def run(context):
            cache = pathlib.Path(os.environ["HOME"], ".cache", "fontconfig")
            cache.mkdir(parents=True)
            return os.access(cache, os.W_OK)
    """
    assert steps.run(code, awaits_template=False) is True


@pytest.mark.parametrize("network", ["none", "full"])
def test_no_library_of_a_root_is_loaded_before_the_step_has_its_user(
    isolated: Steps, tmp_path: Path, network: Network
) -> None:
    if (compiler := shutil.which("cc")) is None:
        pytest.skip("there is no C compiler")
    source = make_root(tmp_path / "source")
    libraries = host_libraries().libraries["libc.so.6"].parent
    (tmp_path / "loaded.c").write_text(
        '#include <unistd.h>\n__attribute__((constructor)) static void loaded(void) { write(2, "loaded\\n", 7); }'
    )
    for name in ("systemd", "files", "compat", "sss"):
        library = source / "usr" / str(libraries).removeprefix("/usr").removeprefix("/") / f"libnss_{name}.so.2"
        subprocess.run([compiler, "-shared", "-fPIC", "-o", library, tmp_path / "loaded.c"], check=True)
    store = RootStore(tmp_path / "roots")
    hostile = store.for_step("hostile", store.add("hostile", source, 5).digest)
    limits = replace(rooted(hostile), network=network)
    code = "def run(context):\n    return open('/etc/nsswitch.conf').read()"
    answer, log = isolated.run_logged(code, limits=limits, awaits_template=False)
    assert (answer, log) == ("passwd: files\ngroup: files\nhosts: files dns\n", b"")
