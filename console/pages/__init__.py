"""The pages of the console: every module of this package that has a list `PAGES` is served."""

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules

from console.visit import Page


def all_pages() -> Iterator[Page]:
    """Yields the pages of every module, in the order of the modules' names."""
    for module in iter_modules(__path__, f"{__name__}."):
        yield from getattr(import_module(module.name), "PAGES", ())
