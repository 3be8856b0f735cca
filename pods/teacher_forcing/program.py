"""The program: reads outputs, appends readings, goes on where an earlier pass was interrupted.

It runs in the engine's environment (torch, transformers), on CPU, and needs no network: models and
tokenizer are folders.

Standard output gets one line: the file with the readings.

Exit codes: 0 everything is read, 1 it failed, 2 the input is wrong.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from draftworth.errors import DraftworthError, UserInputError
from draftworth.records.codec import RecordError, dump_record, load_record
from draftworth.records.readings import Output, Pass, Reading
from draftworth.untrusted import open_file
from pods.teacher_forcing.models import (
    ending_ids,
    load_model,
    load_tokenizer,
    model_sha256,
    tokenizer_sha256,
)
from pods.teacher_forcing.reading import read_outputs, tokens_of

Say = Callable[[str], None]


def main(argv: Sequence[str]) -> int:
    """Read once."""
    arguments = _parser().parse_args(argv)
    try:
        readings = _run(arguments, _say)
    except DraftworthError as error:
        _say(str(error))
        return error.exit_code
    print(readings, flush=True)  # noqa: T201
    return 0


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m pods.teacher_forcing", description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="folder of the model that reads")
    parser.add_argument("--target", type=Path, required=True, help="folder of the outputs' model")
    parser.add_argument("--outputs", type=Path, required=True, help="outputs, JSON Lines")
    parser.add_argument(
        "--readings", type=Path, required=True, help="folder of the files with readings, one a pass"
    )
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--enable-thinking", action="store_true")
    parser.add_argument(
        "--fixed-length",
        action="store_true",
        help="the server could not end an output, so that the ids which do were never drawn",
    )
    return parser


def _run(arguments: argparse.Namespace, say: Say) -> Path:
    """Read what is left; the file with all readings."""
    data = _bytes_of(arguments.outputs)
    outputs = [_output(line, arguments.outputs) for line in data.splitlines() if line.strip()]
    this = Pass(
        model=arguments.model.name,
        model_sha256=model_sha256(arguments.model),
        tokenizer_sha256=tokenizer_sha256(arguments.target),
        outputs_sha256=hashlib.sha256(data).hexdigest(),
        temperature=arguments.temperature,
        options={
            "enable_thinking": arguments.enable_thinking,
            "fixed_length": arguments.fixed_length,
        },
    )
    path: Path = arguments.readings / this.file_name
    done = read_readings(path, this)
    left = [output for output in outputs if output.id not in done]
    if not left:
        say(f"{this.model}: {len(outputs)} output{'s' * (len(outputs) != 1)}: read already")
        return path
    tokenizer = load_tokenizer(arguments.target, arguments.model)
    model = load_model(arguments.model, tokenizer)
    tokens = [
        tokens_of(output, tokenizer, enable_thinking=arguments.enable_thinking) for output in left
    ]
    total = sum(len(t.output_ids) for t in tokens)
    started_seconds, count = time.monotonic(), 0
    with path.open("ab") as file:
        if not done and not file.tell():
            file.write(dump_record(this))
        forbidden = ending_ids(model) if arguments.fixed_length else ()
        for readings in read_outputs(
            model, tokens, temperature=arguments.temperature, forbidden=forbidden
        ):
            file.write(b"".join(map(dump_record, readings)))
            file.flush()
            count += sum(len(r.hits) + 1 for r in readings)
            left_seconds = (time.monotonic() - started_seconds) * (total - count) / count
            more = f" of {total:,}, about {left_seconds:.0f} s left" if count < total else ""
            say(f"{this.model}: {count:,} token{'s' * (count != 1)} read{more}")
    return path


def read_readings(path: Path, of: Pass) -> dict[str, Reading]:
    """What an earlier pass wrote; a last line that was cut off is read again.

    Raises:
        UserInputError: the file was changed.
    """
    if not path.exists():
        return {}
    data, first = _bytes_of(path), dump_record(of)
    if len(data) < len(first) and first.startswith(data):
        path.write_bytes(b"")  # interrupted within its first line
        return {}
    if not data.startswith(first):
        raise UserInputError(f"{path}: its first line is of another pass; next: remove it")
    lines = data.splitlines(keepends=True)
    whole = [line for line in lines[1:] if line.endswith(b"\n")]
    try:
        readings = [load_record(Reading, line) for line in whole]
    except RecordError as error:
        raise UserInputError(f"{path}: not a file of readings: {error}; next: remove it") from error
    if len(whole) < len(lines) - 1:
        path.write_bytes(b"".join([lines[0], *whole]))
    return {reading.id: reading for reading in readings}


def _output(line: bytes, path: Path) -> Output:
    try:
        return load_record(Output, line)
    except RecordError as error:
        raise UserInputError(f"{path}: not a file of outputs: {error}") from error


def _bytes_of(path: Path) -> bytes:
    try:
        with open_file(path) as file:
            return file.read()
    except OSError as error:
        raise UserInputError(f"{path}: cannot be read: {error.strerror}") from error
