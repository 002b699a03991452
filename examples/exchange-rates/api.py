"""A small API of exchange rates to try the example with; it answers callers with the key in RATES_API_KEY."""

import hmac
import json
import os
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

ADDRESS = "127.0.0.1:8099"
DATE = "2026-03-31"
RATES = {"EUR": 1, "USD": 1.0842, "GBP": 0.8571, "CHF": 0.9405, "PLN": 4.2315}


class Api(BaseHTTPRequestHandler):
    """Answers `GET /v1/rates?base=EUR&symbols=USD,GBP` with a bearer token."""

    def do_GET(self) -> None:
        """Answers a request."""
        wanted = f"Bearer {os.environ['RATES_API_KEY']}".encode()
        given = self.headers.get("Authorization", "").encode(errors="replace")
        url = urlsplit(self.path)
        query = parse_qs(url.query)
        base, symbols = query.get("base", [""])[0], query.get("symbols", [""])[0].split(",")
        if not hmac.compare_digest(given, wanted):
            self.answer(HTTPStatus.UNAUTHORIZED, {"error": "wrong key"})
        elif url.path != "/v1/rates" or base not in RATES:
            self.answer(HTTPStatus.NOT_FOUND, {"error": f"no rates for the base {base!r}"})
        else:
            rates = {symbol: round(RATES[symbol] / RATES[base], 4) for symbol in symbols if symbol in RATES}
            self.answer(HTTPStatus.OK, {"base": base, "date": DATE, "rates": rates})

    def answer(self, status: HTTPStatus, content: object) -> None:
        """Sends an answer."""
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    host, _, port = ADDRESS.partition(":")
    ThreadingHTTPServer((host, int(port)), Api).serve_forever()
