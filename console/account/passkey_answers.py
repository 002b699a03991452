"""What a page says about itself to passkeys: its host and its origin, and the answer of a form."""

from aiohttp import web

from console.forms.urlencoded import Form
from console.settings import ConsoleSettings
from contract.addresses import plain_address
from workflow_api.v1.passkeys_pb2 import PasskeyAnswer


def passkey_host(request: web.Request) -> str:
    """Returns the host of a page, whose header was checked; empty for an address, at which no passkey works."""
    given = request.host.lower()
    host = given.rpartition("]")[0].removeprefix("[") if given.startswith("[") else given.partition(":")[0].rstrip(".")
    return "" if plain_address(host) else host


def passkey_answer(request: web.Request, form: Form, settings: ConsoleSettings) -> PasskeyAnswer | None:
    """Returns the answer of a passkey that a form brings, for the page that it must be of; None without one."""
    response = form.get("response", ("",))[0]
    if not response:
        return None
    origin = f"{'https' if settings.https else 'http'}://{request.host.lower()}"
    return PasskeyAnswer(response_json=response, origin=origin, host=passkey_host(request))
