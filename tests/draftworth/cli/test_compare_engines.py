"""What `compare` says of engines where it cannot tell what they lose, and what it records."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from draftworth.records.allowed_steps import ALLOWED_STEPS_FILE
from draftworth.records.results import SPECIFICATION_FILE
from tests.draftworth.conftest import Ran
from tests.support.stream_server import Request, Script, Step, completion, plain, stream_server

NEXT = "estimate EXPERIMENT --answers "


def server(tokens: Sequence[int] | None) -> Script:
    """Return a server that answers eight tokens in two chunks.

    tokens: the ids with which it tokenizes everything; None: it does not.
    """

    def script(request: Request) -> Sequence[Step]:
        if request.path == "/v1/models":
            return plain("200 OK", json.dumps({"data": [{"id": "m"}]}).encode())
        if request.path == "/tokenize" and tokens is not None:
            return plain("200 OK", json.dumps({"count": len(tokens), "tokens": tokens}).encode())
        if request.method == "GET" or request.path == "/tokenize":
            return plain("200 OK" if request.path == "/health" else "404 Not Found", b"")
        return completion(1, 4, 3)

    return script


def compared(ran: Ran, folder: Path, tokens: Sequence[int] | None, settings: str) -> str:
    (folder / "mails").mkdir()
    prompts = [{"id": f"mail-{n}", "prompt": f"Answer mail {n}."} for n in range(8)]
    lines = "".join(json.dumps(prompt) + "\n" for prompt in prompts)
    (folder / "mails" / "inbox.jsonl").write_text(lines)
    with stream_server(server(None)) as a, stream_server(server(tokens)) as b:
        return ran(
            *("compare", "--baseline", a.base_url, "--variant", f"fast={b.base_url}{settings}"),
            *("--model", "m", "--prompts", folder / "mails", "--rounds", 2),
            *("--out", folder / "runs"),
        )


@pytest.mark.usefixtures("_every_request_counts")
@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        (None, "/tokenize: answered: HTTP 404"),
        ([1, 2, 3], "no output has as many tokens as the server counted; next: measure with"),
    ],
)
def test_what_cannot_be_told_is_said(
    tmp_path: Path, ran: Ran, tokens: Sequence[int] | None, words: str
) -> None:
    output = compared(ran, tmp_path, tokens, ",window=4,ngram=2-4")
    assert "fast: what its engine loses is not told: " in output
    assert words in output
    assert NEXT in output
    (run,) = (tmp_path / "runs").iterdir()
    assert not (run / ALLOWED_STEPS_FILE).exists()


@pytest.mark.usefixtures("_every_request_counts")
def test_eight_equal_tokens_are_compared(tmp_path: Path, ran: Ran) -> None:
    """The text of eight equal tokens allows 4 + 1 in a step, as the first one has."""
    output = compared(ran, tmp_path, [7] * 8, ",window=4,ngram=2")
    assert "3.50 of the 3.50 tokens per step that texts allow" in output
    assert NEXT not in output
    (run,) = (tmp_path / "runs").iterdir()
    recorded = json.loads((run / SPECIFICATION_FILE).read_bytes())["endpoints"]
    assert [endpoint["lookup_lengths"] for endpoint in recorded] == [None, [2, 2]]
    repeat = "compare --baseline URL --variant fast=URL,window=4,ngram=2-2 --model"
    assert repeat in ran("report", run, "--handover")


@pytest.mark.usefixtures("_every_request_counts")
@pytest.mark.parametrize(("settings", "is_named"), [(",window=4", True), ("", False)])
def test_a_draft_model_takes_the_command_estimate(
    tmp_path: Path, ran: Ran, settings: str, *, is_named: bool
) -> None:
    """Without a window, nobody knows how many drafted tokens a step checks."""
    output = compared(ran, tmp_path, [7] * 8, settings)
    assert (NEXT in output) is is_named
    assert "what its engine loses is not told" not in output
