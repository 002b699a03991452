"""The forms that browsers send: their bytes, and whether this console's own page has sent them."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, cast
from urllib.parse import parse_qsl

from aiohttp import web

from edge.console.connections import ConsoleConnection
from edge.console.settings import ConsoleSettings
from edge.console.tokens import is_form_token
from edge.http.bounded_connection import Awaited

TOKEN_FIELD: Final = "csrf"  # noqa: S105 - the name of a field
_MEDIA_TYPE: Final = "application/x-www-form-urlencoded"
_MOST_FIELDS: Final = 2_000
_FOREIGN: Final = (
    "This form was not sent by a page of this console, or its page is out of date. Go back, reload, try again."
)

Form = Mapping[str, Sequence[str]]


def check_sender(request: web.Request, settings: ConsoleSettings) -> None:
    """Refuse what a page of another site has a browser send.

    Raises:
        HTTPForbidden: it comes from elsewhere.
    """
    origin = request.headers.get("Origin")
    if origin is None:
        # Browsers of our time send an origin with every form; what sends none is no page, and needs the token anyway.
        own = request.headers.get("Sec-Fetch-Site", "same-origin") == "same-origin"
    else:
        host = request.headers.get("Host", "")
        own = origin == f"https://{host}" or (origin == f"http://{host}" and not settings.https)
    if not own:
        raise web.HTTPForbidden(text=_FOREIGN)


async def read_form(request: web.Request, secret: str, settings: ConsoleSettings) -> Form:
    """Return the fields of a form that carries the token of the visitor with this secret, without the token.

    Raises:
        HTTPException: it is no form, too large, too slow, or was sent by somebody else's page.
    """
    form = _fields(request, await _body(request, settings))
    given = form.pop(TOKEN_FIELD, [])
    if not secret or len(given) != 1 or not is_form_token(secret, given[0]):
        raise web.HTTPForbidden(text=_FOREIGN)
    return form


async def _body(request: web.Request, settings: ConsoleSettings) -> bytes:
    most = settings.form_bytes
    body = bytearray()
    if (request.content_length or 0) <= most:
        try:
            with cast("ConsoleConnection", request.protocol).waiting(Awaited.BODY):
                async with asyncio.timeout(settings.body_seconds):
                    while len(body) <= most and (chunk := await request.content.readany()):
                        body += chunk
        except web.RequestPayloadError:
            raise _closing(web.HTTPBadRequest(text="The form is not well-formed HTTP.")) from None
        except TimeoutError:
            raise _closing(web.HTTPRequestTimeout(text="The form did not arrive in time.")) from None
        if len(body) <= most:
            return bytes(body)
    # The rest of it is not waited for.
    raise _closing(web.HTTPRequestEntityTooLarge(max_size=most, actual_size=most + 1, text=_too_large(most)))


def _fields(request: web.Request, body: bytes) -> dict[str, list[str]]:
    if body and request.content_type != _MEDIA_TYPE:
        raise web.HTTPUnsupportedMediaType(text=f"Forms are sent as {_MEDIA_TYPE}.")
    form: dict[str, list[str]] = {}
    try:
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS)
    except ValueError:
        raise web.HTTPBadRequest(text="The form cannot be read: it is not UTF-8, or has too many fields.") from None
    for name, value in pairs:
        # Browsers end lines in forms as mail does.
        form.setdefault(name, []).append(value.replace("\r\n", "\n"))
    return form


def _too_large(most: int) -> str:
    return f"The form is too large: at most {most:,} bytes are taken."


def _closing(answer: web.HTTPException) -> web.HTTPException:
    answer.force_close()
    return answer
