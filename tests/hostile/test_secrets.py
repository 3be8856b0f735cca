"""If a server, Hugging Face or Kubernetes echoes a secret, no file or output has it."""

from __future__ import annotations

import asyncio
import base64
import functools
import gzip
import hashlib
import html
import json
import os
import subprocess
import sys
import urllib.parse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import boto3
import pytest
from huggingface_hub import HfApi, constants
from moto import mock_aws

from draftworth.errors import DraftworthError
from draftworth.measuring.prompt_lengths import Tokenizer
from draftworth.measuring.run_specification import Endpoint
from draftworth.measuring.server_lifecycle import ServersError, health
from draftworth.measuring.streamed_request import ERROR_BAD_STREAM
from draftworth.records.checkpoints import FAILED_MARKER
from draftworth.records.prompt_files import Prompt
from draftworth.records.run_folder import Run, read_run
from draftworth.records.transcripts import read_transcripts
from pods.checkpoint_stager import program
from pods.measuring.kubernetes_servers import KubernetesApi
from tests.conftest import ROOT
from tests.draftworth.conftest import Ran
from tests.support.certificates import new_authority
from tests.support.specifications import shape
from tests.support.stream_server import (
    DONE,
    HEADERS,
    Request,
    Step,
    Write,
    completion,
    event,
    event_of,
    plain,
    stream_server,
    usage_event,
)

# This key has characters that JSON, URLs, HTML and shells escape.
KEY = 'sk-proj-Zq7/Wm+3"Vt9\\Lx2&Bn5=Rd8<Ky4Fh6Js1Pc0'
HUB_TOKEN = "hf_ZqWmVtLxBnRdKyFhJsPcTgQwErUiOp"
# Up to so many characters of a secret may be shown, because they do not disclose the rest.
SHORT_CHARACTERS = 12
OUTPUT_TOKENS = 4


def parts_of(secret: str) -> set[str]:
    """Return short parts of the secret, plain and as JSON, URLs, HTML and base64 write them."""
    forms = [
        secret,
        json.dumps(secret)[1:-1],
        json.dumps(secret)[1:-1].replace("/", "\\/"),
        urllib.parse.quote(secret, safe=""),
        html.escape(secret),
        *(base64.b64encode(b"u" * n + secret.encode()).decode()[4:-4] for n in range(3)),
    ]
    last = SHORT_CHARACTERS - 1
    return {form[at : at + SHORT_CHARACTERS] for form in forms for at in range(len(form) - last)}


def leaks(secret: str, text: str) -> list[str]:
    return sorted(part for part in parts_of(secret) if part in text)


def key_of(request: Request) -> str:
    return request.headers.get("authorization", "").removeprefix("Bearer ")


def head(status: str, *lines: str) -> list[Step]:
    joined = "".join(f"{line}\r\n" for line in lines)
    return [Write(f"HTTP/1.1 {status}\r\n{joined}Content-Length: 0\r\n\r\n".encode())]


def refused(words: str, status: str = "401 Unauthorized") -> list[Step]:
    return plain(status, words.encode())


def streamed(*events: bytes) -> list[Step]:
    return [Write(HEADERS), *(Write(each) for each in events), Write(DONE)]


def answer_of(*texts: str) -> list[Step]:
    """Return a valid streamed answer in which each text is one token."""
    events = [event(text, tokens=n, token_ids=[n]) for n, text in enumerate(texts, start=1)]
    end = event("", tokens=len(texts), finish="stop")
    return streamed(*events, end, usage_event(len(texts)))


ECHOES: dict[str, Callable[[str], Sequence[Step]]] = {
    "a body": lambda key: refused(f"Incorrect API key provided: {key}"),
    "a body of JSON": lambda key: refused(json.dumps({"error": {"message": f"no {key}"}})),
    "a body of JSON with slashes": lambda key: refused(json.dumps(f"{key}").replace("/", "\\/")),
    "a body of HTML": lambda key: refused(f"<p>no {html.escape(key)}</p>"),
    "a body with an address": lambda key: refused(f"?key={urllib.parse.quote(key, safe='')}"),
    "a body of Basic": lambda key: refused(base64.b64encode(f"u:{key}".encode()).decode()),
    "a body that is cut": lambda key: refused(" " * 1_980 + key),
    "a line that is cut": lambda key: refused("x" * 470 + f" {key}"),
    "a reason phrase": lambda key: head(f"401 no {key}"),
    "a server that is down": lambda key: refused(f"upstream got {key}", "503 Not Now"),
    "a rate limit": lambda key: head("429 Slow", f"Retry-After: {key}"),
    "a redirect": lambda key: head(
        "307 Elsewhere", f"Location: https://login/?k={urllib.parse.quote(key)}"
    ),
    "a content type": lambda key: head("200 OK", f"Content-Type: text/{key}"),
    "an encoding": lambda key: head("200 OK", f"Content-Encoding: {key}"),
    "JSON instead of a stream": lambda key: plain("200 OK", json.dumps({"you": key}).encode()),
    "an error event": lambda key: streamed(event_of({"error": {"message": f"no {key}"}})),
    "an error event of text": lambda key: streamed(event_of({"error": f"no {key}"})),
    "an error event of its own form": lambda key: streamed(
        event_of({"error": {"code": 401, "detail": f"{key} is not right, {key} is wrong"}})
    ),
    "no JSON": lambda key: streamed(f"data: no {key}\n\n".encode()),
    "no JSON that is cut": lambda key: streamed(f"data: {'x' * 50}{key}\n\n".encode()),
    "no object": lambda key: streamed(event_of([key])),
    "no chunk": lambda key: streamed(event_of({"choices": [key]})),
    "a count": lambda key: streamed(event_of({"choices": [], "usage": {"completion_tokens": key}})),
    "a finish reason": lambda key: streamed(
        event("x", tokens=1), event("", tokens=1, finish=key), usage_event(1)
    ),
    "an output": lambda key: answer_of("Your key is ", key, "."),
    "an output in pieces": lambda key: answer_of("My key is ", key[:9], key[9:20], key[20:]),
    "an output that is cut": lambda key: answer_of("a", "b", "c", key[:20]),
    "a call of a tool": lambda key: streamed(
        event(None, tokens=1, tool_calls=[{"function": {"arguments": json.dumps({"k": key})}}]),
        event("", tokens=1, finish="tool_calls"),
        usage_event(1),
    ),
}
PROMPTS = [{"id": name, "prompt": name} for name in ECHOES]
# The last prompt: the check before the run sends it, and its answer must have no secret.
PLAIN = {"id": "plain", "prompt": "plain"}


def echoes(request: Request) -> Sequence[Step]:
    """Answer a request with the row of `ECHOES` that its prompt names."""
    if request.method == "GET":
        return refused(f"no {key_of(request)}", "404 Not Found")
    row = ECHOES.get(request.json["messages"][-1]["content"])
    return row(key_of(request)) if row else completion(1, 1, 1)


def kept(folder: Path) -> dict[str, str]:
    """Return the text of every file below a folder, by file name; gzip files are decompressed."""
    files = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    plain_bytes = {
        name: gzip.decompress(data) if name.endswith(".gz") else data
        for name, data in files.items()
    }
    return {name: data.decode("utf-8", "replace") for name, data in plain_bytes.items()}


def without(secret: str, *, out: Path, printed: str) -> None:
    texts = {**kept(out), "the terminal": printed}
    assert {name: leaks(secret, text) for name, text in texts.items() if leaks(secret, text)} == {}


@pytest.fixture
def words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Options of `measure` and `compare` that send one request per row of `ECHOES`."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    (tmp_path / "mails").mkdir()
    file = tmp_path / "mails" / "inbox.jsonl"
    file.write_text("".join(json.dumps(prompt) + "\n" for prompt in [*PROMPTS, PLAIN]))
    sizes = ("--requests-per-case", len(PROMPTS), "--rounds", 1, "--warmup-requests", 0)
    many = ("--output-tokens", OUTPUT_TOKENS, "--token-ids", "--concurrency", 4)
    return ["--model", "m", "--prompts", file, "--out", tmp_path / "runs", *sizes, *many]


def only_run(out: Path) -> tuple[Run, Path]:
    (folder,) = out.iterdir()
    return read_run(folder), folder


@pytest.mark.usefixtures("_every_request_counts")
def test_echoed_secrets_reach_no_file_of_measure(
    ran: Ran, tmp_path: Path, words: list[object]
) -> None:
    with stream_server(echoes) as server:
        printed = ran("measure", "--base-url", server.base_url, *words, "--verbose")

    assert {key_of(request) for request in server.requests} == {KEY}
    without(KEY, out=tmp_path / "runs", printed=printed)
    run, folder = only_run(tmp_path / "runs")
    records = {record.prompt_id: record for record in run.blocks[0].requests}
    assert "[OPENAI_API_KEY]" in records["a body"].error_msg
    assert records["a count"].error_code == ERROR_BAD_STREAM
    # The hash and the token count are of the real output; only the stored text is changed.
    output = records["an output"]
    true_text = f"Your key is {KEY}."
    assert output.output_sha256 == hashlib.sha256(true_text.encode()).hexdigest()
    assert output.number_output_tokens == 3
    transcripts = read_transcripts(folder, run.blocks)
    transcript = transcripts[output.request_id]
    assert transcript.text == "Your key is [OPENAI_API_KEY]."
    # They are left out, because token ids are another form of the secret.
    assert transcript.token_ids is None
    assert transcript.chunk_tokens == (1, 1, 1)


@pytest.mark.usefixtures("_every_request_counts", "undrawn")
def test_echoed_secrets_reach_no_file_of_compare(
    ran: Ran, tmp_path: Path, words: list[object]
) -> None:
    with stream_server(echoes) as one, stream_server(echoes) as other:
        printed = ran(
            "compare", "--baseline", one.base_url, "--variant", f"b={other.base_url}", *words
        )

    pages = tmp_path / "pages"
    folder = only_run(tmp_path / "runs")[1]
    printed += ran("report", folder, "--out", pages, "--verbose")
    assert {"report.html", "report.md"} <= {page.name for page in pages.iterdir()}
    without(KEY, out=tmp_path, printed=printed)


def models_with(text: str) -> list[Step]:
    return plain("200 OK", json.dumps({"data": [{"id": text}]}).encode())


# By name: what answers each request, so that a run cannot begin.
REFUSALS: dict[str, Callable[[str], Sequence[Step]]] = {
    "each request": lambda key: refused(f"Incorrect API key provided: {key}"),
    "the list of models": lambda key: plain("200 OK", json.dumps({"data": [{"id": key}]}).encode()),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_a_run_that_ends_early_quotes_no_secret(
    ran: Ran, tmp_path: Path, words: list[object], name: str
) -> None:
    def script(request: Request) -> Sequence[Step]:
        if request.path == "/health":
            return plain("200 OK", b"")
        return REFUSALS[name](key_of(request))

    with stream_server(script) as server:
        printed = ran("measure", "--base-url", server.base_url, *words, code=2)
    assert "[OPENAI_API_KEY]" in printed
    without(KEY, out=tmp_path / "runs", printed=printed)


@pytest.mark.parametrize("ask", ["health", "tokenize"])
def test_an_unready_servers_echo_is_not_quoted(ask: str) -> None:
    endpoint = Endpoint(variant="v", base_url="", max_tokens_per_step=None, is_baseline=True)

    async def reason(url: str) -> str:
        if ask == "health":
            return await health(replace(endpoint, base_url=url), KEY)
        with pytest.raises(DraftworthError) as failed:
            await Tokenizer(base_url=url, shape=shape(), api_key=KEY).count(
                Prompt(id="p", messages=({"role": "user", "content": "x"},))
            )
        return str(failed.value)

    def script(request: Request) -> Sequence[Step]:
        return head("302 Go", f"Location: /{urllib.parse.quote(key_of(request))}")

    with stream_server(script) as server:
        reason_words = asyncio.run(reason(server.base_url))
    assert "a redirect to /[OPENAI_API_KEY]" in reason_words
    assert leaks(KEY, reason_words) == []


def hub_head(status: str, token: str, *lines: str) -> list[Step]:
    return head(status, f"X-Error-Message: {token} is not right", *lines)


HUB_ECHOES: dict[str, Callable[[str], Sequence[Step]]] = {
    "a header": lambda token: hub_head("401 Unauthorized", token),
    "a gate": lambda token: hub_head("403 Forbidden", token, "X-Error-Code: GatedRepo"),
    "a body": lambda token: refused(json.dumps({"error": f"no {token}"}), "400 Bad Request"),
    "a reason phrase": lambda token: head(f"418 no {token}"),
    "a hub that is down": lambda token: refused(f"upstream got {token}", "503 Not Now"),
    "a redirect": lambda token: head("302 Go", f"Location: http://127.0.0.1:9/?t={token}"),
    "a path": lambda token: head("302 Go", f"Location: http://127.0.0.1:9/{token}"),
    "a loop": lambda token: head("302 Go", f"Location: /{token}"),
    "a commit": lambda token: plain("200 OK", json.dumps({"id": "a/b", "sha": token}).encode()),
    "a file": lambda token: plain(
        "200 OK",
        json.dumps({"id": "a/b", "sha": "a" * 40, "siblings": [{"rfilename": token}]}).encode(),
    ),
    "a file that is refused": lambda token: plain(
        "200 OK",
        json.dumps(
            {
                "id": "a/b",
                "sha": "a" * 40,
                "siblings": [{"rfilename": f"../{token}", "size": 1, "blobId": "b" * 40}],
            }
        ).encode(),
    ),
    "no JSON": lambda token: plain("200 OK", token.encode()),
    "a header that is none": lambda token: head("302 Go", f"Location: \0{token}"),
}


@pytest.fixture
def _hub_client_as_in_the_job(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", lambda _: None)
    monkeypatch.setattr("pods.checkpoint_stager.hub.sleep", lambda _: None)
    monkeypatch.setattr(program, "end_at_sigterm", lambda: None)
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    with mock_aws():
        yield


@pytest.mark.emulator
@pytest.mark.usefixtures("_hub_client_as_in_the_job")
@pytest.mark.parametrize("answer", HUB_ECHOES.values(), ids=HUB_ECHOES)
def test_a_hubs_echo_reaches_no_log_or_mail(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    answer: Callable[[str], Sequence[Step]],
) -> None:
    s3 = boto3.client("s3", region_name="us-east-1")
    s3.create_bucket(Bucket="checkpoints")
    boto3.client("secretsmanager").create_secret(Name="hub", SecretString=HUB_TOKEN)
    options = {"--model": "a/b", "--revision": "main", "--bucket": "checkpoints", "--retries": "0"}
    options |= {"--scratch": str(tmp_path), "--scratch-gib": "1", "--token-secret": "hub"}
    with stream_server(lambda request: answer(key_of(request) or HUB_TOKEN)) as hub:
        monkeypatch.setattr(program, "HfApi", functools.partial(HfApi, endpoint=hub.base_url))
        assert program.main([word for pair in options.items() for word in pair])

    assert HUB_TOKEN in {key_of(request) for request in hub.requests}
    failed = s3.get_object(Bucket="checkpoints", Key=f"a/b/main/{FAILED_MARKER}")["Body"].read()
    assert {"log": leaks(HUB_TOKEN, "".join(capfd.readouterr()))} == {"log": []}
    assert leaks(HUB_TOKEN, failed.decode()) == []


def test_what_kubernetes_echoes_is_in_no_reason(tmp_path: Path) -> None:
    authority, context = new_authority(tmp_path)
    authority.rename(tmp_path / "ca.crt")
    (tmp_path / "namespace").write_text("n")
    (tmp_path / "token").write_text(KEY)

    def script(request: Request) -> Sequence[Step]:
        return plain("403 No", json.dumps({"message": f"no {key_of(request)}"}).encode())

    with stream_server(script, tls=context) as server, pytest.raises(ServersError) as failed:
        KubernetesApi(url=server.base_url, folder=tmp_path).scale("d", 1)
    assert "HTTP 403: no [" in str(failed.value)
    assert leaks(KEY, str(failed.value)) == []


# A server program that writes a secret from its environment and ends.
SAYS = "import os, sys; sys.exit('Incorrect API key ' + os.environ['OPENAI_API_KEY'])"


def test_secret_variables_of_a_program_are_not_shown(
    ran: Ran, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    printed = ran(
        "conformance", "--trap", "plain", "--", sys.executable, "-c", SAYS, "{url}", code=1
    )
    assert "Incorrect API key [OPENAI_API_KEY]" in printed
    assert leaks(KEY, printed) == []


CRASHES = """
from draftworth.untrusted import hide_secret
from pods.log import log_crashes

log_crashes()
hide_secret("Hugging Face token", {secret!r})
raise RuntimeError("the library says " + {secret!r})
"""


def test_the_traceback_of_a_pod_says_no_secret(tmp_path: Path) -> None:
    program_file = tmp_path / "crashes.py"  # a traceback shows lines of the program too
    program_file.write_text(CRASHES.format(secret=HUB_TOKEN))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        [sys.executable, str(program_file)], capture_output=True, text=True, env=environment
    )
    assert ended.returncode == 1
    assert "RuntimeError: the library says [Hugging Face token]" in ended.stderr
    assert leaks(HUB_TOKEN, ended.stdout + ended.stderr) == []
