"""Any log of requests is imported as prompt files, or refused without quoting its text."""

import base64
import contextlib
import gzip
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from draftworth.cli import main
from draftworth.cli.measure import find_cases
from draftworth.errors import DraftworthError
from draftworth.importing.log_formats import FORMATS
from draftworth.records.prompt_files import answers_path, load_answers, load_case
from tests.hostile.fuzzing import VALUES, bounded, tries

MIB = 2**20
CANARY = "nobody may read this"


def run(data: bytes, form: str, *, name: str = "log.jsonl") -> tuple[int, str]:
    """Import a log with these bytes, read the written files again; return exit code and output."""
    folder = Path(tempfile.mkdtemp())
    try:
        (folder / name).write_bytes(data)
        out = folder / "out"
        printed = io.StringIO()
        arguments = [str(folder / name), "--format", form, "--out", str(out)]
        with bounded(), contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            code = main(["prompts", "import", *arguments, "--class", "mine"])
        for path in out.glob("mine/*.jsonl"):
            case = load_case(path, prompt_class="mine")
            if answers_path(path).exists():
                load_answers(answers_path(path), [prompt.id for prompt in case.prompts])
        return code, printed.getvalue()
    finally:
        shutil.rmtree(folder)


def ask(content: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": content}]}


def capture(data: Any, encoding: Any = "JSON") -> dict[str, Any]:
    return {"captureData": {"endpointInput": {"data": data, "encoding": encoding}}}


def deep(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"in": value}
    return value


def nested_values(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {"stringValue": "x"}
    for _ in range(levels):
        value = {"arrayValue": {"values": [value]}}
    return value


TOOL = {"type": "function", "function": {"name": "f", "parameters": deep(60)}}
GOOD = json.dumps(ask("x")).encode()
# Logs that once caused a failure: their format, their bytes, and words of the message.
PAST_FAILURES: dict[str, tuple[str, bytes, str]] = {
    "a line without an end": ("openai-jsonl", b'{"a": "' + b"x" * (40 * MIB), "longer than 16 MiB"),
    "a huge line among others": (
        "openai-jsonl",
        GOOD + b"\n" + b"x" * (20 * MIB) + b"\n" + GOOD.replace(b"x", b"y"),
        "1 left out: 1 longer than 16 MiB (line 2)",
    ),
    "an element without an end": (
        "sharegpt",
        b'[{"a": "' + b"x" * (40 * MIB),
        "element 1: the arr",
    ),
    "depth in a line": ("openai-jsonl", b"[" * 10 + b"{" * 100_000, "cannot be read further"),
    "depth in an object": ("openai-jsonl", b'{"a":' * 100_000, "1 not a JSON object (line 1)"),
    "depth in an array": ("sharegpt", b'[{"a":' * 100_000, "element 1: the array cannot be"),
    "depth that can be read and not written": (
        "openai-jsonl",
        json.dumps({**ask("x"), "tools": [TOOL]}).encode(),
        "1 nested too deep (line 1)",
    ),
    "NUL bytes": ("openai-jsonl", b"\0" * 1_000 + b"\n" + GOOD, "1 not a JSON object (line 1)"),
    "NUL in a prompt": ("openai-jsonl", json.dumps(ask("\0")).encode(), "with the character NUL"),
    "UTF-16": ("openai-jsonl", GOOD.decode().encode("utf-16"), "UTF-16; next: `iconv"),
    "Latin-1": ("openai-jsonl", '{"a": "é"}'.encode("latin-1"), "1 not a JSON object (line 1)"),
    "half of a surrogate pair": ("openai-jsonl", b'{"prompt": "\\ud800"}', "1 not a JSON object"),
    "a bomb": ("openai-jsonl", gzip.compress(b"\0" * MIB, mtime=0) * 50, "gunzip --keep"),
    "numbers that are none": ("openai-jsonl", b'{"messages": NaN}', "1 not a JSON object"),
    "an endless number": ("sharegpt", b"[" + b"9" * (2 * MIB) + b"]", "element 1: the array"),
    "Base64 of depth": (
        "sagemaker",
        json.dumps(capture(base64.b64encode(b"[" * 100_000).decode(), "BASE64")).encode(),
        "1 with data that is not JSON (line 1)",
    ),
    "an encoding that is no text": (
        "sagemaker",
        json.dumps(capture("{}", ["JSON"])).encode(),
        "1 with data that is not JSON (line 1)",
    ),
    "an endless category": (
        "speed-bench",
        json.dumps({"category": "../" * 100_000 + "É", "turns": ["x"]}).encode(),
        "mine/case.jsonl: 1 prompt,",
    ),
    "no bytes": ("openai-jsonl", b"", "no prompt in 0 records"),
    "depth in a tool's arguments": (
        "anthropic",
        json.dumps(
            {
                "messages": [
                    {
                        "role": "assistant",
                        "content": [{"type": "tool_use", "name": "f", "input": deep(900)}],
                    },
                    {"role": "user", "content": "x"},
                ]
            }
        ).encode(),
        "mine/log.jsonl: 1 prompt,",
    ),
    "depth in OTLP": (
        "opentelemetry",
        json.dumps({"attributes": [{"key": "a", "value": nested_values(200)}]}).encode(),
        "1 nested too deep (line 1)",
    ),
    "an endless number of tool calls": (
        "openai-responses",
        json.dumps({"input": [{"type": "function_call", "name": "f"}] * 100_000}).encode(),
        "1 without a question (line 1)",
    ),
    "an endless list of events": (
        "opentelemetry",
        json.dumps(
            {"events": [{"name": "gen_ai.user.message", "attributes": {"a": 1}}] * 100_000}
        ).encode(),
        "1 of spans without messages",
    ),
    "a time and limits out of any range": (
        "langsmith",
        json.dumps(
            {
                "inputs": {"messages": ["x"]},
                "start_time": 10**300,
                "extra": {"invocation_params": {"max_tokens": "9" * 5_000}},
            }
        ).encode(),
        "1 with a max_tokens that is not",
    ),
    "an object of several lines that is cut off": (
        "langfuse",
        b'{\n "data": [\n  {"traceId": ',
        "object 1: cannot be read further",
    ),
}


@pytest.mark.parametrize(("form", "data", "words"), PAST_FAILURES.values(), ids=PAST_FAILURES)
def test_past_failures_stay_repaired(form: str, data: bytes, words: str) -> None:
    code, printed = run(data, form)
    assert words in printed
    assert code in (0, 2)
    assert len(printed) < 2_000


# Tables that no reader of CSV likes: their bytes, and words of the message.
TABLES: dict[str, tuple[bytes, str]] = {
    "a quotation mark that is not closed": (b'prompt\n"x', "line 2: the table cannot be read"),
    "a row without an end": (b"prompt\n" + b"x" * (20 * MIB), "a row of more than 16 MiB"),
    "cells without an end": (b"prompt\n" + b'"x\n",' * (4 * MIB), "a row of more than 16 MiB"),
    "a mark after a closed one": (b'prompt\n"x"y', "line 2: the table cannot be read further"),
    "more cells than columns": (b"prompt\nx,y\n", "1 with more cells than the first row has"),
    "a column twice": (b"prompt,prompt\nx,y\n", "given 2 columns with 1 names"),
    "NUL": (b"prompt\nx\0y\n", "1 with the character NUL (line 2)"),
    "Latin-1": ("prompt\né\n".encode("latin-1"), "not UTF-8; next: `iconv -f windows-1252"),
    "UTF-16": ("prompt\né\n".encode("utf-16"), "UTF-16; next: `iconv"),
    "gzip": (gzip.compress(b"prompt\nx\n", mtime=0), "gunzip --keep"),
    "no bytes": (b"", "no prompt in 0 records"),
    "a first row alone": (b"prompt,output\n", "no prompt in 0 records"),
}


@pytest.mark.parametrize(("data", "words"), TABLES.values(), ids=TABLES)
def test_a_broken_table_is_refused(data: bytes, words: str) -> None:
    code, printed = run(data, "csv", name="log.csv")
    assert words in printed
    assert code == 2
    assert len(printed) < 2_000


@tries(5_000)
@given(
    data=st.text(alphabet='ab,;"\n\r\0 é', max_size=60), start=st.sampled_from(["", "prompt,b\n"])
)
def test_any_table_is_prompts_or_counted(data: str, start: str) -> None:
    assert run((start + data).encode(), "csv", name="log.csv")[0] in (0, 2)


def deep_folder(folder: Path) -> Path:
    """Put a log below more folders than Python can recurse into; return the outermost one."""
    log = folder / "log"
    log.mkdir()
    with contextlib.chdir(log):
        for _ in range(1_200):
            os.mkdir("a")
            os.chdir("a")
        Path("x.jsonl").write_bytes(GOOD)
    return log


def looped_link(folder: Path) -> Path:
    log = folder / "log.jsonl"
    log.symlink_to(log)
    return log


@pytest.fixture
def _usual_recursion_limit() -> Iterator[None]:
    """Undo what an imported library has raised the limit to."""
    raised = sys.getrecursionlimit()
    sys.setrecursionlimit(1_000)
    yield
    sys.setrecursionlimit(raised)


@pytest.mark.usefixtures("_usual_recursion_limit")
@pytest.mark.parametrize(
    ("make", "words"),
    [(deep_folder, "more folders in one another"), (looped_link, "Too many levels of symbolic")],
)
def test_a_place_of_any_kind_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], make: Callable[[Path], Path], words: str
) -> None:
    log, out = make(tmp_path), tmp_path / "out"
    options = ("--format", "openai-jsonl", "--out", str(out), "--class", "mine")
    try:
        assert main(["prompts", "import", str(log), *options]) == 2
    finally:  # Python's functions cannot remove such a folder
        subprocess.run(["rm", "-r", str(log)], check=True)
    message = capsys.readouterr().err
    assert message.startswith(f"draftworth: {log}: ")
    assert words in message
    assert len(message.splitlines()) == 1


def test_a_looped_link_among_prompt_files_is_named(tmp_path: Path) -> None:
    link = tmp_path / "a.jsonl"
    link.symlink_to(link)
    with pytest.raises(DraftworthError, match=r"a\.jsonl: cannot be read as .* Too many levels"):
        find_cases(tmp_path)


KEYS = st.sampled_from(
    [
        *("messages", "prompt", "inputs", "body", "request", "response", "role", "content"),
        *("tool_calls", "function", "choices", "message", "text", "type", "max_tokens", "category"),
        *("captureData", "endpointInput", "endpointOutput", "data", "encoding", "parameters"),
        *("conversations", "from", "value", "turns", "tool_choice", "response_format", "tools"),
        *("input", "output", "instructions", "params", "result", "system", "tool_use", "id"),
        *("resourceSpans", "scopeSpans", "spans", "attributes", "key", "events", "body"),
        *("resourceLogs", "scopeLogs", "logRecords", "traceId", "spanId", "eventName"),
        *("gen_ai.input.messages", "gen_ai.prompt.0.content", "gen_ai.request.model"),
        *("stringValue", "kvlistValue", "arrayValue", "values", "parts", "modality", "kwargs"),
        *("inputs", "outputs", "extra", "invocation_params", "generations", "start_time"),
        *("instruction", "trace_id", "model", "created", "arguments", "timestamp"),
    ]
)
WORDS = st.sampled_from(
    [
        *("user", "assistant", "system", "tool", "human", "gpt", "JSON", "BASE64", "constructor"),
        *("tool_use", "tool_result", "thinking", "text", "image", "reasoning", "function_call"),
        *(
            "gen_ai.user.message",
            "gen_ai.choice",
            "gen_ai.content.prompt",
            "chat",
            "[[]]",
            "9" * 30,
        ),
    ]
)
LOGS = st.recursive(
    st.one_of(VALUES, WORDS, st.just(CANARY)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=5)),
    max_leaves=20,
)


@tries(5_000)
@given(form=st.sampled_from([*FORMATS]), records=st.lists(LOGS, max_size=4), array=st.booleans())
@example(
    form="sharegpt", records=[{"conversations": [{"from": ["human"], "value": CANARY}]}], array=True
)
def test_any_records_are_prompts_or_counted(form: str, records: list[Any], array: bool) -> None:
    lines = [json.dumps(record) for record in records]
    data = f"[{','.join(lines)}]" if array else "\n".join(lines)
    code, printed = run(data.encode(), form)
    assert code in (0, 2)
    assert CANARY not in printed


@tries(5_000)
@given(
    form=st.sampled_from([*FORMATS]),
    data=st.binary(max_size=200),
    start=st.sampled_from([b"", b"[", b'[{"', GOOD + b"\n"]),
)
def test_any_bytes_are_prompts_or_counted(form: str, data: bytes, start: bytes) -> None:
    assert run(start + data, form)[0] in (0, 2)
