"""Notes on settings that are allowed, but probably not intended: `plan` prints them, `cdk` warns.

Each rule is a function that yields no note, or a note with its code and its sentence. The sentence
stands beside the condition, unlike other texts, because nothing else uses a rule's figures: types
for the facts of each rule and a second function for its words would be three places for one note.
"""

from datetime import date

from draftworth.planning.notes.aws_notes import aws_notes
from draftworth.planning.notes.limit_notes import limit_notes
from draftworth.planning.notes.note import Note
from draftworth.planning.notes.workload_notes import workload_notes
from draftworth.planning.resolved import ResolvedExperiment, ResolvedNeuron
from draftworth.planning.timeline import RunForecast


def notes(
    experiment: ResolvedExperiment, *, run: RunForecast | None = None, today: date
) -> list[Note]:
    """Return the notes on an experiment, each once.

    run: the forecast of the run; None: the experiment is local.
    today: the date in UTC, by which a price may be too old.
    """
    every = [*workload_notes(experiment)]
    if isinstance(experiment, ResolvedNeuron):
        every += aws_notes(experiment, today)
    if run is not None:
        every += limit_notes(run)
    return [*dict.fromkeys(every)]
