"""The pages below the page of a definition, the same for every kind."""

from collections.abc import Awaitable, Callable
from functools import partial

from console.definitions import deletion, editor, versions
from console.definitions.kinds import DefinitionKind
from console.visit import ADMINISTRATORS, ONLOOKERS, Page, PageResult, Visit
from workflow_api.v1.users_pb2 import Role


def pages_of(kind: DefinitionKind, readers: frozenset[Role.ValueType] = ONLOOKERS) -> tuple[Page, ...]:
    """Returns the pages of versions and their differences, which `readers` see, of editor, deletion and a new one."""

    def handled(
        handler: Callable[[DefinitionKind, Visit], Awaitable[PageResult]],
    ) -> Callable[[Visit], Awaitable[PageResult]]:
        return partial(handler, kind)

    one = f"{kind.path}/{{{versions.ID}}}"
    return (
        Page("GET", f"{kind.path}/new", ADMINISTRATORS, handled(editor.begin)),
        Page("POST", f"{kind.path}/new", ADMINISTRATORS, handled(editor.create)),
        Page("GET", f"{one}/edit", ADMINISTRATORS, handled(editor.edit)),
        Page("POST", f"{one}/edit", ADMINISTRATORS, handled(editor.save)),
        Page("GET", f"{one}/delete", ADMINISTRATORS, handled(deletion.ask)),
        Page("POST", f"{one}/delete", ADMINISTRATORS, handled(deletion.delete)),
        Page("GET", f"{one}/versions", readers, handled(versions.show_versions)),
        Page("GET", f"{one}/compare", readers, handled(versions.compare)),
    )
