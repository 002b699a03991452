"""Modules for authors of agents, which are loaded only when an agent imports them."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import types
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec

CODE: dict[str, bytes] = {}
"""Marshalled code by the name of its module, filled by the program that this is a part of."""


class LibraryFinder:
    """Finds these modules wherever an agent imports them from."""

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
        """Leaves the making of the module to the interpreter."""
        del spec

    def exec_module(self, module: types.ModuleType) -> None:
        """Executes the module's code."""
        import marshal

        exec(marshal.loads(CODE[module.__name__]), module.__dict__)  # noqa: S102, S302 - code of this project


def provide() -> None:
    """Lets agents import the library; a package of an environment cannot take its place."""
    sys.meta_path.insert(0, LibraryFinder())
