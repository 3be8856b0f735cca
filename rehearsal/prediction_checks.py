"""Checks a rehearsal's greedy outputs against the baseline's outputs and against predictions.

Each output must have the token ids of the baseline's output for the same prompt. From the tokens
that the draft proposes on that text, the number of tokens of each decoding step is predicted; the
chunks in which the output was streamed must fit these steps.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from draftworth.estimate.predictions import could_have_taken
from draftworth.estimate.prompt_lookup import LookupLengths, looked_up
from draftworth.estimate.run_teacher_forcing import Reader
from draftworth.estimate.run_tokenizing import TargetTokenizer
from draftworth.estimate.target_outputs import outputs_of_run
from draftworth.experiment.model import beside
from draftworth.planning.resolved import ResolvedLocal, ResolvedVariant
from draftworth.records.readings import Output, Replayed
from draftworth.records.run_folder import Run
from draftworth.records.transcripts import Transcripts


@dataclass(frozen=True, kw_only=True)
class Check:
    """The result of one check of a variant: `right` of its `requests` checked requests passed.

    what: what a request must have to pass, in words.
    """

    what: str
    variant: str
    right: int
    requests: int

    @property
    def holds(self) -> bool:
        return self.right == self.requests > 0

    def __str__(self) -> str:
        word = "holds" if self.holds else "BROKEN"
        return f"check {word}: {self.what} in {self.right} of {self.requests} ({self.variant})"


def checks_of(
    experiment: ResolvedLocal, run: Run, transcripts: Transcripts, reader: Reader
) -> Iterator[Check]:
    """Yield the results of two checks of each variant with speculation.

    The first compares its outputs' token ids with the baseline's, the second the tokens of its
    steps with the predicted ones.

    reader: runs the drafts on the baseline's outputs, which predicts the steps.
    Raise DraftworthError if the run has no outputs of the baseline, or a draft cannot run on them.
    """
    outputs = outputs_of_run(run, transcripts, experiment.cases)
    ids = {_place(output): output.token_ids for output in outputs}
    for variant in (v for v in experiment.variants if v.speculates):
        replays = {_place(r): r for r in _replayed(experiment, variant, outputs, reader)}
        checked = variant.max_tokens_per_step - 1
        requests = same = predicted = 0
        for block in (b for b in run.blocks if b.variant == variant.name):
            for record in block.requests:
                requests += 1
                place = (block.prompt_class, block.case, record.prompt_id)
                transcript = transcripts.get(record.request_id)
                if transcript is not None and place in replays:
                    same += bool(transcript.token_ids) and transcript.token_ids == ids[place]
                    steps = tuple(replays[place].steps(checked))
                    predicted += could_have_taken(steps, record, transcript, checked=checked)
        for what, right in (("the baseline's token ids", same), ("steps as predicted", predicted)):
            yield Check(what=what, variant=variant.name, right=right, requests=requests)


def _place(of: Output | Replayed) -> tuple[str, str, str]:
    return of.prompt_class, of.case, of.prompt_id


def _replayed(
    experiment: ResolvedLocal, variant: ResolvedVariant, outputs: Sequence[Output], reader: Reader
) -> Sequence[Replayed]:
    if lengths := variant.spec.lookup_lengths:
        thinks = experiment.spec.workload.enable_thinking
        tokenizer = TargetTokenizer(reader.target)
        return looked_up(outputs, tokenizer, LookupLengths(*lengths), enable_thinking=thinks)
    return reader.readings(beside(experiment.path, variant.draft or ""), outputs)
