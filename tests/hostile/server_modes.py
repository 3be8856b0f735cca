"""What a server may answer: a row is a name, an answer, and what the client must make of it.

An answer is raw bytes; `Forever` writes its last piece until the client goes away. To add a row,
write down what the server sent, run the tests, and read in their message what became of it.
"""

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from draftworth.measuring import streamed_request
from draftworth.measuring.server_lifecycle import READY
from tests.support.stream_server import (
    DONE,
    HEADERS,
    Reset,
    Sleep,
    Step,
    Write,
    event,
    event_of,
    plain,
    usage_event,
)

# The output tokens that these tests request.
OUTPUT_TOKENS = 64
OK = "HTTP/1.1 200 OK\r\n"


@dataclass(frozen=True)
class Forever:
    """An answer without an end: some bytes, then other bytes again and again."""

    first: bytes
    again: bytes

    def __iter__(self) -> Iterator[Step]:
        yield Write(self.first)
        while True:
            yield Write(self.again)


Answer = bytes | Iterable[Step]


def steps_of(answer: Answer) -> Iterable[Step]:
    return [Write(answer)] if isinstance(answer, bytes) else answer


def stalls(answer: Answer) -> bool:
    """Return whether only the client's own time limit ends this answer."""
    return isinstance(answer, list) and any(isinstance(step, Sleep) for step in answer)


def data(value: object) -> bytes:
    """Return a server-sent event with any value as JSON; a text is sent as it is."""
    return b"data: " + value + b"\n\n" if isinstance(value, bytes) else event_of(value)


def chunk(delta: Any = None, *, usage: Any = None, finish: Any = None) -> bytes:
    """Return a completion chunk with any fields."""
    value = {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "usage": usage}
    return data(value)


def raw_choice(choice: Any) -> bytes:
    """Return a chunk with any value as its only choice."""
    return data({"choices": [choice]})


def named(text: str, *, tokens: int | None = None, **fields: Any) -> bytes:
    """Return a chunk with this text, and `fields` beside its choice.

    tokens: the total of output tokens so far, which the chunk reports; None: it reports none.
    """
    value: dict[str, Any] = {"choices": [{"index": 0, "delta": {"content": text}}], **fields}
    if tokens is not None:
        value["usage"] = {"completion_tokens": tokens, "prompt_tokens": 11}
    return data(value)


def counted(tokens: Any, *, prompt_tokens: Any = 11, text: str = "x") -> bytes:
    """Return a stream with one chunk, which reports these numbers of tokens."""
    usage = {"completion_tokens": tokens, "prompt_tokens": prompt_tokens}
    return HEADERS + chunk({"content": text}, usage=usage, finish="stop") + DONE


def content_chunk(text: bytes, *, finish: bytes = b'"stop"') -> bytes:
    """Return a stream whose one chunk has this JSON text as content."""
    value = (
        b'{"choices":[{"delta":{"content":%s},"finish_reason":%s}],"usage":{"completion_tokens":1}}'
    )
    return HEADERS + data(value % (text, finish)) + DONE


def headed(*lines: str, status: str = "200 OK", body: bytes = b"") -> bytes:
    """Return a response with these header lines."""
    return "".join(f"{line}\r\n" for line in (f"HTTP/1.1 {status}", *lines, "")).encode() + body


def counted_nothing(counts: dict[str, Any]) -> bytes:
    """Return a stream whose last event has no token count but counts of drafts."""
    usage = {"completion_tokens": 0, "prompt_tokens": 11}
    return HEADERS + chunk({"content": "x"}) + data({"choices": [], "usage": usage} | counts) + DONE


def whole(status: str, body: bytes = b"", content_type: str = "text/plain") -> bytes:
    """Return an ordinary response."""
    (step,) = plain(status, body, content_type)
    assert isinstance(step, Write)
    return step.data


BOM = b"\xef\xbb\xbf"
FINE = chunk({"content": "x"}, usage={"completion_tokens": 1, "prompt_tokens": 11}, finish="stop")
DEEP = 100_000
BAD, BROKEN = streamed_request.ERROR_BAD_STREAM, streamed_request.ERROR_BROKEN_STREAM
SSE = "Content-Type: text/event-stream"
CHUNKED = "Transfer-Encoding: chunked"
COMPRESSED = gzip.compress(b"data: {}\n\n", mtime=0)


NO_OUTPUT: Sequence[Any] = (-3, 65, 10**18, 2**63, 1.0, 1.5, True, "7", [], {}, None, 10**400)
NO_INPUT: Sequence[Any] = (-1, 10**9, 2**63, 0.5, False, "11", [3])
NAN, DIGITS = b"NaN", b"9" * 5_000
COUNT_OF = b'{"usage":{"completion_tokens":%s}}'


# By the expected error code (None: a good record) and words of the message: the answers to a
# completion request, by name.
STREAM_OUTCOMES: dict[tuple[int | None, str], dict[str, Answer]] = {
    (BAD, "completion_tokens: given"): {
        f"completion_tokens {json.dumps(n)[:20]}": counted(n) for n in NO_OUTPUT
    },
    (BAD, "prompt_tokens: given"): {
        f"prompt_tokens {n}": counted(1, prompt_tokens=n) for n in NO_INPUT
    },
    (None, ""): {
        "prompt_tokens null": counted(1, prompt_tokens=None),
        "exactly what was asked for": counted(64, text="x" * 64),
        "text of no token, llama.cpp": counted_nothing({"timings": {"predicted_n": 0}}),
        "text of no token, vLLM": counted_nothing(
            {
                "metrics": {
                    "speculative_decoding": {
                        "num_spec_steps": 0,
                        "num_draft_tokens": 0,
                        "num_accepted_draft_tokens": 0,
                    }
                }
            }
        ),
        "half of a surrogate pair": content_chunk(rb'"\ud83d"'),
        "the wrong half of one": content_chunk(rb'"\ude00 x"'),
        "NUL and escapes in the text": content_chunk(rb'"\u0000\u001b[2J\u202e"'),
        "a finish reason that is a number": content_chunk(b'"x"', finish=b"7"),
        "a finish reason that is an object": content_chunk(b'"x"', finish=b'{"a":[]}'),
        "a finish reason that is a list": content_chunk(b'"x"', finish=b"[[]]"),
        "a finish reason of 50,000": content_chunk(b'"x"', finish=b'"' + b"y" * 50_000 + b'"'),
        "a finish reason with escapes": content_chunk(b'"x"', finish=rb'"\ud800\u001b[2J"'),
        "a good stream that gives its length": headed(
            SSE, f"Content-Length: {len(FINE)}", body=FINE
        ),
        "a second answer after the first": headed(
            SSE, f"Content-Length: {len(FINE)}", body=FINE + whole("500 No", b"no")
        ),
        "the same id and model in each chunk": HEADERS
        + named("a", tokens=1, id="i", model="m")
        + named("b", tokens=2, id="i", model="m")
        + DONE,
        "an id for each chunk": HEADERS
        + b"".join(named("a", tokens=n, id=f"i{n}") for n in (1, 2, 3))
        + DONE,
        "an id and a model but in the first and last": HEADERS
        + named("", id="", model="")
        + named("a", tokens=1, id="i", model="m")
        + named("b", tokens=2, id="i", model="m")
        + data({"choices": [], "id": "", "model": None, "usage": {"completion_tokens": 2}})
        + DONE,
        "an id and a model that are no text": HEADERS
        + named("a", tokens=1, id=7, model=[])
        + named("b", tokens=2, id=8, model={})
        + DONE,
        "a byte order mark": headed(SSE, body=BOM + FINE),
        "no content type": headed(body=FINE + DONE),
        "a content type with a character set": headed(SSE + "; charset=utf-8", body=FINE),
        "100 Continue, then a stream": b"HTTP/1.1 100 Continue\r\n\r\n" + HEADERS + FINE,
        "identity as encoding": headed(SSE, "Content-Encoding: identity", body=FINE),
    },
    (BAD, "given nan, allowed: a whole"): {"completion_tokens NaN": HEADERS + data(COUNT_OF % NAN)},
    (BAD, "not JSON in the stream"): {
        "5,000 digits": HEADERS + data(COUNT_OF % DIGITS),
        "no JSON": HEADERS + data(b"{nonsense"),
        "bytes that are not UTF-8": HEADERS + data(b'{"a":"\xff\xfe"}'),
        "a deep list": HEADERS + data(b"[" * DEEP),
        "deep objects": HEADERS + data(b'{"a":' * DEEP),
    },
    (streamed_request.ERROR_NO_TOKENS, "no output token"): {
        "no tokens": counted(0, text=""),
        "only [DONE]": HEADERS + DONE,
    },
    (BAD, "completion_tokens fell from 5 to 2"): {
        "counts that go down": HEADERS + event("a", tokens=5) + event("b", tokens=2),
        "a total below the counts": HEADERS
        + event("a", tokens=5, finish="stop")
        + usage_event(2)
        + DONE,
    },
    (BAD, "not a completion chunk"): {
        "text that is a number": content_chunk(b"7"),
        "text that is a list": content_chunk(b'["a"]'),
        "choices that are a number": HEADERS + data({"choices": 7}),
        "choices that are text": HEADERS + data({"choices": "x"}),
        "choices by name": HEADERS + data({"choices": {"a": 1}}),
        "choices of numbers": HEADERS + data({"choices": [7]}),
        "a delta that is a list": HEADERS + chunk([1]),
        "a text that is a list": HEADERS + raw_choice({"text": [1]}),
        "a text that is a number": HEADERS + raw_choice({"text": 7}),
        "ids that are a number": HEADERS + raw_choice({"token_ids": 7}),
        "tool calls as text": HEADERS + chunk({"tool_calls": "f"}),
        "arguments that are an object": HEADERS
        + chunk({"tool_calls": [{"function": {"arguments": {"a": 1}}}]}),
        "a delta that is text": HEADERS + chunk("x"),
        "usage that is text": HEADERS + chunk({}, usage="7"),
        "usage that is a list": HEADERS + chunk({}, usage=[7]),
        "usage of something else": HEADERS + chunk({}, usage={"tokens": 1}),
    },
    (BAD, "a chunk with 2 choices, allowed: one"): {
        "two choices": HEADERS
        + data({"choices": [{"index": n, "delta": {"content": "x"}} for n in (0, 1)]})
    },
    (BAD, "chunks of two choices in one answer: 0 and 1"): {
        "two choices in turn": HEADERS
        + b"".join(data({"choices": [{"index": n, "delta": {"content": "x"}}]}) for n in (0, 1))
    },
    (BAD, "chunks of two ids in one answer: 'i' and 'j'"): {
        "two answers in turn": HEADERS
        + b"".join(named("a", tokens=n, id="ij"[n % 2 == 0]) for n in (1, 2, 3))
        + DONE,
        "a second answer in the stream": HEADERS
        + b"".join(named("a", tokens=n, id="ij"[n > 2]) for n in (1, 2, 3))
        + DONE,
    },
    (BAD, "chunks of two models in one answer: 'm' and 'n'"): {
        "two models": HEADERS
        + named("a", tokens=1, model="m")
        + named("b", tokens=2, model="n")
        + DONE
    },
    (BAD, "more text than 64"): {
        "text of 100,000 characters": content_chunk(b'"' + b"x" * 100_000 + b'"')
    },
    (BAD, "not JSON in the stream: b'\\xef\\xbb\\xbf{"): {
        "a byte order mark in the stream": HEADERS + FINE.replace(b"data: ", b"data: " + BOM)
    },
    (BAD, "more than 1,000,000 bytes"): {
        "an event of 2 MB": content_chunk(b'"' + b"x" * 2_000_000 + b'"')
    },
    (BAD, "not an object"): {"a list": HEADERS + data([1])},
    (BAD, "token_ids: allowed"): {
        "an id below 0": HEADERS + raw_choice({"token_ids": [-1]}),
        "an id that is text": HEADERS + raw_choice({"token_ids": "ab"}),
        "an id of 400 digits": HEADERS + raw_choice({"token_ids": [10**400]}),
    },
    (BAD, "more token_ids than 64 tokens can have"): {
        "more ids than tokens": HEADERS + raw_choice({"token_ids": [1] * 65})
    },
    (BAD, "oom"): {"an error in the stream": HEADERS + data({"error": {"message": "oom"}})},
    (BAD, "[[1], "): {"an error that is a list": HEADERS + data({"error": [[1]] * 9})},
    (BAD, ""): {
        "an error that is a deep list": HEADERS
        + data(b'{"error":' + b"[" * 900 + b"]" * 900 + b"}")
    },
    (BAD, "xxx ..."): {"an error of 100,000 characters": HEADERS + data({"error": "x" * 100_000})},
    (BAD, r"\x1b[2J line\x00"): {
        "an error with escapes": HEADERS + data({"error": "\x1b[2J\nline\x00"})
    },
    (BAD, r"\ud800"): {"an error with half a pair": HEADERS + data(rb'{"error":"\ud800"}')},
    (BROKEN, "without a finish reason"): {
        "an empty body": HEADERS,
        "a stream that breaks off": HEADERS + event("a", tokens=1),
    },
    (BROKEN, "closed the connection"): {
        "a reset": [Write(HEADERS + event("a", tokens=1)), Reset()]
    },
    (BROKEN, ""): {
        "a reset at once": [Reset()],
        "a chunk size of 40 digits": headed(SSE, CHUNKED, body=b"f" * 40 + b"\r\n"),
        "a negative content length": headed(SSE, "Content-Length: -1", body=FINE),
        "a content length of 30 digits": headed(SSE, "Content-Length: " + "9" * 30),
        "two content lengths": headed(SSE, "Content-Length: 1", "Content-Length: 2"),
        "a length and chunks": headed(SSE, "Content-Length: 1", CHUNKED),
        "HTTP/0.9": b"data: {}\n\n",
        "HTTP/9.9": b"HTTP/9.9 200 OK\r\n\r\n",
        "another protocol": b"SSH-2.0-OpenSSH\r\n\r\n",
        "TLS": b"\x15\x03\x01\x00\x02\x02\x46",
        "NUL": b"\x00" * 99,
        "a status of five digits": whole("20000 OK"),
        "a redirect with escapes": headed("Location: http://a\x1b[2J", status="302 x"),
    },
    (streamed_request.ERROR_TIMEOUT, "no end within"): {
        "a stall": [Write(HEADERS + event("a", tokens=1)), Sleep(9)],
        "silence": [Sleep(9)],
        "a stall in the headers": [Write(b"HTTP/1.1 200 OK\r\nA: "), Sleep(9)],
    },
    (500, "oom"): {
        "500 that never ends": [
            Write(headed("Content-Length: 99", status="500 No", body=b"oom")),
            Sleep(9),
        ],
        "500 without end": Forever(headed(status="500 No"), b"oom " * 5_000),
    },
    (BAD, "more 1,512 events than 64"): {
        "events without end": Forever(HEADERS, event("", tokens=1) * 50)
    },
    (BAD, "events than 64 tokens can have"): {
        "tokens without end": Forever(HEADERS, event("x") * 50),
        "events in one piece of 4 MB": HEADERS + data({}) * 400_000,
    },
    (BAD, "more than 1,310,720 bytes"): {
        "comments without end": Forever(HEADERS, b": keep-alive\n\n" * 500),
        "empty events without end": Forever(HEADERS, b"\n\n" * 5_000),
        "carriage returns without end": Forever(HEADERS, b"\r" * 9_999),
        "[DONE] without end": Forever(HEADERS, DONE * 500),
        "chunk extensions without end": Forever(headed(SSE, CHUNKED, body=b"5;"), b"a=b;" * 999),
        "trailers without end": Forever(headed(SSE, CHUNKED, body=b"0\r\n"), b"A: b\r\n" * 999),
        "chunks of one byte without end": Forever(headed(SSE, CHUNKED), b"1\r\n:\r\n" * 999),
    },
    (BAD, "an event of more than"): {
        "an event without end": Forever(HEADERS, b"data: " + b"x" * 9_000),
        "an event in small pieces without end": Forever(HEADERS, b"x" * 100),
    },
    (BROKEN, "headers of more than"): {
        "headers without end": Forever(OK.encode(), b"A: b\r\n" * 500),
        "a header without end": Forever(OK.encode() + b"A: ", b"b" * 9_999),
        "a status line without end": Forever(b"HTTP/1.1 200 ", b"O" * 9_999),
        "100 Continue without end": Forever(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 99),
    },
    (BROKEN, "after the head"): {
        "fewer bytes than announced": headed(SSE, "Content-Length: 999", body=FINE)
    },
    (BROKEN, "before any response"): {
        "nothing": b"",
        "only 100 Continue": b"HTTP/1.1 100 Continue\r\n\r\n",
    },
    (BROKEN, "another protocol"): {
        "another protocol, by HTTP": headed(
            "Upgrade: x", "Connection: upgrade", status="101 x", body=b"x"
        )
    },
    (0, "HTTP 0"): {"status 000": whole("000 x")},
    (999, "HTTP 999"): {"status 999": whole("999 x")},
    (204, "HTTP 204"): {"204": whole("204 No Content")},
    (304, "HTTP 304"): {"304": whole("304 Not Modified")},
    (400, "max_tokens"): {"400": whole("400 Bad Request", b'{"error": "max_tokens"}')},
    (500, "HTTP 500"): {
        "500 without a body": whole("500 No"),
        "500 in gzip": headed("Content-Encoding: gzip", status="500 x", body=COMPRESSED),
    },
    (500, r"\x1b]0;title\x07"): {
        "500 with escapes": whole("500 No", b"\x1b]0;title\x07\r\n\xff\x00")
    },
    (500, "data:"): {"500 with a stream as body": whole("500 No", FINE)},
    (503, "busy (Retry-After: 7)"): {
        "503 with Retry-After": headed("Retry-After: 7", status="503 x", body=b"busy")
    },
    (
        429,
        "too many requests: the server limits their rate (Retry-After: 30); next: a smaller load",
    ): {"429 with seconds": headed("Retry-After: 30", status="429 x", body=b"slow")},
    (429, "(Retry-After: Fri, 31 Dec"): {
        "429 with a date": headed("Retry-After: Fri, 31 Dec 1999 23:59:59 GMT", status="429 x")
    },
    (429, "999 ...)"): {
        "429 with a long date": headed("Retry-After: " + "9" * 9_999, status="429 x")
    },
    (429, "too many requests"): {"429 alone": whole("429 Too Many Requests")},
    (
        308,
        "a redirect to https://other.example/v1, which is not followed; next: give the address",
    ): {"a redirect": headed("Location: https://other.example/v1", status="308 x")},
    (301, "/a/a ..., which"): {
        "a redirect of 9,999 characters": headed("Location: " + "/a" * 5_000, status="301 x")
    },
    (307, "HTTP 307"): {"a redirect to nowhere": whole("307 Temporary Redirect")},
    (BAD, 'before it, ignores "stream": true; it says: {"choices": []}'): {
        "one JSON answer": whole("200 OK", b'{"choices": []}', "application/json")
    },
    (BAD, "one JSON answer"): {
        "JSON without end": Forever(headed("Content-Type: application/json"), b"[" * 9_999)
    },
    (
        BAD,
        "the answer is text/html; charset=x, not text/event-stream; next: check that the base URL",
    ): {"a web page": whole("200 OK", b"<html>\nlogin", "text/html; charset=x")},
    (BAD, "is compressed (gzip), which was not asked for"): {
        "gzip": headed(SSE, "Content-Encoding: gzip", body=COMPRESSED),
        "gzip without end": Forever(headed(SSE, "Content-Encoding: gzip"), COMPRESSED * 99),
    },
}
STREAMS: Sequence[tuple[str, Answer, int | None, str]] = [
    (name, answer, *outcome)
    for outcome, answers in STREAM_OUTCOMES.items()
    for name, answer in answers.items()
]

# By the message that is expected: the answers to /health, by name. Answers that are no valid HTTP
# are the same at every address, and are in STREAM_OUTCOMES only.
HEALTH_OUTCOMES: dict[str, dict[str, Answer]] = {
    READY: {
        "ready": whole("200 OK"),
        "ready with 60,000 bytes": whole("200 OK", b"x" * 60_000),
        "no such address": whole("404 Not Found"),
        "bytes that are no text": whole("200 OK", bytes(range(256))),
    },
    "an answer of more than 65,536 bytes": {
        "ready without end": Forever(headed(), b"x" * 9_999),
        "ready with 70,000 bytes": whole("200 OK", b"x" * 70_000),
        "loading without end": Forever(headed(status="503 x"), b"x" * 9_999),
    },
    "HTTP 503": {"loading": whole("503 Loading", b"x")},
    "too many requests": {"busy": headed("Retry-After: 3", status="429 x")},
    "a redirect to /other": {"a redirect": headed("Location: /other", status="302 x")},
    "the server closed the connection after": {
        "half of the body": headed("Content-Length: 9", body=b"x")
    },
    "closed the connection": {"a reset": [Reset()]},
}
HEALTHS: Sequence[tuple[str, Answer, str]] = [
    (name, answer, words)
    for words, answers in HEALTH_OUTCOMES.items()
    for name, answer in answers.items()
]

DRAFTS = "vllm:spec_decode_num_drafts_total"
AT = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
COMPILED = "vllm_neuron:compilation_time_seconds"
GOOD = f'# HELP {DRAFTS} x\n# TYPE {DRAFTS} counter\n{DRAFTS}{{engine="0"}} 10.0\n'


def metrics(text: str) -> bytes:
    return whole("200 OK", text.encode())


# Answers to /metrics without any usable value, by name.
NOT_READ: dict[str, Answer] = {
    **{
        f"the value {value[:12]!r}": metrics(f"{GOOD}{DRAFTS} {value}\n")
        for value in (
            "NaN",
            "+Inf",
            "-Inf",
            "-1",
            "ten",
            "1_000",
            "٣",
            "1e999",
            "9" * 400,
            "",
            "1 2 3",
        )
    },
    "no space before the value": metrics(f'{DRAFTS}{{a="b"}}3\n'),
    "labels that do not end": metrics(f'{DRAFTS}{{a="b 3\n'),
    "position 64": metrics(f'{AT}{{position="64"}} 4\n'),
    "position 10^12": metrics(f'{AT}{{position="1000000000000"}} 4\n'),
    "a position of 5,000 digits": metrics(f'{AT}{{position="{"9" * 5_000}"}} 4\n'),
    "a position that is no number": metrics(f'{AT}{{position="x"}} 4\n'),
    "a position below 0": metrics(f'{AT}{{position="-1"}} 4\n'),
    "no position": metrics(f"{AT} 4\n"),
    "a graph that cannot be read": metrics(f"{COMPILED} 60\n{COMPILED} NaN\n"),
    "other metrics only": metrics("python_gc 1\nvllm:other 2\n"),
    "a web page": whole("200 OK", b"<html>", "text/html"),
    "binary": whole("200 OK", bytes(range(256)) * 99),
    "404": whole("404 Not Found"),
    "500 without end": Forever(headed(status="500 x"), b"x" * 65_536),
    "line ends without end": Forever(headed(), b"\n" * 65_536),
    "counts without end": Forever(headed(), GOOD.encode() * 500),
    "4 MB of line ends": whole("200 OK", b"\n" * 4_000_000),
    "one line of 4 MB": whole("200 OK", DRAFTS.encode() + b" {}" * 1_000_000),
    "a line of spaces": whole("200 OK", DRAFTS.encode() + b" " * 4_000_000 + b"x"),
    "a line of braces": whole("200 OK", DRAFTS.encode() + b"{" + b"} 1 " * 900_000 + b"x"),
    "a reset": [Write(headed()), Reset()],
}
# Rows: a name, an answer to /metrics, and the values that are read from it.
METRICS: Sequence[tuple[str, Answer, Mapping[str, float]]] = [
    ("a count", metrics(GOOD), {DRAFTS: 10.0}),
    ("a time stamp", metrics(f"{DRAFTS} 10 1795168800000\n"), {DRAFTS: 10.0}),
    ("two engines", metrics(GOOD + f'{DRAFTS}{{engine="1"}} 5\n'), {DRAFTS: 15.0}),
    ("labels with spaces and braces", metrics(f'{DRAFTS}{{a="b c}} d{{"}} 3\n'), {DRAFTS: 3.0}),
    ("a tab before the value", metrics(f'{DRAFTS}{{a="b"}}\t3\n'), {DRAFTS: 3.0}),
    ("a position", metrics(f'{AT}{{position="2"}} 4\n'), {f"{AT} 2": 4.0}),
    (
        "the compilation of two graphs",
        metrics(f'{COMPILED}{{bucket_name="a"}} 60\n{COMPILED}{{bucket_name="b"}} 30.5\n'),
        {COMPILED: 90.5, f"{COMPILED} lines": 2.0},
    ),
    ("4 MB of counts", whole("200 OK", f"{DRAFTS} 1\n".encode() * 100_000), {DRAFTS: 1e5}),
    *((name, answer, {}) for name, answer in NOT_READ.items()),
]
