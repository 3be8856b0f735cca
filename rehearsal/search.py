"""Lets the drafts of a search read the baseline's outputs while the search is measured."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from draftworth.errors import DraftworthError
from draftworth.estimate.outputs import outputs_of_blocks
from draftworth.estimate.reader import Reader
from draftworth.experiment.model import beside
from draftworth.measuring.servers import Progress
from draftworth.planning.resolved import ResolvedLocal
from draftworth.records.readings import Reading
from draftworth.records.results import BlockResult
from draftworth.records.transcripts import read_transcripts


@dataclass(frozen=True, kw_only=True)
class DraftReader:
    """Lets each draft of a search read the outputs; `runs` is the folder of all runs."""

    experiment: ResolvedLocal
    reader: Reader
    runs: Path
    progress: Progress

    def __call__(
        self, run_id: str, blocks: Sequence[BlockResult]
    ) -> Mapping[str, Sequence[Reading]]:
        """Return readings by draft; empty if there are none: the search goes on without."""
        search = self.experiment.search
        # A pass predicts greedy outputs of drafts that read text. Prompts that were made longer or
        # shorter for a load are not kept.
        greedy = self.experiment.reads_outputs
        as_they_are = any(load.input_tokens is None for load in self.experiment.loads)
        if search is None or not (search.drafts_read_text and greedy and as_they_are):
            return {}
        baseline = next(v.name for v in self.experiment.variants if v.is_baseline)
        drafts = dict.fromkeys(candidate.draft for candidate in search.candidates)
        try:
            transcripts = read_transcripts(self.runs / run_id, tuple(blocks))
            outputs = outputs_of_blocks(
                blocks, transcripts, self.experiment.cases, variant=baseline
            )
            return {
                draft: self.reader.readings(beside(self.experiment.path, draft), outputs)
                for draft in drafts
            }
        except DraftworthError as error:
            self.progress(f"the baseline's outputs are not read: {error}")
            return {}
