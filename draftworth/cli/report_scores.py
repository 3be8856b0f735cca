"""Lets a user's program score the outputs of the baseline and of a variant (`report --score`).

The program reads a line of JSON for each pair of outputs from standard input (`ToScore.line`), and
writes a line `{"baseline": 0.8, "variant": 0.9}` for each pair to standard output, in the same
order. A score can be any number, such as an evaluation's, a likelihood, or 1 for a valid answer.
"""

import json
import os
import shlex
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from selectors import EVENT_READ, DefaultSelector

from draftworth.analysis.scores import ScoreComparison, compare_scores, to_score
from draftworth.child_processes import ending_with_parent
from draftworth.decision.facts import RunFacts
from draftworth.errors import DraftworthError, UserInputError, counted, exit_words
from draftworth.records.codec import RecordError, load_object
from draftworth.records.transcripts import Transcripts
from draftworth.untrusted import one_line

_SCORES = '{"baseline": NUMBER, "variant": NUMBER}'
# Intervals are computed from squares of scores, and squares of larger scores could overflow.
LARGEST_SCORE = 1e100
# The user's program may run for the first number of seconds, enough to load a model, and for the
# second number per pair of outputs, enough to let a model judge the pair.
_SECONDS, _SECONDS_PER_PAIR = 600.0, 60.0
# Room for the two scores of a pair, and for other keys that the program may add.
_BYTES_PER_PAIR = 2**16
_KEPT_BYTES_OF_STDERR = 2**12
# The longest time between two checks whether the program has ended.
_POLL_SECONDS = 0.1


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How long the program may run, and how many bytes it may write to standard output."""

    seconds: float
    output_bytes: int


def limits_of(pairs: int) -> Limits:
    """Return the limits of a program that scores this number of pairs of outputs."""
    return Limits(
        seconds=_SECONDS + _SECONDS_PER_PAIR * pairs, output_bytes=_BYTES_PER_PAIR * pairs
    )


def score(command: str, facts: RunFacts, transcripts: Transcripts) -> tuple[ScoreComparison, ...]:
    """Let the program `command` score all pairs of outputs, and return the compared scores.

    UserInputError: there is no pair, or what the program wrote are not scores of all pairs.
    DraftworthError: the program failed, or exceeded a limit.
    """
    outputs = to_score(facts.run, transcripts)
    if not outputs:
        raise UserInputError(
            "--score: the run has no pair of outputs with transcripts beside its results; copy the "
            "whole folder of a run with a speculative variant"
        )
    lines = "".join(f"{json.dumps(output.line(transcripts))}\n" for output in outputs)
    answer = output_of(command, lines.encode(), limits_of(len(outputs)))
    return tuple(compare_scores(outputs, _scores(answer, len(outputs))))


def output_of(command: str, pairs: bytes, limits: Limits) -> bytes:
    """Return what a command writes to standard output if `pairs` is its standard input.

    UserInputError: `command` is empty, or a shell could not parse it. DraftworthError: the command
    failed, or exceeded a limit.
    """
    # A file and not a pipe, so that the program may read it late, in part, or not at all.
    with tempfile.TemporaryFile() as file:
        file.write(pairs)
        file.seek(0)
        try:
            program = subprocess.Popen(  # noqa: S603 (running what it is given is its purpose)
                _words(command),
                stdin=file,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                preexec_fn=ending_with_parent(),
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise DraftworthError(
                f"--score: {command}: cannot be started: {reason}; allowed: a program on PATH, or "
                "the path of one, with its arguments; next: docs/report.md, Scores"
            ) from error
    with program:
        try:
            output, errors = _written_by(program, limits)
        except _LimitError as error:
            raise DraftworthError(f"--score: {command} was stopped: {error}") from error
        finally:
            with suppress(ProcessLookupError):  # the program, and all processes that it started
                os.killpg(program.pid, signal.SIGKILL)
    if program.returncode:
        last = one_line(errors.decode(errors="replace").strip().rpartition("\n")[2], characters=200)
        raise DraftworthError(
            f"--score: {command} {exit_words(program.returncode)}: {last or 'no words'}"
        )
    return output


def _words(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UserInputError(f"--score: given {command!r}, allowed: a command: {error}") from error
    if not words:
        raise UserInputError("--score: given nothing, allowed: a command, for example ./score.py")
    return words


class _LimitError(Exception):
    """The program exceeded a limit, which the message names."""


def _written_by(program: subprocess.Popen[bytes], limits: Limits) -> tuple[bytes, bytes]:
    """Wait until a program ends; return its standard output, and the last bytes of standard error.

    Processes that the program started may hold standard error open for longer; they are not waited
    for. _LimitError: the program exceeded a limit.
    """
    ends_at = time.monotonic() + limits.seconds
    output, errors = bytearray(), bytearray()
    is_over = False
    with DefaultSelector() as pipes:
        for pipe, kept in ((program.stdout, output), (program.stderr, errors)):
            assert pipe is not None  # noqa: S101 (for the type checker)
            pipes.register(pipe, EVENT_READ, kept)
        while not is_over:
            # Once the program has ended, what is left in the pipe of standard error is still read.
            is_over = program.stdout not in pipes.get_map() and program.poll() is not None
            wait_seconds = 0 if is_over else min(_POLL_SECONDS, _left_seconds(ends_at, limits))
            for key, _ in pipes.select(wait_seconds):
                piece = os.read(key.fd, 2**16)
                key.data.extend(piece)
                if not piece:
                    pipes.unregister(key.fileobj)
            if len(output) > limits.output_bytes:
                raise _LimitError(
                    f"it wrote more than {limits.output_bytes:,} bytes to standard output; "
                    f"allowed: {_BYTES_PER_PAIR:,} per pair; next: let it print nothing but scores"
                )
            del errors[:-_KEPT_BYTES_OF_STDERR]
    return bytes(output), bytes(errors)


def _left_seconds(ends_at: float, limits: Limits) -> float:
    left_seconds = ends_at - time.monotonic()
    if left_seconds <= 0:
        raise _LimitError(
            f"it did not end within {limits.seconds:,g} s; allowed: {_SECONDS:g} s and "
            f"{_SECONDS_PER_PAIR:g} s per pair; next: let it score several pairs at once"
        )
    return left_seconds


def _scores(answer: bytes, pairs: int) -> list[tuple[float, float]]:
    # Not splitlines(), which also splits at carriage returns, and JSON text may have those.
    lines = answer.removesuffix(b"\n").split(b"\n") if answer else []
    if len(lines) != pairs:
        raise UserInputError(
            f"--score: given {counted(len(lines), 'line')}, allowed: {pairs}, one for each line of "
            f"the input: {_SCORES}"
        )
    return [_score(line, number) for number, line in enumerate(lines, start=1)]


def _score(line: bytes, number: int) -> tuple[float, float]:
    try:
        answer = load_object(line, keys_once=True)
        plain, drafted = (float(answer[side]) for side in ("baseline", "variant"))
    except (RecordError, KeyError, TypeError, ValueError, OverflowError) as error:
        text = one_line(line.decode(errors="replace"), characters=80)
        raise UserInputError(f"--score: line {number}: given {text}, allowed: {_SCORES}") from error
    if not all(abs(value) <= LARGEST_SCORE for value in (plain, drafted)):
        raise UserInputError(
            f"--score: line {number}: allowed: finite numbers up to {LARGEST_SCORE:g}, {_SCORES}"
        )
    return plain, drafted
