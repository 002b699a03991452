"""Loads the code of an agent, a text or the files of a folder, and the modules for authors that it imports."""

from __future__ import annotations

import os
import sys
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    import types
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from typing import Any


class NoFunctionError(Exception):
    """The code defines no function of the name that is called."""


class TextCode:
    """Source text that defines `run`; `name` is its file's name in tracebacks."""

    def __init__(self, text: str, name: str) -> None:
        self.name = name
        self._text = text

    def load(self) -> Callable[..., Any]:
        """Executes the text as the module `agent`, and returns its function `run`."""
        module = types.ModuleType("agent")
        module.__file__ = self.name
        sys.modules["agent"] = module
        exec(compile(self._text, self.name, "exec"), module.__dict__)  # noqa: S102 - the purpose of the sandbox
        return _function(module, "run", "the agent's code")

    def owns(self, file: str) -> bool:
        """Returns whether a file of a traceback is this code."""
        return file == self.name

    def prepare_traceback(self) -> None:
        """Makes the lines of the text known to the module `traceback`, for there is no file to read them from."""
        import linecache

        linecache.cache[self.name] = (len(self._text), None, self._text.splitlines(keepends=True), self.name)

    def shown(self, trace: str) -> str:
        """Returns the text of a traceback as authors know their files."""
        return trace


class FolderCode:
    """Files that are written to a folder of the sandbox, and the function of one of their modules."""

    def __init__(self, files: dict[str, bytes], entrypoint: str, folder: str) -> None:
        self._module, _, self._name = entrypoint.partition(":")
        self.name = f"{self._module}.py"
        self._files = files
        self._folder = folder

    def load(self) -> Callable[..., Any]:
        """Writes the files, makes their modules importable, and returns the function of the entry point."""
        for path, content in self._files.items():
            place = f"{self._folder}/{path}"
            os.makedirs(os.path.dirname(place), exist_ok=True)  # noqa: PTH103, PTH120 - pathlib takes long to import
            with open(place, "wb") as file:  # noqa: PTH123 - pathlib takes longer
                file.write(content)
        self._files = {}
        sys.dont_write_bytecode = True
        sys.path.insert(0, self._folder)
        __import__(self._module)
        return _function(sys.modules[self._module], self._name, f"the module {self._module}")

    def owns(self, file: str) -> bool:
        """Returns whether a file of a traceback is in the folder."""
        return file.startswith(f"{self._folder}/")

    def prepare_traceback(self) -> None:
        """Does nothing, for `traceback` reads the lines from the files."""

    def shown(self, trace: str) -> str:
        """Returns the text of a traceback with paths from the folder."""
        return trace.replace(f"{self._folder}/", "")


def code_of(request: dict[str, Any]) -> TextCode | FolderCode:
    """Returns the code in a request."""
    code = request["code"]
    if "text" in code:
        return TextCode(code["text"], code["name"])
    return FolderCode(code["files"], code["entrypoint"], request["folders"]["code"])


def call(function: Callable[..., Any], context: Any) -> Any:
    """Calls an agent's function with its context, and with the input's values for parameters of their names."""
    own = getattr(function, "__wrapped__", function)
    code = getattr(own, "__code__", None)
    given = context.input
    if not given or code is None:
        return function(context)
    count = code.co_argcount + code.co_kwonlyargcount
    names = code.co_varnames[max(1, code.co_posonlyargcount) : count]
    return function(context, **{name: given[name] for name in names if name in given})


def _function(module: types.ModuleType, name: str, where: str) -> Callable[..., Any]:
    found: Callable[..., Any] | None = getattr(module, name, None)
    if found is None or not callable(found):
        raise NoFunctionError(f"{where} defines no function {name}(context)")
    return found


CODE: dict[str, bytes] = {}
"""Marshalled code of the modules for authors, by name; `interpreter.compiled` fills it."""


class LibraryFinder:
    """Import finder for the modules of CODE, wherever an agent imports them from."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns how to load a module of the library; None for any other."""
        del path, target
        if name not in CODE:
            return None
        from importlib.machinery import ModuleSpec

        package = any(other.startswith(f"{name}.") for other in CODE)
        return ModuleSpec(name, self, is_package=package)  # type: ignore[arg-type]  # has what a loader needs

    def create_module(self, spec: ModuleSpec) -> None:
        """Returns None, so that the interpreter creates the module."""
        del spec

    def exec_module(self, module: types.ModuleType) -> None:
        """Executes the module's code."""
        import marshal

        exec(marshal.loads(CODE[module.__name__]), module.__dict__)  # noqa: S102, S302 - code of this project


def provide_library() -> None:
    """Lets agents import the modules for authors; a package of an environment cannot take its place."""
    sys.meta_path.insert(0, LibraryFinder())
