"""Forecasts in how many steps a draft yields each prompt's output, for the choice of prompts."""

from collections.abc import Collection, Sequence
from pathlib import Path

from draftworth.errors import UserInputError
from draftworth.estimate.forecast import DraftEstimate
from draftworth.experiment.catalog import NGRAM
from draftworth.records.codec import dump_record
from draftworth.records.logged_traffic import PromptForecast, PromptForecasts
from draftworth.safe_writing import write_file
from draftworth.untrusted import one_line


def prompt_forecasts(
    estimates: Sequence[DraftEstimate], windows: Collection[int]
) -> PromptForecasts:
    """Return the forecasts for all prompts whose outputs were read, with the first draft model.

    Without a draft model they are made with n-gram drafting. Outputs of one token are left out,
    because no step yields it.
    windows: those that the experiment measures; the shortest one that was estimated is taken. If
        there is none, it is the window that the estimate's conclusion is about.
    """
    by_model = [estimate for estimate in estimates if estimate.method != NGRAM]
    estimate = (by_model or [*estimates])[0]
    measured = (forecast for forecast in estimate.forecasts if forecast.window in windows)
    about = next(measured, estimate.conclusion.about)
    return PromptForecasts(
        draft=estimate.draft,
        window=about.window,
        prompts=tuple(
            PromptForecast(
                prompt_class=output.prompt_class,
                case=output.case,
                id=output.prompt_id,
                tokens=output.tokens_after_first,
                steps=sum(1 for _ in output.steps(about.checked)),
            )
            for output in estimate.replayed
            if output.tokens_after_first
        ),
    )


def write_prompt_forecasts(forecasts: PromptForecasts, path: Path) -> None:
    """Write the forecasts as JSON; raise UserInputError if the file cannot be written."""
    try:
        write_file(path, dump_record(forecasts))
    except OSError as error:
        raise UserInputError(
            f"--by-prompt: {one_line(str(path))}: cannot be written: {error.strerror}; next: give "
            "another file"
        ) from error
