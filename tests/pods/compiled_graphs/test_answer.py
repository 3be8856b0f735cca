"""One completion of a real HTTP server, which answers well or not."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from pods.compiled_graphs.answer import MAX_TOKENS, NoAnswerError, answered_tokens
from tests.support.waiting import HANGS_AFTER_SECONDS

MODELS = {"data": [{"id": "a-name"}]}
DONE = {"choices": [{"text": "7", "finish_reason": "length"}], "usage": {"completion_tokens": 32}}


@contextmanager
def server(models: Any, completion: Any, status: int = 200) -> Iterator[tuple[str, list[Any]]]:
    """An address, and what was asked there."""
    asked: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.answer(200, models)

        def do_POST(self) -> None:
            asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.answer(status, completion)

        def answer(self, code: int, value: Any) -> None:
            body = value if isinstance(value, bytes) else json.dumps(value).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}", asked
        running.shutdown()
        thread.join()


def test_a_greedy_completion_of_the_served_model_is_asked_for() -> None:
    with server(MODELS, DONE) as (url, asked):
        assert answered_tokens(url, timeout_seconds=HANGS_AFTER_SECONDS) == 32
    (request,) = asked
    assert (request["model"], request["temperature"]) == ("a-name", 0)
    assert request["max_tokens"] == MAX_TOKENS >= 16


@pytest.mark.parametrize(
    ("models", "completion", "status", "reason"),
    [
        ({"data": []}, DONE, 200, "data: given"),
        (b"<html>", DONE, 200, "models: RecordError"),
        (MODELS, DONE, 500, "completions: HTTPError"),
        (MODELS, b"[]", 200, "completions: RecordError"),
        (MODELS, {**DONE, "choices": []}, 200, "choices: given"),
        (MODELS, {**DONE, "choices": [{"text": "7"}]}, 200, "no finish reason"),
        (MODELS, {**DONE, "usage": {"completion_tokens": 0}}, 200, "has 0 tokens"),
        (MODELS, {**DONE, "usage": None}, 200, "has None tokens"),
    ],
)
def test_what_is_no_answer_proves_nothing(
    models: Any, completion: Any, status: int, reason: str
) -> None:
    with (
        server(models, completion, status) as (url, _),
        pytest.raises(NoAnswerError, match=reason),
    ):
        answered_tokens(url, timeout_seconds=HANGS_AFTER_SECONDS)


def test_nobody_at_the_address_is_no_answer() -> None:
    with pytest.raises(NoAnswerError, match="models: URLError"):
        answered_tokens("http://127.0.0.1:9", timeout_seconds=HANGS_AFTER_SECONDS)
