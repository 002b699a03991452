"""Help pages, which show the project's documents."""

import asyncio
import posixpath
import re
from typing import Final

from console.rendering.documents import INDEX, document
from console.visit import PageResult, View, Visit

_NAME: Final = re.compile(r"[a-z][a-z-]{0,40}")


async def show(visit: Visit) -> PageResult:
    """Shows a document, by default the first."""
    folder, name = visit.path.get("folder", ""), visit.path.get("document", INDEX)
    found = None
    if all(_NAME.fullmatch(part) for part in (name, folder or name)):
        found = await asyncio.to_thread(document, posixpath.join(folder, name))
    return View("help.html", {"document": found}, status=404 if found is None else 200)
