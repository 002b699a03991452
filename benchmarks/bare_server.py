"""A bare aiohttp server, the baseline of the measurements: it answers constant bytes.

`GET /<size>` and `POST /<size>` answer that many bytes with the media type of JSON. Prints its port and serves until it
is terminated.
"""

import asyncio

import uvloop
from aiohttp import web


async def main() -> None:
    bodies: dict[str, bytes] = {}

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        if request.can_read_body:
            await request.read()
        body = bodies.get(request.path)
        if body is None:
            body = bodies[request.path] = b"x" * int(request.path[1:])
        return web.Response(body=body, content_type="application/json")

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main())
