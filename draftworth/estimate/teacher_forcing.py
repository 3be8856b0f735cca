"""The program that runs a model over outputs (teacher forcing) on the CPU, and writes its readings.

A reading says how likely an output's tokens are under the model, and which of them the model would
have chosen. `run_teacher_forcing.py` starts this program in the engine's interpreter, which has
torch and transformers. It needs no network, because models and tokenizer are folders. Its standard
input has a line with the settings and a line for each output (JSON). It appends readings to a file,
and continues where an earlier pass was interrupted. It prints one line: the path of this file.

Exit codes: 0 every output has a reading, 1 the program failed, 2 the input is wrong.
"""

import hashlib
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from draftworth.errors import DraftworthError, UserInputError, counted
from draftworth.estimate.process_limits import limited
from draftworth.records.codec import RecordError, dump_record, load_record
from draftworth.records.readings import Output, Pass, PassSettings, Reading, TokenLimits
from draftworth.safe_writing import write_file
from draftworth.untrusted import open_file

_TOKENIZER_FILES = (
    *("tokenizer.json", "tokenizer.model", "vocab.json", "merges.txt"),
    *("added_tokens.json", "special_tokens_map.json", "tokenizer_config.json"),
    *("chat_template.jinja", "chat_template.json"),
)


def main(data: bytes) -> int:
    """Compute the readings, print the path of their file, and return the exit code.

    data: the lines of the program's input.
    """
    try:
        readings = _run(data)
    except DraftworthError as error:
        _say(str(error))
        return error.exit_code
    print(readings, flush=True)  # noqa: T201
    return 0


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201


def _run(data: bytes) -> Path:
    first, _, lines = data.partition(b"\n")
    try:
        settings = load_record(PassSettings, first)
        outputs = [load_record(Output, line) for line in lines.splitlines()]
    except RecordError as error:
        raise UserInputError(f"not settings of a pass and outputs: {error}") from error
    model, target = Path(settings.model), Path(settings.target)
    tokenizer = (target / name for name in _TOKENIZER_FILES)
    this = Pass(
        model=model.name,
        model_sha256=_sha256([model / "config.json", *sorted(model.glob("*.safetensors"))]),
        tokenizer_sha256=_sha256(path for path in tokenizer if path.is_file()),
        outputs_sha256=hashlib.sha256(lines).hexdigest(),
        temperature=settings.temperature,
        options={
            "enable_thinking": settings.enable_thinking,
            "fixed_length": settings.fixed_length,
            "float32": settings.precision == "float32",
        },
    )
    path = Path(settings.folder) / this.file_name
    earlier = _earlier_lines(path, this)
    done = {reading.id for reading in _readings(path, earlier[1:])}
    left = [output for output in outputs if output.id not in done]
    # Before new readings are appended, the file is replaced by one with the earlier complete lines:
    # its path may be a symbolic link, and an interrupted pass may have left half a line at its end.
    write_file(path, b"".join(earlier), private=True)
    if left:
        _read(left, settings, this, path)
    else:
        _say(f"{this.model}: {counted(len(outputs), 'output')}: read already")
    return path


def _read(outputs: Sequence[Output], settings: PassSettings, this: Pass, path: Path) -> None:
    # Imported here, because torch takes seconds to load.
    from draftworth.estimate import forward_pass

    target, model_folder = Path(settings.target), Path(settings.model)
    tokenizer = forward_pass.load_tokenizer(target, model_folder)
    with limited(target, TokenLimits()):
        tokens = [
            forward_pass.tokens_of(output, tokenizer, enable_thinking=settings.enable_thinking)
            for output in outputs
        ]
    model = forward_pass.load_model(model_folder, tokenizer, settings.precision)
    forward_pass.check_ids(tokens, model.config.vocab_size)
    forbidden = forward_pass.ending_ids(model) if settings.fixed_length else ()
    total = sum(len(t.output_ids) for t in tokens)
    started_seconds, count = time.monotonic(), 0
    with path.open("ab") as file:
        for readings in forward_pass.read_outputs(
            model, tokens, temperature=settings.temperature, forbidden=forbidden
        ):
            file.write(b"".join(map(dump_record, readings)))
            file.flush()
            count += sum(len(r.hits) + 1 for r in readings)
            left_seconds = (time.monotonic() - started_seconds) * (total - count) / count
            more = f" of {total:,}, about {left_seconds:.0f} s left" if count < total else ""
            _say(f"{this.model}: {counted(count, 'token')} read{more}")


def _earlier_lines(path: Path, of: Pass) -> list[bytes]:
    """Return the complete lines of the file of readings that an earlier pass left at `path`.

    The first line describes the pass (its model, outputs and settings). If there is no file, the
    result is only this line, made from `of`. of: the pass that runs now. UserInputError: the file
    cannot be read, or its first line describes another pass than `of`.
    """
    if not path.exists():
        return [dump_record(of)]
    try:
        with open_file(path) as file:
            lines = [line for line in file.readlines() if line.endswith(b"\n")]
    except OSError as error:
        raise UserInputError(f"{path}: cannot be read: {error.strerror}") from error
    if lines and lines[0] != dump_record(of):
        raise UserInputError(f"{path}: its first line is of another pass; next: remove it")
    return lines or [dump_record(of)]


def _readings(path: Path, lines: Iterable[bytes]) -> list[Reading]:
    try:
        return [load_record(Reading, line) for line in lines]
    except RecordError as error:
        raise UserInputError(f"{path}: not a file of readings: {error}; next: remove it") from error


def _sha256(files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in files:
        try:
            with open_file(path) as file:
                digest.update(f"{path.name} ".encode())
                digest.update(hashlib.file_digest(file, "sha256").digest())
        except OSError as error:
            raise UserInputError(
                f"{path}: cannot be read: {error.strerror}; allowed: a folder with config.json and "
                "weights as *.safetensors"
            ) from error
    return digest.hexdigest()


if __name__ == "__main__":
    try:
        sys.exit(main(sys.stdin.buffer.read()))
    except KeyboardInterrupt:
        sys.exit(1)  # no message: the process that started this one reports the interruption
