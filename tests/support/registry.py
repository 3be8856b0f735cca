"""A container registry on this machine, with the answers of public ones."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

DIGEST = f"sha256:{'0123456789abcdef' * 4}"
# Port 9 (discard): nothing listens there.
NO_REGISTRY = "127.0.0.1:9"


class Registry(BaseHTTPRequestHandler):
    """Gives a token to everybody, and with it the digest of the one image `NAME:TAG` that it has.

    images: the images. status: of an answer about a manifest, if not 200 or 404. token: the answer
    to a request for a token. challenge: the header with the address of the tokens.
    """

    images: tuple[str, ...] = ()
    status = 200
    token = b'{"token": "anonymous"}'
    challenge = 'Bearer realm="http://{host}/token/",service="public.example.com",scope="aws"'

    def do_GET(self) -> None:
        is_token = self.path.startswith("/token/?service=public.example.com&scope=repository%3A")
        self.answer(200 if is_token else 400, self.token)

    def do_HEAD(self) -> None:
        repository, _, reference = self.path.removeprefix("/v2/").partition("/manifests/")
        if self.headers["Authorization"] != "Bearer anonymous":
            self.answer(401)
        elif self.status != 200:
            self.answer(self.status)
        else:
            exists = f"{repository}:{reference}" in self.images or reference == DIGEST
            self.answer(200 if exists else 404)

    def answer(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        host = self.headers["Host"]
        if status == 401:
            self.send_header("WWW-Authenticate", self.challenge.format(host=host))
        self.send_header("Docker-Content-Digest", DIGEST)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def registry(*images: str, **answers: object) -> Iterator[str]:
    """Start a registry with these images, and yield its address, HOST:PORT.

    answers: attributes of `Registry` that it has instead.
    """
    handler = type("Handler", (Registry,), {"images": images, **answers})
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
