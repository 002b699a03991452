"""Saved views of people: lists of the console with filters, each under a name that is used once a person."""

import json
from collections.abc import Callable, Mapping
from typing import Final

from backend.common.errors import ApiError, invalid
from backend.services.dependencies import Services
from backend.services.users import sql
from backend.services.users.sign_in import SignIns
from backend.storage.database import Tx
from backend.storage.tables.users import UserRow
from workflow_api.v1 import errors_pb2

MOST_VIEWS: Final = 30
"""Most views of a person: every page of the console reads them."""

Views = Mapping[str, str]
"""Addresses of views by their names, in the order in which the person saved them."""


class SavedViews:
    """Adds, renames and removes views of a session's person."""

    def __init__(self, services: Services, sign_ins: SignIns) -> None:
        self._database = services.database
        self._sign_ins = sign_ins

    def add(self, token: str, name: str, address: str) -> UserRow:
        """Adds a view behind the others, and returns the person.

        Raises:
            ApiError: `invalid_request`, the name is blank or used, or there are enough views; `unauthorized`, the
                session has ended.
        """
        name = _plain(name, "view.name")

        def added(views: Views) -> Views:
            _refuse_used(name, views, "view.name")
            if len(views) >= MOST_VIEWS:
                raise invalid("view", f"must be one of at most {MOST_VIEWS} saved views; remove one first")
            return {**views, name: address}

        return self._change(token, added)

    def rename(self, token: str, name: str, new_name: str) -> UserRow:
        """Gives a view another name in its place, and returns the person; raises as `add`, and `not_found`."""
        new_name = _plain(new_name, "new_name")

        def renamed(views: Views) -> Views:
            if name not in views:
                raise ApiError(errors_pb2.ERROR_REASON_NOT_FOUND, f"You have no saved view named {name!r}.")
            if new_name != name:
                _refuse_used(new_name, views, "new_name")
            return {new_name if each == name else each: address for each, address in views.items()}

        return self._change(token, renamed)

    def remove(self, token: str, name: str) -> UserRow:
        """Removes a view if it exists, and returns the person; raises ApiError `unauthorized`."""
        return self._change(token, lambda views: {each: views[each] for each in views if each != name})

    def _change(self, token: str, change: Callable[[Views], Views]) -> UserRow:
        person = self._sign_ins.session(token).name

        def work(tx: Tx) -> UserRow:
            row = sql.get_existing(tx, person)
            stored = json.dumps(list(change(stored_views(row.views)).items()))
            sql.edit(tx, row, {"views": stored})
            return row._replace(views=stored)

        return self._database.write(work, lock_key=sql.LOCK_KEY)


def stored_views(stored: str | None) -> dict[str, str]:
    """Returns the views of a person's row."""
    return {} if stored is None else dict(json.loads(stored))


def _plain(name: str, field: str) -> str:
    """Returns a name without needless blanks."""
    plain = " ".join(name.split())
    if not plain:
        raise invalid(field, "must have at least one character that is no blank")
    return plain


def _refuse_used(name: str, views: Views, field: str) -> None:
    if name in views:
        raise invalid(field, f"must be another name than {name!r}, which one of your views has")
