"""A browser without a screen or a script: cookies, forms and redirects over plain HTTP."""

import http.client
import re
from collections.abc import Mapping
from dataclasses import dataclass
from html import unescape
from http.cookies import Morsel, SimpleCookie
from typing import Any
from urllib.parse import urlencode

from tests.support.wire import Address

_TOKEN = re.compile(r'name="csrf" value="([0-9a-f]{64})"')


@dataclass(frozen=True)
class Seen:
    """One HTTP answer to the browser."""

    status: int
    headers: http.client.HTTPMessage
    text: str

    @property
    def location(self) -> str:
        return self.headers["Location"] or ""

    @property
    def token(self) -> str:
        """Returns the CSRF token of the page's forms."""
        found = _TOKEN.search(self.text)
        assert found, self.text
        return found[1]

    @property
    def cookies(self) -> Mapping[str, "Morsel[str]"]:
        """Returns the cookies that the answer sets."""
        cookies: SimpleCookie = SimpleCookie()
        for line in self.headers.get_all("Set-Cookie", []):
            cookies.load(line)
        return cookies

    @property
    def words(self) -> str:
        """Returns the visible text of the page."""
        return unescape(" ".join(re.sub(r"<[^>]+>", " ", self.text.partition("</head>")[2]).split()))


class Browser:
    """Keeps cookies as a browser does, and follows no redirect by itself."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.cookies: dict[str, str] = {}
        self.source = "127.0.0.1"

    def get(self, path: str, **headers: str) -> Seen:
        return self.send("GET", path, headers=headers)

    def post(self, path: str, token: str | None = None, headers: Mapping[str, str] | None = None, **form: Any) -> Seen:
        """Sends a form, with its token if there is one, as a page of the console would."""
        fields = form if token is None else {"csrf": token, **form}
        own = {"Origin": f"http://{self.address[0]}:{self.address[1]}"}
        content = {"Content-Type": "application/x-www-form-urlencoded"}
        return self.send("POST", path, urlencode(fields, doseq=True).encode(), {**content, **own, **(headers or {})})

    def send(self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Seen:
        told = {name.replace("_", "-"): value for name, value in (headers or {}).items()}
        if self.cookies:
            told["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        connection = http.client.HTTPConnection(*self.address, timeout=60, source_address=(self.source, 0))
        try:
            connection.request(method, path, body or None, told)
            answer = connection.getresponse()
            seen = Seen(answer.status, answer.headers, answer.read().decode())
        finally:
            connection.close()
        for name, cookie in seen.cookies.items():
            if cookie["max-age"] == "0":
                self.cookies.pop(name, None)
            else:
                self.cookies[name] = cookie.value
        return seen

    def sign_in(self, name: str, password: str, **form: Any) -> Seen:
        return self.post("/sign-in", self.get("/sign-in").token, name=name, password=password, **form)
