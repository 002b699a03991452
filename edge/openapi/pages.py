"""Pages outside of the API's base path: the OpenAPI description and the API reference."""

from functools import cached_property
from typing import Final

from contract.refusals import Refusal
from edge.http.request import HttpRequest
from edge.http.response import Answer, refused

_METHODS: Final = frozenset({"GET", "HEAD"})


class Pages:
    """The public pages; each is made at its first request."""

    def __init__(self, app_domain: str) -> None:
        self._app_domain = app_domain

    def answer(self, request: HttpRequest) -> Answer:
        """Returns the page at a path, or the refusal."""
        request.give_up_body()
        if request.path not in {"/openapi.json", "/docs"}:
            return _refused(Refusal("not_found"), request, "")
        if request.method not in _METHODS:
            return _refused(Refusal("method_not_allowed", headers={"Allow": "GET, HEAD"}), request, request.path)
        request.outcome = (request.path, "", "", "", 0.0, "")
        if request.path == "/openapi.json":
            return Answer(200, self._description)
        return Answer(200, self._reference, media_type="text/html; charset=utf-8")

    @cached_property
    def _description(self) -> bytes:
        from edge.openapi.document import openapi_document

        return openapi_document(self._app_domain)

    @cached_property
    def _reference(self) -> bytes:
        from edge.openapi.docs_page import docs_page

        return docs_page(self._app_domain)


def _refused(refusal: Refusal, request: HttpRequest, route: str) -> Answer:
    request.outcome = (route, "", refusal.code, "", 0.0, "")
    return refused(refusal, request)
