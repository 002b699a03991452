"""Reads URL-encoded forms within bounds, checks their sender, and reports problems by field."""

import asyncio
import re
from collections.abc import Collection, Mapping, Sequence
from hashlib import sha256
from typing import Final, NamedTuple, cast
from urllib.parse import parse_qsl

from aiohttp import web

from console.http.connections import ConsoleConnection
from console.http.protection import is_form_token
from console.settings import ConsoleSettings
from contract.connections import WaitKind
from contract.refusals import Refusal

TOKEN_FIELD: Final = "csrf"  # noqa: S105 - the name of a field
_MEDIA_TYPE: Final = "application/x-www-form-urlencoded"
MAX_FIELDS: Final = 2_000
SMALL_BYTES: Final = 8_192
"""Bytes of the largest form of a visitor who has not signed in."""
_SHOWN_NAME_CHARS: Final = 100
_FOREIGN: Final = (
    "This form was not sent by a page of this console, or its page is out of date. Go back, reload, try again."
)

Form = Mapping[str, Sequence[str]]
"""Texts by the names of their fields, as `text_of_field` returns them."""

TOKEN: Final = web.RequestKey("token", str)
"""The form's token, kept with its request."""

Problems = Mapping[str, str]
"""Problem of each field, in words that complete "the field …"."""

_WHOLE_NUMBER: Final = re.compile(r"-?[0-9]{1,9}")


def check_sender(request: web.Request, settings: ConsoleSettings) -> None:
    """Refuses a request that another site's page made the browser send.

    Raises:
        HTTPForbidden: the request has another origin than this console.
    """
    origin = request.headers.get("Origin")
    if origin is None:
        # Current browsers send an origin with every form; clients without an origin need the token anyway.
        own = request.headers.get("Sec-Fetch-Site", "same-origin") == "same-origin"
    else:
        host = request.headers.get("Host", "")
        own = origin == f"https://{host}" or (origin == f"http://{host}" and not settings.https)
    if not own:
        raise web.HTTPForbidden(text=_FOREIGN)


async def read_form(
    request: web.Request,
    secret: str,
    settings: ConsoleSettings,
    repeated_fields: Collection[str] = (),
    *,
    most_bytes: int | None = None,
) -> Form:
    """Returns the fields of a form without its token, which must belong to the visitor with this secret.

    Only the fields in `repeated_fields` may come more than once. The body of a visitor without a secret is not read.

    Args:
        request: The request whose body is the form.
        secret: The visitor's secret; empty before their first page.
        settings: The console's settings, which bound the form without `most_bytes`.
        repeated_fields: Names of fields.
        most_bytes: The largest form, in bytes.

    Raises:
        HTTPException: it is no form, too large, too slow, has a field twice, or its token is missing or another
            visitor's.
    """
    if not secret:
        raise closing(web.HTTPForbidden(text=_FOREIGN))
    body = await _body(request, settings.form_bytes if most_bytes is None else most_bytes, settings.body_seconds)
    # Large forms are parsed in a thread, because they would hold the event loop up.
    form = _fields(request, body) if len(body) <= SMALL_BYTES else await asyncio.to_thread(_fields, request, body)
    request[TOKEN] = check_token(secret, form.pop(TOKEN_FIELD, []))
    for name, values in form.items():
        check_once(name, values, repeated_fields)
    return form


def check_token(secret: str, given: Sequence[str]) -> str:
    """Returns the token of a form, which must belong to the visitor with this secret.

    Raises:
        HTTPForbidden: the token is missing, repeated, or another visitor's.
    """
    if not secret or len(given) != 1 or not is_form_token(secret, given[0]):
        raise web.HTTPForbidden(text=_FOREIGN)
    return given[0]


def check_once(name: str, values: Sequence[str], repeated_fields: Collection[str]) -> None:
    """Refuses a repeated field that is not one of `repeated_fields`, because its value is ambiguous.

    Raises:
        HTTPBadRequest: the field is repeated.
    """
    if len(values) > 1 and name not in repeated_fields:
        shown = name[:_SHOWN_NAME_CHARS]
        text = f"The field {shown} is in this form more than once. Nothing was done: send it with one value."
        raise web.HTTPBadRequest(text=text)


def text_of_field(sent: str) -> str:
    """Returns a field's text with LF line ends, as typed; browsers send CR LF."""
    return sent.replace("\r\n", "\n")


def closing(error: web.HTTPException) -> web.HTTPException:
    """Returns the error with the connection closed after it, because the rest of the body is not read."""
    error.force_close()
    return error


def problems_of(refusal: Refusal) -> Problems:
    """Returns the problems of an `invalid_request` by field; `allowed_hours.end_hour` counts as `allowed_hours`.

    Raises:
        Refusal: the refusal itself if it is not about the form's fields.
    """
    if refusal.code != "invalid_request":
        raise refusal
    found: dict[str, list[str]] = {}
    for problem in refusal.details if isinstance(refusal.details, list) else ():
        found.setdefault(problem["name"].partition(".")[0], []).append(problem["reason"])
    if not found:
        return {"form": refusal.message}
    return {name: "; ".join(dict.fromkeys(reasons)) for name, reasons in found.items()}


def invalid(problems: Mapping[str, str]) -> Refusal:
    """Returns an `invalid_request` refusal with these problems, like a service's."""
    return Refusal("invalid_request", details=[{"name": name, "reason": reason} for name, reason in problems.items()])


def whole_number(text: str) -> int | None:
    """Returns a typed whole number, or None; the backend checks the range."""
    return int(text) if _WHOLE_NUMBER.fullmatch(text) else None


def form_hash(form: NamedTuple) -> str:
    """Returns a hash of a form's values, which is submitted with the form to detect concurrent changes."""
    return sha256(repr(tuple(form)).encode()).hexdigest()[:16]


def check_unchanged(form: NamedTuple, shown: str) -> None:
    """Refuses a form whose current values differ from `shown`, the hash of the values that it showed.

    Raises:
        Refusal: `invalid_request`: the form would undo another user's change.
    """
    if form_hash(form) != shown:
        raise invalid({"form": "Somebody else changed this meanwhile. It is shown as it is now: change it again."})


async def _body(request: web.Request, limit: int, seconds: float) -> bytes:
    body = bytearray()
    if (request.content_length or 0) <= limit:
        try:
            with cast("ConsoleConnection", request.protocol).waiting(WaitKind.BODY):
                async with asyncio.timeout(seconds):
                    while len(body) <= limit and (chunk := await request.content.readany()):
                        body += chunk
        except web.RequestPayloadError:
            raise closing(web.HTTPBadRequest(text="The form is not well-formed HTTP.")) from None
        except TimeoutError:
            raise closing(web.HTTPRequestTimeout(text="The form did not arrive in time.")) from None
        if len(body) <= limit:
            return bytes(body)
    # The rest of the body is not read.
    raise closing(web.HTTPRequestEntityTooLarge(max_size=limit, actual_size=limit + 1, text=_too_large(limit)))


def _fields(request: web.Request, body: bytes) -> dict[str, list[str]]:
    if body and request.content_type != _MEDIA_TYPE:
        raise web.HTTPUnsupportedMediaType(text=f"Forms are sent as {_MEDIA_TYPE}.")
    form: dict[str, list[str]] = {}
    try:
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS)
    except ValueError:
        raise web.HTTPBadRequest(text="The form cannot be read: it is not UTF-8, or has too many fields.") from None
    for name, value in pairs:
        form.setdefault(name, []).append(text_of_field(value))
    return form


def _too_large(limit: int) -> str:
    return f"The form is too large: at most {limit:,} bytes are taken."
