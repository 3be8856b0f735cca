"""A small model hub over real HTTP, which answers the hub's own client as huggingface.co does.

It has two servers on loopback, because there are two hosts in reality: the hub, which knows
accounts, and its storage, which accepts signed URLs and must never receive a token.

    GET  /api/models/ID/revision/REV?blobs=true   commit, files, sizes, git and LFS hashes
    HEAD /ID/resolve/REV/PATH     large file: 302 to the storage, with X-Linked-Size and -Etag;
    GET                           others: 307 to another URL of the hub, then the file
    GET  storage/COMMIT/PATH?...  the bytes, with Range

Refusals have the headers that the client reads (X-Error-Code, X-Error-Message). A test sets the
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
    """Files of this size are in large file storage."""


@dataclass
class Trouble:
    """The failures that a test wants; most stop when their list or number is used up."""

    statuses: list[int] = field(default_factory=list)
    """Answers to the next requests to the hub, instead of the right ones."""
    info: bytes | None = None
    """What the hub says of any model, instead of what is so."""
    storage_statuses: list[int] = field(default_factory=list)
    """The same of the storage."""
    corrupt: dict[str, int] = field(default_factory=dict)
    """Path: how many times more its bytes come altered, as many as they should be."""
    cut_after_bytes: dict[str, int] = field(default_factory=dict)
    """Path: the connection ends after so many bytes, once."""
    held: dict[str, threading.Event] = field(default_factory=dict)
    """Path: the second half comes when the event is set."""
    endless: dict[str, bytes] = field(default_factory=dict)
    """Path, or LISTING: what its body repeats for ever, without a length."""
    compressed: set[str] = field(default_factory=set)
    """Paths that come compressed, whatever was asked for."""


@dataclass(frozen=True)
class HubRequest:
    """A request that reached one of the two servers."""

    server: str
    method: str
    path: str
    range_: str | None
    authorization: str | None


@dataclass
class LocalHub:
    """The running hub. tokens: for each token, the gated and private models that it may read."""

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
    """Return the pointer that git has instead of a file in large file storage."""
    sha256 = hashlib.sha256(data).hexdigest()
    return (
        f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {len(data)}\n"
    ).encode()


@contextmanager
def local_hub(repos: Mapping[str, Repo], *, address: str = "127.0.0.1") -> Iterator[LocalHub]:
    """Run a hub with these models. address: an IP address of this machine."""
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
        """Send a file, whole or from `Range: bytes=N-`, with the failures that `Trouble` has."""
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
        """Send a body without an end, until the client goes."""
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
        """Return a model that the caller may see; refuse a private model as if it was missing."""
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
        """Answer for gated models too, as in reality: the list of their files is public."""
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
