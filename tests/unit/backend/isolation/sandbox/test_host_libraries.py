"""Libraries of the machine's interpreter."""

import importlib
from pathlib import Path

import pytest

from backend.isolation.sandbox.host_libraries import host_libraries, parsed_version


def test_every_library_that_the_interpreter_has_loaded_is_among_them() -> None:
    for module in ("_ctypes", "_ssl", "_sqlite3", "zlib"):
        importlib.import_module(module)
    loaded = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if ".so" in line}
    system = {Path(path).resolve() for path in loaded if path.startswith(("/lib", "/usr/lib"))}
    own = {path.resolve() for path in host_libraries().libraries.values()}
    found = {path.name.partition(".so")[0] for path in own}
    expected = {
        name for path in system if (name := path.name.partition(".so")[0]) in {"libc", "libm", "libssl", "libffi"}
    }
    assert expected
    assert expected <= found


@pytest.mark.parametrize(("text", "version"), [("2.36", (2, 36)), ("2.36.9000", (2, 36)), ("", None), ("x", None)])
def test_versions_are_compared_by_number(text: str, version: tuple[int, int] | None) -> None:
    assert parsed_version(text) == version
