"""Forecasts for all prompts of a log, and which of these prompts were chosen to be measured.

`estimate --by-prompt` writes the first, `prompts choose` reads it and writes the second, which
`report --traffic` reads. A forecast is the number of steps per output token: the fewer steps, the
less does a token cost with speculation.

The record of a choice lies beside the folder of the class with the chosen prompts. Who reads these
prompts to measure them keeps the record's hash, so that no other record is taken for it later.
"""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

from draftworth.errors import UserInputError
from draftworth.records.codec import Between, Checked, RecordError, load_record
from draftworth.untrusted import TooLargeError, one_line, read_file

R = TypeVar("R")
# With fewer measured prompts, nothing is said about the others: nobody counted how often such an
# interval would be right (docs/appendix/calibration.md).
MIN_MEASURED = 16
# The case, in the class of the chosen prompts, that has them all.
CHOSEN_CASE = "chosen"
Forecast = Annotated[float, Between(1e-6, 1e6)]


@dataclass(frozen=True, kw_only=True)
class PromptForecast(Checked):
    """The forecast for one logged prompt, which is in the file of its prompt class and case.

    tokens: output tokens of its logged answer, without the first one, which no step yields.
    steps: in how many steps the draft would yield them.
    """

    prompt_class: str
    case: str
    id: str
    tokens: Annotated[int, Between(1)]
    steps: Annotated[int, Between(1)]

    @property
    def steps_per_token(self) -> float:
        return self.steps / self.tokens


@dataclass(frozen=True, kw_only=True)
class PromptForecasts:
    """The forecasts for all logged prompts, for one draft and window."""

    schema: str = "draftworth.prompt_forecasts/1"
    draft: str
    window: int
    prompts: tuple[PromptForecast, ...]


@dataclass(frozen=True, kw_only=True)
class ChosenPrompt(Checked):
    """A logged prompt that was chosen to be measured.

    tokens: as in its `PromptForecast`. steps_per_token: the forecast.
    parts: how many of the traffic's equal parts it stands for: 1, unless its answer is very long.
    """

    id: str
    tokens: Annotated[int, Between(1)]
    steps_per_token: Forecast
    parts: Annotated[int, Between(1)] = 1


@dataclass(frozen=True, kw_only=True)
class LoggedTraffic(Checked):
    """All prompts of a log in short, and those that were chosen to be measured.

    prompt_class, case: the names of the prompt file that has the chosen prompts.
    draft, window: what the forecast was made for.
    prompts, tokens: the number of logged prompts, and of output tokens in their logged answers.
    steps_per_token: the forecast for all of these tokens.
    seed: the random seed of the choice.
    """

    schema: str = "draftworth.logged_traffic/1"
    prompt_class: str
    case: str
    draft: str
    window: int
    prompts: Annotated[int, Between(1)]
    tokens: Annotated[int, Between(1)]
    steps_per_token: Forecast
    seed: int
    chosen: tuple[ChosenPrompt, ...]


def read_prompt_forecasts(path: Path) -> PromptForecasts:
    """Read the forecasts for all logged prompts; raise UserInputError for a wrong file."""
    writer = "draftworth estimate EXPERIMENT --by-prompt"
    forecasts = _read(PromptForecasts, path, written_by=writer)
    if not forecasts.prompts:
        raise UserInputError(
            f"{one_line(str(path))}: prompts: given none, allowed: one or more; next: write it "
            f"again with `{writer} FILE`"
        )
    return forecasts


def read_logged_traffic(path: Path) -> LoggedTraffic:
    """Read what was chosen of a log; raise UserInputError for a wrong file."""
    return _read(LoggedTraffic, path, written_by="draftworth prompts choose FORECASTS --out")


def record_of_choice(prompt_file: Path) -> Path:
    """Return the path of the record of the choice that wrote a prompt file."""
    folder = Path(os.path.realpath(prompt_file)).parent
    return folder.with_name(f"{folder.name}.traffic.json")


def hash_of_choice(prompt_file: Path) -> str:
    """Return the SHA-256 of the record of the choice that wrote a prompt file; empty without one.

    OSError, TooLargeError: there is a record, and it cannot be read.
    """
    record = record_of_choice(prompt_file)
    is_chosen = prompt_file.stem == CHOSEN_CASE and os.path.lexists(record)
    return sha256_of(record) if is_chosen else ""


def sha256_of(record: Path) -> str:
    """Return the SHA-256 of a record's bytes: another file with the same values is another one."""
    return hashlib.sha256(read_file(record)).hexdigest()


def _read(kind: type[R], path: Path, *, written_by: str) -> R:
    try:
        return load_record(kind, read_file(path))
    except (OSError, RecordError, TooLargeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UserInputError(
            f"{one_line(str(path))}: cannot be read: {reason}; allowed: a file that `{written_by}` "
            "wrote; next: give its path"
        ) from error
