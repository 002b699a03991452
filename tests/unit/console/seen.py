"""Services that answer from memory, and pages rendered from their answers."""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from datetime import UTC
from typing import Any, Final

from google.protobuf.message import Message

from console.http.static_files import StaticFiles
from console.rendering.templates import Rendering
from console.routes import PAGES
from console.visit import PageResult, View, Visit
from contract.refusals import Refusal
from edge.admission.trial import try_call
from workflow_api.v1.definitions_pb2 import (
    DefinitionUse,
    DefinitionVersion,
    ListDefinitionUsesResponse,
    ListDefinitionVersionsResponse,
    Manifest,
)
from workflow_api.v1.users_pb2 import ROLE_ADMINISTRATOR, ROLE_APPROVER, Role, User

ADMINISTRATOR = User(name="ada", role=ROLE_ADMINISTRATOR)
APPROVER = User(name="bob", role=ROLE_APPROVER)

MOST_BYTES: Final = 2_000_000
"""Of a page, whatever a run or an approval has, as docs/console.md says."""

MOST_BYTES_OF_ONE: Final = 100_000
"""Of a page that shows one text, whatever that has."""

_RENDERING = Rendering(StaticFiles())
_LABEL = re.compile(r' data-label="[^"]*"|<wbr>')

Answer = Message | Refusal | Callable[[Any], Message]


class MemoryServices:
    """Answers RPCs by name, and records the requests."""

    def __init__(self, answers: Mapping[str, Answer]) -> None:
        self.answers = dict(answers)
        self.streams: dict[str, list[Message]] = {}
        self.calls: list[tuple[str, Any]] = []

    async def call(self, rpc: str, request: Message) -> Any:
        copy = type(request)()
        copy.CopyFrom(request)
        self.calls.append((rpc, copy))
        answer = self.answers[rpc]
        if isinstance(answer, Refusal):
            raise answer
        return answer if isinstance(answer, Message) else answer(copy)

    async def stream(self, rpc: str, request: Message, seconds: float) -> AsyncGenerator[Message, None]:
        """The messages of a list of them; without one, the refusal of a backend of an older release."""
        self.calls.append((rpc, request))
        if rpc not in self.streams:
            raise Refusal("runtime_error")
        for message in self.streams[rpc]:
            yield message

    def asked(self, rpc: str) -> list[Any]:
        return [request for name, request in self.calls if name == rpc]


def definition_answers(uses: Sequence[DefinitionUse] = (), **manifest: Any) -> dict[str, Answer]:
    """Answers of DefinitionsService about one definition with a single version."""
    described = {"version": 1, "newest_version": 1, "text": "kind: Of a test\n", **manifest}
    return {
        "DefinitionsService/GetManifest": Manifest(**described),
        "DefinitionsService/ListDefinitionVersions": ListDefinitionVersionsResponse(
            items=[DefinitionVersion(version=1, created_by="user:ada")]
        ),
        "DefinitionsService/ListDefinitionUses": ListDefinitionUsesResponse(items=uses),
    }


def answered(
    services: MemoryServices,
    method: str,
    path: str,
    names: Mapping[str, str] | None = None,
    *,
    user: User = ADMINISTRATOR,
    query: Mapping[str, str] | None = None,
    queries: Mapping[str, Sequence[str]] | None = None,
    form: Mapping[str, str | Sequence[str]] | None = None,
    refresh: bool = False,
) -> PageResult:
    """Returns the result of the page at `path`, as `/runs/{run_id}`; `names` fills its braces."""
    (page,) = (page for page in PAGES if (page.method, page.path) == (method, path))
    sent = {name: [value] if isinstance(value, str) else value for name, value in (form or {}).items()}
    visit = Visit(
        user=user,
        services=services,
        path=names or {},
        query=query or {},
        form=sent,
        refresh=refresh,
        queries=queries or {},
        try_call=try_call,
    )

    async def answer() -> PageResult:
        return await page.handler(visit)

    return asyncio.run(answer())


UNSEEN: Final = "\x1b[31m\x07\x7f\x9b\u200b\u200e\u202e\u2066\ufeff"
"""Characters that nobody sees, to be planted in texts: every page has marks for them."""
_SEEN_AS_SENT: Final = re.compile(r'value="[^"]*"|<textarea.*?</textarea>', re.DOTALL)


def html(answer: PageResult, user: User = ADMINISTRATOR) -> str:
    """Returns a page without what cells of tables have for narrow screens: labels, and places where words may break.

    Outside of forms' fields nothing in it is unseen, whatever was planted.
    """
    page = sent_html(answer, user)
    unseen = set(UNSEEN) - set("[31m")
    assert unseen.isdisjoint(_SEEN_AS_SENT.sub("", page))
    return _LABEL.sub("", page)


def sent_html(answer: PageResult, user: User = ADMINISTRATOR) -> str:
    """Returns a page as it is sent."""
    assert isinstance(answer, View), answer
    told = {
        "user": user,
        "csrf": "token",
        "path": "/",
        "navigation": [],
        "help": "/help",
        "approvals_waiting": None,
        "zone": UTC,
        "notice": None,
    }
    return _RENDERING.page(answer.template, {**answer.context, **told})


def roles_of(method: str, path: str) -> frozenset[Role.ValueType]:
    (page,) = (page for page in PAGES if (page.method, page.path) == (method, path))
    return page.roles
