"""A server is asked for its models, and what is none of OpenAI's API is refused at once."""

import asyncio
import json
import socket
from pathlib import Path

import pytest

from draftworth.measuring.http_client import ConnectError
from draftworth.measuring.model_list import NotOpenAIError, served_models
from tests.support.certificates import new_authority
from tests.support.stream_server import Request, Script, Step, Write, plain, stream_server


def answering(status: str, text: str, kind: str = "application/json") -> Script:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(text)}\r\n\r\n"
    return lambda _: [Write(f"{head}{text}".encode())]


def listed(script: Script) -> tuple[str, ...]:
    with stream_server(script) as server:
        return asyncio.run(served_models(server.base_url, None))


def refused(base_url: str) -> NotOpenAIError:
    with pytest.raises(NotOpenAIError) as refusal:
        asyncio.run(served_models(base_url, None))
    return refusal.value


@pytest.mark.parametrize(
    ("script", "names"),
    [
        (answering("200 OK", json.dumps({"data": [{"id": "m"}, {"id": 3}, "x"]})), ("m",)),
        (answering("404 Not Found", '{"detail": "Not Found"}'), ()),
        (answering("503 Service Unavailable", '{"error": "loading"}'), ()),
        (answering("200 OK", ""), ()),
    ],
)
def test_a_list_is_read_and_may_be_missing(script: Script, names: tuple[str, ...]) -> None:
    assert listed(script) == names


@pytest.mark.parametrize(
    ("script", "reason", "next_step"),
    [
        (
            answering("200 OK", "<html>", "text/html"),
            "answers HTTP 200 with a web page",
            "give the",
        ),
        (answering("404 Not Found", "  <!DOCTYPE html>", ""), "HTTP 404 with a web page", "give "),
        (
            answering("200 OK", '{"version": 1}'),
            "HTTP 200 with '{\"version\": 1}'",
            "give the addr",
        ),
        (answering("200 OK", "Ollama is running", "text/plain"), "'Ollama is running'", "give the"),
        (answering("401 Unauthorized", ""), "it answers HTTP 401", "set the environment variable"),
        (answering("403 Forbidden", "no key"), "it answers HTTP 403 (no key)", "set the envir"),
        (
            answering("307 Temporary Redirect\r\nLocation: /x", ""),
            "a redirect to /x",
            "correct the",
        ),
    ],
)
def test_another_kind_of_server_is_refused(script: Script, reason: str, next_step: str) -> None:
    with stream_server(script) as server:
        refusal = refused(server.base_url)
    assert reason in str(refusal)
    assert refusal.next_step.startswith(next_step)


def test_https_to_a_server_of_http_is_named() -> None:
    with stream_server(answering("200 OK", '{"data": []}')) as server:
        refusal = refused(server.base_url.replace("http:", "https:"))
    assert str(refusal) == "the server there speaks http, and not https"
    assert refusal.next_step == f"give {server.base_url}"


def test_http_to_a_server_of_https_is_named(tmp_path: Path) -> None:
    _, tls = new_authority(tmp_path)
    with stream_server(answering("200 OK", '{"data": []}'), tls=tls) as server:
        refusal = refused(server.base_url.replace("https:", "http:"))
    assert str(refusal) == "the server there speaks https, and not http"
    assert refusal.next_step == f"give {server.base_url}"


def test_a_server_that_breaks_off_may_be_starting() -> None:
    assert listed(lambda _: []) == ()


def test_an_address_without_a_server_is_no_connection() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        with pytest.raises(ConnectError, match="Connection refused"):
            asyncio.run(served_models(url, None))


def test_the_probe_gets_no_key() -> None:
    keys: list[str | None] = []

    def keeping(request: Request) -> list[Step]:
        keys.append(request.headers.get("authorization"))
        return plain("200 OK", b"")

    with stream_server(keeping) as server, pytest.raises(NotOpenAIError):
        asyncio.run(served_models(server.base_url.replace("http:", "https:"), "secret"))
    assert keys
    assert {*keys} == {None}
