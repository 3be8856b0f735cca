"""A small stand-in for the Hugging Face Hub, which answers `huggingface_hub` over real HTTP.

It has two servers on loopback, because Hugging Face has two hosts: the hub, which knows accounts,
and its storage, which accepts signed URLs and must never receive a token.

    GET  hub /api/models/ID/revision/REV?blobs=true   commit, files, sizes, git and LFS hashes
    HEAD hub /ID/resolve/REV/PATH     a large file: status 302 and the file's URL in the storage,
    GET                               with the headers X-Linked-Size and X-Linked-Etag;
                                      a small file: status 307 and another URL of the hub
    GET  storage /storage/ID/COMMIT/PATH?...          the bytes of a large file, with Range

An error has the headers that the client reads (X-Error-Code, X-Error-Message). A test sets the
failures that it wants in `Trouble`.
"""

import gzip
import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NoReturn
from urllib.parse import parse_qs, unquote, urlsplit

SIGNATURE = "Signature=loopback-signature"
LISTING = "the listing of any model"
_CHUNK_BYTES = 64 * 1024


@dataclass
class Repo:
    """A model: its commits (each maps path to bytes), and the commit of each branch and tag."""

    commits: dict[str, dict[str, bytes]]
    refs: dict[str, str]
    gated: bool = False
    private: bool = False
    lfs_from_bytes: int = 1024
    """Files of at least this size are in git's large file storage (LFS)."""


@dataclass
class Trouble:
    """The failures that a test wants from the servers.

    Those in a list, in `corrupt` or in `cut_after_bytes` stop when they are used up.
    """

    statuses: list[int] = field(default_factory=list)
    """The hub answers its next requests with these HTTP statuses, one per request."""
    info: bytes | None = None
    """If set, the hub's answer to a question about any model, instead of the true JSON."""
    storage_statuses: list[int] = field(default_factory=list)
    """The storage answers its next requests with these HTTP statuses, one per request."""
    corrupt: dict[str, int] = field(default_factory=dict)
    """By path: how many of the next downloads have wrong bytes, though the right number of them."""
    cut_after_bytes: dict[str, int] = field(default_factory=dict)
    """By path: after how many bytes the connection of the next download ends."""
    held: dict[str, threading.Event] = field(default_factory=dict)
    """By path: the second half of a download is sent only after this event was set."""
    endless: dict[str, bytes] = field(default_factory=dict)
    """By path, or by LISTING: the bytes that the answer repeats for ever, without a length."""
    compressed: set[str] = field(default_factory=set)
    """The paths whose downloads are compressed with gzip, even if the client does not accept it."""


@dataclass(frozen=True)
class HubRequest:
    """A request that reached one of the two servers, `hub` or `storage`."""

    server: str
    method: str
    path: str
    range_: str | None
    authorization: str | None


@dataclass
class LocalHub:
    """The running stand-in; a test may change its models, tokens and failures at any time.

    repos: the models by their ids. requests: all requests so far, in order.
    tokens: for each access token, the ids of gated and private models that it may read.
    """

    url: str
    storage_url: str
    repos: dict[str, Repo] = field(default_factory=dict)
    tokens: dict[str, set[str]] = field(default_factory=dict)
    trouble: Trouble = field(default_factory=Trouble)
    requests: list[HubRequest] = field(default_factory=list)

    def downloads(self, path: str) -> int:
        return sum(1 for a in self.requests if a.method == "GET" and _is_content(a.path, path))


def _is_content(requested_path: str, path: str) -> bool:
    return requested_path.startswith(
        ("/storage/", "/api/resolve-cache/")
    ) and requested_path.endswith(f"/{path}")


def git_blob_sha1(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def lfs_pointer(data: bytes) -> bytes:
    """Return the small text that git stores instead of a file in large file storage (LFS)."""
    sha256 = hashlib.sha256(data).hexdigest()
    return (
        f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {len(data)}\n"
    ).encode()


@contextmanager
def local_hub(repos: Mapping[str, Repo], *, address: str = "127.0.0.1") -> Iterator[LocalHub]:
    """Run a stand-in for the Hugging Face Hub with these models, until the `with` block ends.

    repos: the models by their ids. address: an IP address of this machine.
    """
    servers = [_Server((address, 0), handler) for handler in (_HubHandler, _StorageHandler)]
    urls = [f"http://{address}:{server.server_address[1]}" for server in servers]
    hub = LocalHub(url=urls[0], storage_url=urls[1], repos=dict(repos))
    threads = []
    for server in servers:
        server.hub = hub
        threads.append(threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True))
        threads[-1].start()
    try:
        yield hub
    finally:
        for event in hub.trouble.held.values():
            event.set()
        for server, thread in zip(servers, threads, strict=True):
            server.shutdown()
            thread.join()
            server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    hub: LocalHub


class _Refusal(Exception):  # noqa: N818 (an answer, not an error of the server)
    def __init__(self, status: int, code: str | None, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server
    name = ""

    def log_message(self, *arguments: Any) -> None:
        """Log nothing."""

    @property
    def hub(self) -> LocalHub:
        return self.server.hub

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.hub.requests.append(
            HubRequest(
                self.name,
                self.command,
                path,
                self.headers.get("Range"),
                self.headers.get("Authorization"),
            )
        )
        try:
            self.respond(path)
        except _Refusal as refusal:
            self._refuse(refusal)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def respond(self, path: str) -> None:
        raise NotImplementedError

    def _refuse(self, refusal: _Refusal) -> None:
        headers = {"X-Error-Message": refusal.message}
        if refusal.code:
            headers["X-Error-Code"] = refusal.code
        self.send(refusal.status, headers, json.dumps({"error": refusal.message}).encode())

    def send(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_file(self, path: str, data: bytes, headers: Mapping[str, str]) -> None:
        """Send a file, or its part from `Range: bytes=N-`, with the failures set in `Trouble`."""
        trouble, start = self.hub.trouble, self._range_start()
        if self.command == "GET" and path in trouble.endless:
            self.send_for_ever(trouble.endless[path])
        if self.command == "GET" and path in trouble.compressed:
            self.send(200, {**headers, "Content-Encoding": "gzip"}, gzip.compress(data))
            return
        if self.command == "GET" and trouble.corrupt.get(path, 0) > 0:
            trouble.corrupt[path] -= 1
            data = bytes(255 - byte for byte in data[:16]) + data[16:]
        part = {"Accept-Ranges": "bytes", "Content-Length": str(len(data) - start), **headers}
        if start:
            part["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        self.send_response(206 if start else 200)
        for name, value in part.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self._write(path, data[start:])

    def send_for_ever(self, piece: bytes) -> NoReturn:
        """Send a body that repeats `piece` until the client closes the connection."""
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()
        while True:
            self.wfile.write(piece)

    def _range_start(self) -> int:
        value = self.headers.get("Range", "bytes=0-")
        return int(value.removeprefix("bytes=").partition("-")[0])

    def _write(self, path: str, data: bytes) -> None:
        cut = self.hub.trouble.cut_after_bytes.pop(path, None)
        held = self.hub.trouble.held.get(path)
        end = len(data) if cut is None else cut
        for offset in range(0, end, _CHUNK_BYTES):
            if held and offset + _CHUNK_BYTES >= end // 2:
                self.wfile.flush()
                held.wait()
            self.wfile.write(data[offset : min(offset + _CHUNK_BYTES, end)])
        if cut is not None:
            self.close_connection = True


class _HubHandler(_Handler):
    name = "hub"

    def respond(self, path: str) -> None:
        if self.hub.trouble.statuses:
            status = self.hub.trouble.statuses.pop(0)
            raise _Refusal(status, None, f"trouble {status}")
        parts = path.strip("/").split("/")
        if parts[:2] == ["api", "models"] and parts[4:5] == ["revision"]:
            self._info("/".join(parts[2:4]), parts[5])
        elif parts[:3] == ["api", "resolve-cache", "models"]:
            self._small_file("/".join(parts[3:5]), parts[5], "/".join(parts[6:]))
        elif parts[2:3] == ["resolve"]:
            self._resolve("/".join(parts[:2]), parts[3], "/".join(parts[4:]))
        else:
            raise _Refusal(404, None, "Sorry, we can't find the page you are looking for.")

    def _repo(self, model: str) -> Repo:
        """Return a model that the request's token may see; refuse a private one as if missing."""
        readable = self._readable()
        repo = self.hub.repos.get(model)
        if repo and not (repo.private and model not in readable):
            return repo
        if self._token() is None:
            raise _Refusal(401, None, "Invalid username or password.")
        raise _Refusal(404, "RepoNotFound", "Repository not found")

    def _token(self) -> str | None:
        value = self.headers.get("Authorization")
        return value.removeprefix("Bearer ") if value else None

    def _readable(self) -> set[str]:
        token = self._token()
        if token is not None and token not in self.hub.tokens:
            raise _Refusal(401, None, "Invalid credentials in Authorization header")
        return self.hub.tokens[token] if token else set()

    def _commit(self, repo: Repo, revision: str) -> str:
        commit = repo.refs.get(revision, revision)
        if commit not in repo.commits:
            raise _Refusal(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        return commit

    def _info(self, model: str, revision: str) -> None:
        """Answer with a model's commit and list of files.

        For a gated model, too, this needs no token: as on huggingface.co, its list is public.
        """
        repo = self._repo(model)
        commit = self._commit(repo, revision)
        blobs = parse_qs(urlsplit(self.path).query).get("blobs") in (["true"], ["True"])
        siblings = [
            {"rfilename": name, **(_metadata(repo, data) if blobs else {})}
            for name, data in repo.commits[commit].items()
        ]
        value = {
            "_id": "0" * 24,
            "id": model,
            "modelId": model,
            "sha": commit,
            "private": repo.private,
            "gated": "manual" if repo.gated else False,
            "disabled": False,
            "tags": ["safetensors"],
            "siblings": siblings,
        }
        if LISTING in self.hub.trouble.endless:
            self.send_for_ever(self.hub.trouble.endless[LISTING])
        headers = {"Content-Type": "application/json; charset=utf-8"}
        hostile_info = self.hub.trouble.info
        self.send(
            200, headers, json.dumps(value).encode() if hostile_info is None else hostile_info
        )

    def _resolve(self, model: str, revision: str, path: str) -> None:
        repo = self._repo(model)
        commit = self._commit(repo, revision)
        if repo.gated and model not in self._readable():
            if self._token() is None:
                raise _Refusal(401, "GatedRepo", f"Access to model {model} is restricted.")
            raise _Refusal(403, "GatedRepo", f"Access to model {model} is restricted and you are not in the authorized list.")  # noqa: E501  # fmt: skip
        data = repo.commits[commit].get(path)
        if data is None:
            raise _Refusal(404, "EntryNotFound", "Entry not found")
        if len(data) >= repo.lfs_from_bytes:
            location = f"{self.hub.storage_url}/storage/{model}/{commit}/{path}?{SIGNATURE}"
            etag, status = hashlib.sha256(data).hexdigest(), 302
        else:
            location = f"/api/resolve-cache/models/{model}/{commit}/{path}?etag=x"
            etag, status = git_blob_sha1(data), 307
        headers = {
            "X-Repo-Commit": commit,
            "X-Linked-Size": str(len(data)),
            "X-Linked-Etag": f'"{etag}"',
            "Location": location,
        }
        self.send(status, headers, b"")

    def _small_file(self, model: str, commit: str, path: str) -> None:
        data = self._repo(model).commits[commit][path]
        headers = {"X-Repo-Commit": commit, "ETag": f'"{git_blob_sha1(data)}"'}
        self.send_file(path, data, headers)


class _StorageHandler(_Handler):
    name = "storage"

    def respond(self, path: str) -> None:
        if self.hub.trouble.storage_statuses:
            raise _Refusal(self.hub.trouble.storage_statuses.pop(0), None, "Request has expired")
        if SIGNATURE not in self.path or self.headers.get("Authorization"):
            raise _Refusal(403, None, "signature missing, or a token that should not be here")
        owner, name, commit, *rest = path.removeprefix("/storage/").split("/")
        file = "/".join(rest)
        data = self.hub.repos[f"{owner}/{name}"].commits[commit][file]
        self.send_file(file, data, {"ETag": f'"{hashlib.md5(data).hexdigest()}"'})  # noqa: S324


def _metadata(repo: Repo, data: bytes) -> dict[str, Any]:
    if len(data) < repo.lfs_from_bytes:
        return {"size": len(data), "blobId": git_blob_sha1(data)}
    pointer = lfs_pointer(data)
    lfs = {
        "sha256": hashlib.sha256(data).hexdigest(),
        "size": len(data),
        "pointerSize": len(pointer),
    }
    return {"size": len(data), "blobId": git_blob_sha1(pointer), "lfs": lfs}
