"""The winner of a run, as the run's experiment file describes it.

The run must be of the given experiment, because the experiment file says how the winner is served.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields

from draftworth.decision.facts import facts_of
from draftworth.decision.winner import Winner
from draftworth.errors import UserInputError, suggestion
from draftworth.planning.resolved import ResolvedExperiment, ResolvedVariant
from draftworth.planning.specify_run import serving_facts
from draftworth.records.results import RunResult
from draftworth.records.run_folder import Run
from draftworth.records.servers import Decoding, ServingFacts
from draftworth.records.transcripts import Transcripts
from draftworth.report.sentences import headline, winner_to_export
from draftworth.untrusted import one_line


@dataclass(frozen=True, kw_only=True)
class MeasuredWinner:
    """The winner of a run, with its variant as the experiment file describes it.

    headline: the run's verdict in one sentence. result: the content of the run's `run.json`.
    """

    winner: Winner
    headline: str
    result: RunResult
    variant: ResolvedVariant


def measured_winner(
    run: Run, transcripts: Transcripts, experiment: ResolvedExperiment
) -> MeasuredWinner:
    """Find the variant of the experiment that a run's verdict calls the winner.

    transcripts: the run's output texts by request id, which the verdict also needs.
    It raises UserInputError if the run is of another experiment, was served with other settings, or
    has a winner that is not a variant in the experiment file.
    """
    run_experiment = run.result.experiment
    if run_experiment != experiment.name:
        raise UserInputError(
            f"--winner: given run {one_line(run.result.run_id)} of experiment "
            f"{one_line(run_experiment)!r}, "
            f"allowed: a run of {experiment.name!r}, which {experiment.path} describes; next: give "
            "the file of the run's own experiment"
        )
    facts = facts_of(run, transcripts)
    winner = winner_to_export(facts)
    variant = _variant(winner, run, experiment)
    return MeasuredWinner(
        winner=winner, headline=headline(facts), result=run.result, variant=variant
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
    measured, of_file = run.result.serving, serving_facts(experiment)
    if measured is None or winner.variant not in measured.decoding:
        name = one_line(winner.variant)
        yield f"serving: given nothing in run.json of {name}, allowed: what served it"
        return
    # Only the winner is compared: other variants may have been added or removed since the run.
    was, now = measured.decoding[winner.variant], of_file.decoding[winner.variant]
    differing = [*_different(measured, of_file), *_different(was, now)]
    yield from differing
    # Any of the differences above changes the artifact key too, so the key is reported only if no
    # difference was found.
    if was.artifact_key != now.artifact_key and not differing:
        yield (
            f"other flags than were measured: artifact key {one_line(str(was.artifact_key))}, in "
            f"the file {now.artifact_key}; {_IN_THE_KEY}"
        )


# What can change the artifact key although run.json has no field for it.
_IN_THE_KEY = (
    "what differs is a model's revision, serving.buckets (with `one` also the workload's lengths), "
    "serving.neuron_config, or the version of draftworth, which writes the flags"
)


def _different(
    measured: ServingFacts | Decoding, of_file: ServingFacts | Decoding
) -> Iterator[str]:
    for name in (f.name for f in fields(of_file) if f.name not in ("decoding", "artifact_key")):
        was, now = getattr(measured, name), getattr(of_file, name)
        # Runs of an earlier version of draftworth recorded no revisions of models. For such a run
        # the comparison of artifact keys finds a changed revision.
        if was != now and not (was is None and name.endswith("_revision")):
            yield f"{name}: measured {one_line(str(was))}, in the file {one_line(str(now))}"
