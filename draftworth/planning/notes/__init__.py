"""Notes on settings that are allowed, but probably not intended: `plan` prints them, `cdk` warns.

Each rule is a function that yields either nothing or a note, which has a code and a sentence. The
function contains both the condition and the sentence. Elsewhere in this project, one function
computes facts and another one puts them into words. Notes are an exception, because nothing else
needs the facts of a rule.
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
