"""The winner of a run, and whether the run is of the experiment that says how it is served."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from draftworth.analysis.facts import facts_of
from draftworth.analysis.winner import Winner, winner_of
from draftworth.cli.runs import RUN_WORDS, local_run, run_list
from draftworth.errors import UserInputError, suggestion
from draftworth.planning.resolved import ResolvedExperiment, ResolvedVariant
from draftworth.planning.run_specification import serving_facts
from draftworth.records.reading import Run, read_run
from draftworth.records.results import RunResult
from draftworth.records.transcripts import read_transcripts
from draftworth.untrusted import one_line


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A winner, its run's end, and the variant of the experiment that it is."""

    winner: Winner
    result: RunResult
    variant: ResolvedVariant


def measured_winner(run_at: str, experiment: ResolvedExperiment) -> Measured:
    """Read a run, and find its winner in the experiment.

    Args:
        run_at: a folder, or an s3:// address.

    Raises:
        UserInputError: it is no run, another experiment's, or was served in another way.
        DraftworthError: it has no winner (`NoWinnerError`), or S3 cannot be read.
    """
    if run_list(run_at) is not None:
        raise UserInputError(
            f"--winner: given {run_at}, which names many runs, allowed: {RUN_WORDS}"
        )
    with local_run(run_at) as folder:
        run = read_run(folder)
        transcripts = read_transcripts(folder, run.blocks)
    _refuse_another_experiment(run, experiment)
    winner = winner_of(facts_of(run, transcripts))
    return Measured(winner=winner, result=run.result, variant=_variant(winner, run, experiment))


def _refuse_another_experiment(run: Run, experiment: ResolvedExperiment) -> None:
    given = run.result.experiment
    if given != experiment.name:
        raise UserInputError(
            f"--winner: given run {one_line(run.result.run_id)} of experiment {one_line(given)!r}, "
            f"allowed: a run of {experiment.name!r}, which {experiment.path} describes; next: give "
            "the file of the run's own experiment"
        )


def _variant(winner: Winner, run: Run, experiment: ResolvedExperiment) -> ResolvedVariant:
    names = [variant.name for variant in experiment.variants]
    if winner.variant not in names:
        raise UserInputError(
            f"{experiment.path}: variants: given {', '.join(names)}, allowed: with "
            f"{one_line(winner.variant)!r}, which won run {one_line(run.result.run_id)}"
            f"{suggestion(winner.variant, names)}; next: give the file as it was when it was "
            "measured"
        )
    if differing := list(_differences(winner, run, experiment)):
        listed = "\n    ".join(differing)
        raise UserInputError(
            f"{experiment.path}: the run was served in another way:\n    {listed}\n"
            "  because what is written would not be what was measured; next: give the file as it "
            "was when it was measured, or measure again"
        )
    return next(v for v in experiment.variants if v.name == winner.variant)


def _differences(winner: Winner, run: Run, experiment: ResolvedExperiment) -> Iterator[str]:
    """Facts of the servers that run.json and the experiment state differently."""
    measured, asked = run.result.serving, serving_facts(experiment)
    if measured is None:
        yield "serving: given nothing in run.json, allowed: what served the run"
        return
    for name, value in vars(asked).items():
        was, now = getattr(measured, name), value
        if name == "decoding":
            # Further variants may have come and gone since.
            was, now = was.get(winner.variant), now[winner.variant]
        if was != now:
            yield f"{name}: measured {one_line(str(was))}, in the file {one_line(str(now))}"
