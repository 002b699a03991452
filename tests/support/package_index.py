"""A package index over HTTP, with or without a password."""

import base64
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


@contextmanager
def package_index(wheels: Path, credentials: str | None = None) -> Iterator[str]:
    """Serves the wheels of a folder as the simple API has them; yields `HOST:PORT` of the index `/simple`."""
    wanted = None if credentials is None else f"Basic {base64.b64encode(credentials.encode()).decode()}"

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = self._answer()
            self.send_response(status)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _answer(self) -> tuple[int, bytes]:
            if wanted is not None and self.headers["Authorization"] != wanted:
                return 401, b""
            *_, kind, name = self.path.rstrip("/").split("/")
            if kind == "files" and (wheels / name).is_file():
                return 200, (wheels / name).read_bytes()
            found = [path.name for path in wheels.iterdir() if path.name.partition("-")[0] == name.replace("-", "_")]
            links = "".join(f'<a href="/files/{each}">{each}</a>' for each in found)
            return (200, f"<html><body>{links}</body></html>".encode()) if found else (404, b"")

        def log_message(self, *args: object) -> None:
            """Writes nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
