"""Asks an HTTP API for exchange rates, with a key that the deployment keeps."""

import csv
import io
import json
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import HTTPRedirectHandler, Request, build_opener

from workflow_api_agent import Context

# No parameter, because callers who start runs could then have the key sent elsewhere.
API = "http://127.0.0.1:8099/v1/rates"
SECONDS = 20


def run(context: Context) -> dict[str, Any]:
    rows = csv.DictReader(io.StringIO(context.input_text or ""))
    currencies = sorted({row["currency"] for row in rows if row.get("currency")})
    if not currencies:
        raise ValueError("the input text has no currency: its first line must be description,amount,currency")
    query = {"base": context.parameters["base"], "symbols": ",".join(currencies)}
    answer = ask(query, context.secret("rates-api"))
    (context.outputs / "rates.json").write_text(json.dumps(answer, indent=2))
    context.progress("rates received", date=answer["date"], rates=len(answer["rates"]))
    return answer


def ask(query: dict[str, str], key: str) -> dict[str, Any]:
    request = Request(f"{API}?{urlencode(query)}", headers={"Authorization": f"Bearer {key}"})
    try:
        with build_opener(NoRedirects).open(request, timeout=SECONDS) as answered:
            answer: dict[str, Any] = json.load(answered)
            return answer
    except HTTPError as error:
        if error.code in {401, 403}:
            raise PermissionError(f"the API refused the key in the secret 'rates-api' (HTTP {error.code})") from None
        reason = error.read(500).decode(errors="replace")
        raise ConnectionError(f"the API answered HTTP {error.code}: {reason}") from None
    except URLError as error:
        raise ConnectionError(f"the API cannot be reached: {error.reason}") from None


class NoRedirects(HTTPRedirectHandler):
    """Turns redirects, which would send the key to another address, into errors."""

    def redirect_request(self, *_: Any) -> None:
        """Follows no redirect."""
