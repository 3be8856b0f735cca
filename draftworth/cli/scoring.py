"""`report --score COMMAND`: a program of the user's scores the outputs of both sides.

It reads a line of JSON for each pair of outputs from its standard input (`ToScore.line`), and
answers each with a line `{"baseline": 0.8, "variant": 0.9}` on its standard output, in the same
order. A score may be of any kind: of an evaluation, a likelihood, 1 for a valid answer.
"""

import json
import math
import shlex
import subprocess
from collections.abc import Sequence

from draftworth.analysis.facts import RunFacts
from draftworth.analysis.scores import ScoreComparison, ToScore, compare_scores, to_score
from draftworth.errors import DraftworthError, UserInputError
from draftworth.records.codec import RecordError, load_object
from draftworth.records.transcripts import Transcripts
from draftworth.untrusted import one_line

_FORM = '{"baseline": NUMBER, "variant": NUMBER}'


def score(command: str, facts: RunFacts, transcripts: Transcripts) -> tuple[ScoreComparison, ...]:
    """Run the program over all pairs of outputs; raises DraftworthError if it fails."""
    outputs = to_score(facts, transcripts)
    if not outputs:
        raise UserInputError(
            "--score: the run has no pair of outputs with transcripts beside its results; copy the "
            "whole folder of a run with a speculative variant"
        )
    lines = [json.dumps(output.line(transcripts)) for output in outputs]
    answers = _answers(command, "".join(f"{line}\n" for line in lines)).splitlines()
    return tuple(compare_scores(outputs, _scores(answers, outputs)))


def _answers(command: str, lines: str) -> str:
    words = _words(command)
    try:
        done = subprocess.run(  # noqa: S603 (running what it is given is its purpose)
            words, input=lines, capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise DraftworthError(f"--score: {command}: cannot be started: {error.strerror}") from error
    if done.returncode:
        last = one_line(done.stderr.strip().rpartition("\n")[2], characters=200)
        raise DraftworthError(f"--score: {command} ended with exit code {done.returncode}: {last}")
    return done.stdout


def _words(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UserInputError(f"--score: given {command!r}, allowed: a command: {error}") from error
    if not words:
        raise UserInputError("--score: given nothing, allowed: a command, for example ./score.py")
    return words


def _scores(answers: Sequence[str], outputs: Sequence[ToScore]) -> list[tuple[float, float]]:
    if len(answers) != len(outputs):
        raise UserInputError(
            f"--score: given {len(answers)} lines, allowed: {len(outputs)}, one for each line of "
            f"the input: {_FORM}"
        )
    return [_score(answer, number) for number, answer in enumerate(answers, start=1)]


def _score(answer: str, line: int) -> tuple[float, float]:
    try:
        found = load_object(answer)
        plain, drafted = (float(found[side]) for side in ("baseline", "variant"))
    except (RecordError, KeyError, TypeError, ValueError) as error:
        given = one_line(answer, characters=80)
        raise UserInputError(f"--score: line {line}: given {given}, allowed: {_FORM}") from error
    if not (math.isfinite(plain) and math.isfinite(drafted)):
        raise UserInputError(f"--score: line {line}: allowed: finite numbers, {_FORM}")
    return plain, drafted
