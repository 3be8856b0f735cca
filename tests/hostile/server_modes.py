"""What a server may answer: a row is a name, an answer, and what is expected of it.

An answer is raw bytes; `forever` writes its last piece until the client goes away. To add a row:
write down what the server sent, run the tests, and read what they say it became.
"""

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from draftworth.measuring.client import (
    ERROR_BAD_STREAM,
    ERROR_BROKEN_STREAM,
    ERROR_NO_TOKENS,
    ERROR_TIMEOUT,
)
from draftworth.measuring.servers import READY
from tests.support.stream_server import (
    DONE,
    HEADERS,
    Reset,
    Sleep,
    Step,
    Write,
    event,
    plain,
    usage_event,
)

# What the requests of these tests ask for.
OUTPUT_TOKENS = 64
OK = "HTTP/1.1 200 OK\r\n"


@dataclass(frozen=True)
class Forever:
    """Bytes, then the same bytes again and again."""

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
    """Whether only the client's own limit of time ends it."""
    return isinstance(answer, list) and any(isinstance(step, Sleep) for step in answer)


def data(value: object) -> bytes:
    """An event with any JSON, text as it is."""
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return b"data: " + text + b"\n\n"


def chunk(delta: Any = None, *, usage: Any = None, finish: Any = None) -> bytes:
    """A completion chunk with anything in its fields."""
    value = {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "usage": usage}
    return data(value)


def raw_choice(choice: Any) -> bytes:
    """A chunk whose one choice is anything."""
    return data({"choices": [choice]})


def counted(tokens: Any, *, prompt_tokens: Any = 11, text: str = "x") -> bytes:
    """A stream whose one chunk says that it has so many tokens."""
    usage = {"completion_tokens": tokens, "prompt_tokens": prompt_tokens}
    return HEADERS + chunk({"content": text}, usage=usage, finish="stop") + DONE


def said(text: bytes, *, finish: bytes = b'"stop"') -> bytes:
    """A stream whose one chunk has this JSON text as content."""
    value = (
        b'{"choices":[{"delta":{"content":%s},"finish_reason":%s}],"usage":{"completion_tokens":1}}'
    )
    return HEADERS + data(value % (text, finish)) + DONE


def headed(*lines: str, status: str = OK, body: bytes = b"") -> bytes:
    """A response with these header lines."""
    return (status + "".join(f"{line}\r\n" for line in lines) + "\r\n").encode() + body


def whole(status: str, body: bytes = b"", content_type: str = "text/plain") -> bytes:
    """An ordinary response."""
    (step,) = plain(status, body, content_type)
    assert isinstance(step, Write)
    return step.data


FINE = chunk({"content": "x"}, usage={"completion_tokens": 1, "prompt_tokens": 11}, finish="stop")
DEEP = 100_000
BAD, BROKEN = ERROR_BAD_STREAM, ERROR_BROKEN_STREAM
SSE = "Content-Type: text/event-stream"
CHUNKED = "Transfer-Encoding: chunked"
COMPRESSED = gzip.compress(b"data: {}\n\n", mtime=0)


NO_OUTPUT: Sequence[Any] = (-3, 65, 10**18, 2**63, 1.0, 1.5, True, "7", [], {}, None, 10**400)
NO_INPUT: Sequence[Any] = (-1, 10**9, 2**63, 0.5, False, "11", [3])
NAN, DIGITS = b"NaN", b"9" * 5_000
COUNT_OF = b'{"usage":{"completion_tokens":%s}}'


# Name, answer to the completion, expected code (None: a good record), words of its message.
STREAMS: Sequence[tuple[str, Answer, int | None, str]] = [
    *(
        (f"completion_tokens {json.dumps(n)[:20]}", counted(n), BAD, "completion_tokens: given")
        for n in NO_OUTPUT
    ),
    *(
        (f"prompt_tokens {n}", counted(1, prompt_tokens=n), BAD, "prompt_tokens: given")
        for n in NO_INPUT
    ),
    ("prompt_tokens null", counted(1, prompt_tokens=None), None, ""),
    ("completion_tokens NaN", HEADERS + data(COUNT_OF % NAN), BAD, "given nan, allowed: a whole"),
    ("5,000 digits", HEADERS + data(COUNT_OF % DIGITS), BAD, "not JSON in the stream"),
    ("exactly what was asked for", counted(64, text="x" * 64), None, ""),
    ("no tokens", counted(0, text=""), ERROR_NO_TOKENS, "no output token"),
    (
        "counts that go down",
        HEADERS + event("a", tokens=5) + event("b", tokens=2),
        BAD,
        "completion_tokens fell from 5 to 2",
    ),
    (
        "a total below the counts",
        HEADERS + event("a", tokens=5, finish="stop") + usage_event(2) + DONE,
        BAD,
        "completion_tokens fell from 5 to 2",
    ),
    ("half of a surrogate pair", said(rb'"\ud83d"'), None, ""),
    ("the wrong half of one", said(rb'"\ude00 x"'), None, ""),
    ("NUL and escapes in the text", said(rb'"\u0000\u001b[2J\u202e"'), None, ""),
    ("text that is a number", said(b"7"), BAD, "not a completion chunk"),
    ("text that is a list", said(b'["a"]'), BAD, "not a completion chunk"),
    ("text of 100,000 characters", said(b'"' + b"x" * 100_000 + b'"'), BAD, "more text than 64"),
    ("an event of 2 MB", said(b'"' + b"x" * 2_000_000 + b'"'), BAD, "more than 1,000,000 bytes"),
    ("a finish reason that is a number", said(b'"x"', finish=b"7"), None, ""),
    ("a finish reason that is an object", said(b'"x"', finish=b'{"a":[]}'), None, ""),
    ("a finish reason that is a list", said(b'"x"', finish=b"[[]]"), None, ""),
    ("a finish reason of 50,000", said(b'"x"', finish=b'"' + b"y" * 50_000 + b'"'), None, ""),
    ("a finish reason with escapes", said(b'"x"', finish=rb'"\ud800\u001b[2J"'), None, ""),
    ("no JSON", HEADERS + data(b"{nonsense"), BAD, "not JSON in the stream"),
    (
        "bytes that are not UTF-8",
        HEADERS + data(b'{"a":"\xff\xfe"}'),
        BAD,
        "not JSON in the stream",
    ),
    ("a list", HEADERS + data([1]), BAD, "not an object"),
    ("a deep list", HEADERS + data(b"[" * DEEP), BAD, "not JSON"),
    ("deep objects", HEADERS + data(b'{"a":' * DEEP), BAD, "not JSON"),
    ("choices that are a number", HEADERS + data({"choices": 7}), BAD, "not a completion chunk"),
    ("choices that are text", HEADERS + data({"choices": "x"}), BAD, "not a completion chunk"),
    ("choices by name", HEADERS + data({"choices": {"a": 1}}), BAD, "not a completion chunk"),
    ("choices of numbers", HEADERS + data({"choices": [7]}), BAD, "not a completion chunk"),
    ("a delta that is a list", HEADERS + chunk([1]), BAD, "not a completion chunk"),
    ("a text that is a list", HEADERS + raw_choice({"text": [1]}), BAD, "not a completion chunk"),
    ("a text that is a number", HEADERS + raw_choice({"text": 7}), BAD, "not a completion chunk"),
    ("an id below 0", HEADERS + raw_choice({"token_ids": [-1]}), BAD, "token_ids: allowed"),
    ("an id that is text", HEADERS + raw_choice({"token_ids": "ab"}), BAD, "token_ids: allowed"),
    ("an id of 400 digits", HEADERS + raw_choice({"token_ids": [10**400]}), BAD, "token_ids"),
    ("ids that are a number", HEADERS + raw_choice({"token_ids": 7}), BAD, "not a completion"),
    (
        "more ids than tokens",
        HEADERS + raw_choice({"token_ids": [1] * 65}),
        BAD,
        "more token_ids than 64 tokens can have",
    ),
    ("tool calls as text", HEADERS + chunk({"tool_calls": "f"}), BAD, "not a completion chunk"),
    (
        "arguments that are an object",
        HEADERS + chunk({"tool_calls": [{"function": {"arguments": {"a": 1}}}]}),
        BAD,
        "not a completion chunk",
    ),
    ("a delta that is text", HEADERS + chunk("x"), BAD, "not a completion chunk"),
    ("usage that is text", HEADERS + chunk({}, usage="7"), BAD, "not a completion chunk"),
    ("usage that is a list", HEADERS + chunk({}, usage=[7]), BAD, "not a completion chunk"),
    ("usage of something else", HEADERS + chunk({}, usage={"tokens": 1}), BAD, "completion chunk"),
    ("an error in the stream", HEADERS + data({"error": {"message": "oom"}}), BAD, "oom"),
    ("an error that is a list", HEADERS + data({"error": [[1]] * 9}), BAD, "[[1], "),
    (
        "an error that is a deep list",
        HEADERS + data(b'{"error":' + b"[" * 900 + b"]" * 900 + b"}"),
        BAD,
        "",
    ),
    ("an error of 100,000 characters", HEADERS + data({"error": "x" * 100_000}), BAD, "xxx ..."),
    (
        "an error with escapes",
        HEADERS + data({"error": "\x1b[2J\nline\x00"}),
        BAD,
        r"\x1b[2J line\x00",
    ),
    ("an error with half a pair", HEADERS + data(rb'{"error":"\ud800"}'), BAD, r"\ud800"),
    ("only [DONE]", HEADERS + DONE, ERROR_NO_TOKENS, "no output token"),
    ("an empty body", HEADERS, BROKEN, "without a finish reason"),
    ("a stream that breaks off", HEADERS + event("a", tokens=1), BROKEN, "without a finish reason"),
    ("a reset", [Write(HEADERS + event("a", tokens=1)), Reset()], BROKEN, "closed the connection"),
    ("a reset at once", [Reset()], BROKEN, ""),
    ("a stall", [Write(HEADERS + event("a", tokens=1)), Sleep(9)], ERROR_TIMEOUT, "no end within"),
    ("silence", [Sleep(9)], ERROR_TIMEOUT, "no end within"),
    (
        "a stall in the headers",
        [Write(b"HTTP/1.1 200 OK\r\nA: "), Sleep(9)],
        ERROR_TIMEOUT,
        "no end",
    ),
    (
        "500 that never ends",
        [Write(headed("Content-Length: 99", status="HTTP/1.1 500 No\r\n", body=b"oom")), Sleep(9)],
        500,
        "oom",
    ),
    (
        "events without end",
        Forever(HEADERS, event("", tokens=1) * 50),
        BAD,
        "more 1,512 events than 64",
    ),
    (
        "tokens without end",
        Forever(HEADERS, event("x") * 50),
        BAD,
        "events than 64 tokens can have",
    ),
    (
        "comments without end",
        Forever(HEADERS, b": keep-alive\n\n" * 500),
        BAD,
        "more than 1,310,720 bytes",
    ),
    (
        "empty events without end",
        Forever(HEADERS, b"\n\n" * 5_000),
        BAD,
        "more than 1,310,720 bytes",
    ),
    (
        "an event without end",
        Forever(HEADERS, b"data: " + b"x" * 9_000),
        BAD,
        "an event of more than",
    ),
    ("an event in small pieces without end", Forever(HEADERS, b"x" * 100), BAD, "an event of more"),
    (
        "carriage returns without end",
        Forever(HEADERS, b"\r" * 9_999),
        BAD,
        "more than 1,310,720 bytes",
    ),
    ("[DONE] without end", Forever(HEADERS, DONE * 500), BAD, "more than 1,310,720 bytes"),
    ("events in one piece of 4 MB", HEADERS + data({}) * 400_000, BAD, "events than 64 tokens"),
    (
        "headers without end",
        Forever(OK.encode(), b"A: b\r\n" * 500),
        BROKEN,
        "headers of more than",
    ),
    (
        "a header without end",
        Forever(OK.encode() + b"A: ", b"b" * 9_999),
        BROKEN,
        "headers of more",
    ),
    (
        "a status line without end",
        Forever(b"HTTP/1.1 200 ", b"O" * 9_999),
        BROKEN,
        "headers of more",
    ),
    (
        "100 Continue without end",
        Forever(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 99),
        BROKEN,
        "headers of",
    ),
    (
        "chunk extensions without end",
        Forever(headed(SSE, CHUNKED, body=b"5;"), b"a=b;" * 999),
        BAD,
        "more than 1,310,720 bytes",
    ),
    (
        "trailers without end",
        Forever(headed(SSE, CHUNKED, body=b"0\r\n"), b"A: b\r\n" * 999),
        BAD,
        "more than",
    ),
    (
        "chunks of one byte without end",
        Forever(headed(SSE, CHUNKED), b"1\r\n:\r\n" * 999),
        BAD,
        "more than 1,",
    ),
    ("a chunk size of 40 digits", headed(SSE, CHUNKED, body=b"f" * 40 + b"\r\n"), BROKEN, ""),
    ("a negative content length", headed(SSE, "Content-Length: -1", body=FINE), BROKEN, ""),
    ("a content length of 30 digits", headed(SSE, "Content-Length: " + "9" * 30), BROKEN, ""),
    ("two content lengths", headed(SSE, "Content-Length: 1", "Content-Length: 2"), BROKEN, ""),
    (
        "fewer bytes than announced",
        headed(SSE, "Content-Length: 999", body=FINE),
        BROKEN,
        "after the head",
    ),
    ("a length and chunks", headed(SSE, "Content-Length: 1", CHUNKED), BROKEN, ""),
    (
        "a good stream that gives its length",
        headed(SSE, f"Content-Length: {len(FINE)}", body=FINE),
        None,
        "",
    ),
    (
        "a second answer after the first",
        headed(SSE, f"Content-Length: {len(FINE)}", body=FINE + whole("500 No", b"no")),
        None,
        "",
    ),
    ("no content type", headed(body=FINE + DONE), None, ""),
    ("a content type with a character set", headed(SSE + "; charset=utf-8", body=FINE), None, ""),
    ("HTTP/0.9", b"data: {}\n\n", BROKEN, ""),
    ("HTTP/9.9", b"HTTP/9.9 200 OK\r\n\r\n", BROKEN, ""),
    ("another protocol", b"SSH-2.0-OpenSSH\r\n\r\n", BROKEN, ""),
    ("TLS", b"\x15\x03\x01\x00\x02\x02\x46", BROKEN, ""),
    ("NUL", b"\x00" * 99, BROKEN, ""),
    ("nothing", b"", BROKEN, "before any response"),
    ("only 100 Continue", b"HTTP/1.1 100 Continue\r\n\r\n", BROKEN, "before any response"),
    ("100 Continue, then a stream", b"HTTP/1.1 100 Continue\r\n\r\n" + HEADERS + FINE, None, ""),
    (
        "another protocol, by HTTP",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nx",
        BROKEN,
        "another protocol",
    ),
    ("status 000", whole("000 x"), 0, "HTTP 0"),
    ("status 999", whole("999 x"), 999, "HTTP 999"),
    ("a status of five digits", whole("20000 OK"), BROKEN, ""),
    ("204", whole("204 No Content"), 204, "HTTP 204"),
    ("304", whole("304 Not Modified"), 304, "HTTP 304"),
    ("400", whole("400 Bad Request", b'{"error": "max_tokens"}'), 400, "max_tokens"),
    ("500 without a body", whole("500 No"), 500, "HTTP 500"),
    (
        "500 with escapes",
        whole("500 No", b"\x1b]0;title\x07\r\n\xff\x00"),
        500,
        r"\x1b]0;title\x07",
    ),
    ("500 with a stream as body", whole("500 No", FINE), 500, "data:"),
    ("500 without end", Forever(headed(status="HTTP/1.1 500 No\r\n"), b"oom " * 5_000), 500, "oom"),
    (
        "503 with Retry-After",
        headed("Retry-After: 7", status="HTTP/1.1 503 x\r\n", body=b"busy"),
        503,
        "busy (Retry-After: 7)",
    ),
    (
        "429 with seconds",
        headed("Retry-After: 30", status="HTTP/1.1 429 x\r\n", body=b"slow"),
        429,
        "too many requests: the server limits their rate (Retry-After: 30); next: a smaller load",
    ),
    (
        "429 with a date",
        headed("Retry-After: Fri, 31 Dec 1999 23:59:59 GMT", status="HTTP/1.1 429 x\r\n"),
        429,
        "(Retry-After: Fri, 31 Dec",
    ),
    (
        "429 with a long date",
        headed("Retry-After: " + "9" * 9_999, status="HTTP/1.1 429 x\r\n"),
        429,
        "999 ...)",
    ),
    ("429 alone", whole("429 Too Many Requests"), 429, "too many requests"),
    (
        "a redirect",
        headed("Location: https://other.example/v1", status="HTTP/1.1 308 x\r\n"),
        308,
        "a redirect to https://other.example/v1, which is not followed; next: give the address",
    ),
    (
        "a redirect with escapes",
        headed("Location: http://a\x1b[2J", status="HTTP/1.1 302 x\r\n"),
        BROKEN,
        "",
    ),
    (
        "a redirect of 9,999 characters",
        headed("Location: " + "/a" * 5_000, status="HTTP/1.1 301 x\r\n"),
        301,
        "/a/a ..., which",
    ),
    ("a redirect to nowhere", whole("307 Temporary Redirect"), 307, "HTTP 307"),
    (
        "one JSON answer",
        whole("200 OK", b'{"choices": []}', "application/json"),
        BAD,
        'before it, ignores "stream": true; it says: {"choices": []}',
    ),
    (
        "JSON without end",
        Forever(headed("Content-Type: application/json"), b"[" * 9_999),
        BAD,
        "one JSON answer",
    ),
    (
        "a web page",
        whole("200 OK", b"<html>\nlogin", "text/html; charset=x"),
        BAD,
        "the answer is text/html; charset=x, not text/event-stream; next: check that the base URL",
    ),
    (
        "gzip",
        headed(SSE, "Content-Encoding: gzip", body=COMPRESSED),
        BAD,
        "the answer is compressed (gzip), which was not asked for",
    ),
    (
        "gzip without end",
        Forever(headed(SSE, "Content-Encoding: gzip"), COMPRESSED * 99),
        BAD,
        "is compressed",
    ),
    ("identity as encoding", headed(SSE, "Content-Encoding: identity", body=FINE), None, ""),
    (
        "500 in gzip",
        headed("Content-Encoding: gzip", status="HTTP/1.1 500 x\r\n", body=COMPRESSED),
        500,
        "HTTP 500",
    ),
]

# Name, answer to /health, what is said of it.
HEALTHS: Sequence[tuple[str, Answer, str]] = [
    ("ready", whole("200 OK"), READY),
    ("ready without end", Forever(headed(), b"x" * 9_999), "an answer of more than 65,536 bytes"),
    ("ready with 60,000 bytes", whole("200 OK", b"x" * 60_000), READY),
    (
        "ready with 70,000 bytes",
        whole("200 OK", b"x" * 70_000),
        "an answer of more than 65,536 bytes",
    ),
    ("no such address", whole("404 Not Found"), READY),
    ("loading", whole("503 Loading", b"x"), "HTTP 503"),
    (
        "loading without end",
        Forever(headed(status="HTTP/1.1 503 x\r\n"), b"x" * 9_999),
        "an answer of more",
    ),
    ("busy", headed("Retry-After: 3", status="HTTP/1.1 429 x\r\n"), "too many requests"),
    ("a redirect", headed("Location: /other", status="HTTP/1.1 302 x\r\n"), "a redirect to /other"),
    (
        "headers without end",
        Forever(OK.encode(), b"A: b\r\n" * 999),
        "headers of more than 65,536 bytes",
    ),
    (
        "100 Continue without end",
        Forever(b"", b"HTTP/1.1 100 x\r\n\r\n" * 99),
        "headers of more than",
    ),
    ("another protocol", b"SSH-2.0-OpenSSH\r\n\r\n", "Expected HTTP/"),
    ("101", b"HTTP/1.1 101 x\r\nUpgrade: a\r\nConnection: upgrade\r\n\r\n", "another protocol"),
    ("nothing", b"", "the server closed the connection before any response"),
    (
        "half of the headers",
        b"HTTP/1.1 200 OK\r\nA",
        "the server closed the connection before any resp",
    ),
    (
        "half of the body",
        headed("Content-Length: 9", body=b"x"),
        "the server closed the connection after",
    ),
    ("a reset", [Reset()], "closed the connection"),
    ("status 000", whole("000 x"), "HTTP 0"),
    ("bytes that are no text", whole("200 OK", bytes(range(256))), READY),
]

DRAFTS = "vllm:spec_decode_num_drafts_total"
AT = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
COMPILED = "vllm_neuron:compilation_time_seconds"
GOOD = f'# HELP {DRAFTS} x\n# TYPE {DRAFTS} counter\n{DRAFTS}{{engine="0"}} 10.0\n'


def metrics(text: str) -> bytes:
    return whole("200 OK", text.encode())


# Name, answer to /metrics, what is read.
METRICS: Sequence[tuple[str, Answer, Mapping[str, float]]] = [
    ("a count", metrics(GOOD), {DRAFTS: 10.0}),
    ("two engines", metrics(GOOD + f'{DRAFTS}{{engine="1"}} 5\n'), {DRAFTS: 15.0}),
    ("a time stamp", metrics(f"{DRAFTS} 10 1795168800000\n"), {DRAFTS: 10.0}),
    ("labels with spaces and braces", metrics(f'{DRAFTS}{{a="b c}} d{{"}} 3\n'), {DRAFTS: 3.0}),
    ("a tab before the value", metrics(f'{DRAFTS}{{a="b"}}\t3\n'), {DRAFTS: 3.0}),
    *(
        (f"the value {value[:12]!r}", metrics(f"{GOOD}{DRAFTS} {value}\n"), {})
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
    ),
    ("no space before the value", metrics(f'{DRAFTS}{{a="b"}}3\n'), {}),
    ("labels that do not end", metrics(f'{DRAFTS}{{a="b 3\n'), {}),
    ("a position", metrics(f'{AT}{{position="2"}} 4\n'), {f"{AT} 2": 4.0}),
    ("position 64", metrics(f'{AT}{{position="64"}} 4\n'), {}),
    ("position 10^12", metrics(f'{AT}{{position="1000000000000"}} 4\n'), {}),
    ("a position of 5,000 digits", metrics(f'{AT}{{position="{"9" * 5_000}"}} 4\n'), {}),
    ("a position that is no number", metrics(f'{AT}{{position="x"}} 4\n'), {}),
    ("a position below 0", metrics(f'{AT}{{position="-1"}} 4\n'), {}),
    ("no position", metrics(f"{AT} 4\n"), {}),
    (
        "the compilation of two graphs",
        metrics(f'{COMPILED}{{bucket_name="a"}} 60\n{COMPILED}{{bucket_name="b"}} 30.5\n'),
        {COMPILED: 90.5, f"{COMPILED} lines": 2.0},
    ),
    ("a graph that cannot be read", metrics(f"{COMPILED} 60\n{COMPILED} NaN\n"), {}),
    ("other metrics only", metrics("python_gc 1\nvllm:other 2\n"), {}),
    ("a web page", whole("200 OK", b"<html>", "text/html"), {}),
    ("binary", whole("200 OK", bytes(range(256)) * 99), {}),
    ("404", whole("404 Not Found"), {}),
    ("500 without end", Forever(headed(status="HTTP/1.1 500 x\r\n"), b"x" * 65_536), {}),
    ("line ends without end", Forever(headed(), b"\n" * 65_536), {}),
    ("counts without end", Forever(headed(), GOOD.encode() * 500), {}),
    ("4 MB of line ends", whole("200 OK", b"\n" * 4_000_000), {}),
    ("4 MB of counts", whole("200 OK", f"{DRAFTS} 1\n".encode() * 100_000), {DRAFTS: 1e5}),
    ("one line of 4 MB", whole("200 OK", DRAFTS.encode() + b" {}" * 1_000_000), {}),
    ("a line of spaces", whole("200 OK", DRAFTS.encode() + b" " * 4_000_000 + b"x"), {}),
    ("a line of braces", whole("200 OK", DRAFTS.encode() + b"{" + b"} 1 " * 900_000 + b"x"), {}),
    ("headers without end", Forever(OK.encode(), b"A: b\r\n" * 999), {}),
    ("nothing", b"", {}),
    ("a reset", [Write(headed()), Reset()], {}),
]
