"""Token ids by a running server: what it is asked, and what is refused of its answers."""

import json
from collections.abc import Sequence

import pytest

from draftworth.errors import DraftworthError
from draftworth.estimate.server_tokens import ServerTokens
from draftworth.records.readings import Output
from tests.support.stream_server import Request, Script, Step, plain, stream_server

MESSAGES = [{"role": "user", "content": "ab"}]


def output(name: str, *, text: str = "xy", ids: tuple[int, ...] | None = None) -> Output:
    return Output(
        id=name,
        prompt_class="mine",
        case="mails",
        prompt_id=name,
        asked={"messages": MESSAGES},
        text=text,
        token_ids=ids,
    )


def answering(body: object, status: str = "200 OK") -> Script:
    def script(_: Request) -> Sequence[Step]:
        return plain(status, json.dumps(body).encode())

    return script


def test_each_text_is_asked_for_once() -> None:
    with stream_server(answering({"tokens": [5, 6]})) as server:
        tokens = ServerTokens(base_url=server.base_url, model="m")
        ids = tokens.token_ids([output("1"), output("2")], enable_thinking=False)
    assert [(i.prompt_ids, i.output_ids) for i in ids] == [((5, 6), (5, 6))] * 2
    assert [request.path for request in server.requests] == ["/tokenize"] * 2
    template = {"add_generation_prompt": True, "chat_template_kwargs": {"enable_thinking": False}}
    assert [request.json for request in server.requests] == [
        {"model": "m", "prompt": "xy", "add_special_tokens": False},
        {"model": "m", "messages": MESSAGES, **template},
    ]


def test_ids_of_the_run_are_kept() -> None:
    with stream_server(answering({"tokens": [5, 6]})) as server:
        tokens = ServerTokens(base_url=server.base_url, model="m", api_key="key")
        (ids,) = tokens.token_ids([output("1", ids=(1, 2, 3))], enable_thinking=False)
    assert ids.output_ids == (1, 2, 3)
    (request,) = server.requests
    assert request.headers["authorization"] == "Bearer key"


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"tokens": ["a"]}, "200 OK", "no token ids in it; allowed: the ids of tokens, as vLLM"),
        ({"count": 2}, "200 OK", "no token ids in it"),
        ([1, 2], "200 OK", "/tokenize: answered: "),
        ({"error": "no"}, "404 Not Found", "answered: HTTP 404"),
    ],
)
def test_other_answers_are_refused(body: object, status: str, words: str) -> None:
    with stream_server(answering(body, status)) as server:
        tokens = ServerTokens(base_url=server.base_url, model="m")
        with pytest.raises(DraftworthError, match=words):
            tokens.token_ids([output("1")], enable_thinking=False)


def test_no_answer_is_an_error_too() -> None:
    with stream_server(answering({})) as server:
        tokens = ServerTokens(base_url=server.base_url, model="m")
    with pytest.raises(DraftworthError, match="/tokenize: answered: "):
        tokens.token_ids([output("1")], enable_thinking=False)
