"""Interpreter of steps, the files of the host that it needs, and the programs that it is passed in memory."""

import fcntl
import importlib.util
import marshal
import os
import sys
from collections.abc import Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Final

from backend.isolation.confined.confinement import NETWORK_FILES
from backend.isolation.sandbox.inside import agent_code
from backend.isolation.sandbox.layer import SandboxUnavailableError

BASE = Path(sys.base_prefix).resolve()
FLAGS = ("-I", "-S", "-X", "utf8")
"""Isolated, without site packages, and UTF-8 in every locale."""


_FONTS: Final = (
    "/usr/share/fonts",
    "/usr/local/share/fonts",
    "/usr/share/fontconfig",
    "/etc/fonts",
    "/var/cache/fontconfig",
)
"""Fonts, and the settings and caches of fontconfig."""


def executable() -> Path:
    """Returns the interpreter outside of the service's virtual environment, whose packages it cannot import."""
    path = BASE / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    if not path.exists():
        raise SandboxUnavailableError(f"there is no interpreter at {path}")
    return path.resolve()


def readable_folders() -> list[Path]:
    """Returns the folders of the host that a step may read: programs, libraries, fonts and the interpreter."""
    folders = [Path("/usr") / name for name in ("bin", "lib", "lib32", "lib64", "libx32", "share/zoneinfo")]
    folders += map(Path, _FONTS)
    if Path("/usr") != BASE:
        folders += [BASE / name for name in ("lib", "lib64")]
    return [folder for folder in folders if folder.is_dir() and not folder.is_symlink()]


def hidden_folders() -> list[Path]:
    """Returns the folders of installed packages, which belong to the service or the host and not to the step."""
    return [
        packages
        for folder in readable_folders()
        for modules_folder in sorted(folder.glob("python3*"))
        for packages in installed_packages(modules_folder)
    ]


def installed_packages(modules_folder: Path) -> list[Path]:
    """Returns the folders of installed packages in a folder of Python modules."""
    folders = [modules_folder / name for name in ("site-packages", "dist-packages")]
    return [folder for folder in folders if folder.is_dir() and not folder.is_symlink()]


def readable_files() -> list[tuple[Path, str]]:
    """Returns the files for resolving and verifying other machines, each with the path at which a step opens it."""
    return [(Path(os.path.realpath(path)), path) for path in NETWORK_FILES if Path(path).exists()]


def modules() -> list[Path]:
    """Returns the folders of the standard library, below `BASE`."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    found = {BASE / name / version for name in ("lib", sys.platlibdir)}
    return sorted(folder for folder in found if folder.is_dir())


_WITH_PARTS: Final = """
import marshal, sys
for name, code in marshal.loads({parts!r}):
    part = sys.modules[name] = type(sys)(name)
    exec(code, part.__dict__)
{fill}
exec(marshal.loads({program!r}))
"""


def memory_file(name: str, content: bytes) -> int:
    """Creates a sealed file in memory, which no process that opens it can change."""
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with os.fdopen(os.dup(fd), "wb") as file:
        file.write(content)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL)
    return fd


def compiled(program: ModuleType, *parts: ModuleType, library: Sequence[ModuleType] = ()) -> int:
    """Compiles a program to a sealed file in memory, to be started as `/proc/self/fd/N`.

    `parts` are the modules of this project that it imports, each after those that it imports itself; `library` are
    those that its part `backend.isolation.sandbox.inside.agent_code` loads when an agent imports them.
    """
    compiled_parts = marshal.dumps([(part.__name__, _code(part)) for part in parts])
    code_of_library = {module.__name__: marshal.dumps(_code(module)) for module in library}
    fill = f"sys.modules[{agent_code.__name__!r}].CODE.update({code_of_library!r})" if library else ""
    source = _WITH_PARTS.format(parts=compiled_parts, fill=fill, program=marshal.dumps(_code(program)))
    code = compile(source, program.__name__, "exec", dont_inherit=True, optimize=0)
    return memory_file(program.__name__, importlib.util.MAGIC_NUMBER + bytes(12) + marshal.dumps(code))


def _code(module: ModuleType) -> CodeType:
    """Returns a module's code without its folder, from the cache of bytecode: compiling takes ten times as long."""
    source, loader = Path(str(module.__file__)), module.__loader__
    cached = loader.get_code(module.__name__) if isinstance(loader, SourceFileLoader) and __debug__ else None
    if cached is not None:
        return _renamed(cached, source.name)
    return compile(source.read_bytes(), source.name, "exec", dont_inherit=True, optimize=0)


def _renamed(code: CodeType, file: str) -> CodeType:
    constants = (_renamed(each, file) if isinstance(each, CodeType) else each for each in code.co_consts)
    return code.replace(co_filename=file, co_consts=tuple(constants))
