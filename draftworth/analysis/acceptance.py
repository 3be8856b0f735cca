"""Computes how many drafted tokens are accepted, in a run or in replays of stored outputs."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from draftworth.analysis.checks import acceptance_by_position
from draftworth.analysis.clustering import Sample
from draftworth.analysis.costs import tokens_per_step
from draftworth.analysis.ratios import log_of_sums
from draftworth.analysis.statistics import Estimate
from draftworth.metrics.steps import draft_whole_windows
from draftworth.records import acceptance_profile
from draftworth.records.readings import Replayed
from draftworth.records.results import BlockResult
from draftworth.records.run_folder import Run
from draftworth.records.servers import Decoding

# The digits after the point in an acceptance profile: more would only make its file larger.
_DIGITS = 6


def acceptance_of(
    outputs: Iterable[Replayed], checked: Collection[int], *, by_position: bool = False
) -> dict[str, acceptance_profile.Windows]:
    """Return, by prompt class, a draft's mean tokens per step for each number in `checked`.

    outputs: the target's outputs, each of which tells in which steps the draft would yield it;
        those of only one token are left out.
    checked: numbers of drafted tokens that a step checks; the result has an entry for each.
    by_position: also compute, for each n, the share of steps that accept the n-th drafted token,
        which takes longer.
    """
    classes: defaultdict[str, list[Replayed]] = defaultdict(list)
    for output in outputs:
        if output.tokens_after_first:
            classes[output.prompt_class].append(output)
    return {
        name: tuple(
            _window(readings, number, by_position=by_position) for number in sorted(checked)
        )
        for name, readings in classes.items()
    }


def _window(
    outputs: Sequence[Replayed], checked: int, *, by_position: bool
) -> acceptance_profile.WindowAcceptance:
    # A `Sample` names two sources of error: a prompt and a block. A replayed output always gives
    # the same steps, so only the choice of prompts is one, and each prompt counts as a block too.
    by_prompt: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for output in outputs:
        by_prompt[output.case, output.prompt_id] += output.steps(checked)
    steps = [
        (Sample(stratum=case, prompt=prompt, block=prompt, value=0.0), readings)
        for (case, prompt), readings in by_prompt.items()
    ]

    def mean(of: Callable[[int], int]) -> acceptance_profile.Measured:
        log_mean = log_of_sums(steps, lambda readings: (sum(map(of, readings)), len(readings)))
        return (
            _measured(log_mean.estimate()) if log_mean else acceptance_profile.Measured(value=0.0)
        )

    return acceptance_profile.WindowAcceptance(
        drafts_checked=checked,
        tokens_per_step=mean(int),
        accepted=tuple(mean(n.__lt__) for n in range(1, checked + 1)) if by_position else (),
        outputs=len(outputs),
        tokens=sum(output.tokens_after_first for output in outputs),
    )


def _measured(estimate: Estimate) -> acceptance_profile.Measured:
    low, high = (end and round(end, _DIGITS) for end in (estimate.low, estimate.high))
    return acceptance_profile.Measured(value=round(estimate.value, _DIGITS), low=low, high=high)


def profile_of(run: Run) -> acceptance_profile.AcceptanceProfile | None:
    """Return a run's acceptance profile: each draft's tokens per step by prompt class and window.

    None if no variant speculates, or if no such variant's steps can be counted.
    """
    result, serving = run.result, run.result.serving
    drafts: defaultdict[Decoding, defaultdict[str, list[acceptance_profile.WindowAcceptance]]]
    drafts = defaultdict(lambda: defaultdict(list))
    for variant, most in result.max_tokens_per_step.items():
        unknown = Decoding(method="not known", draft=variant)
        decoding = serving.decoding.get(variant, unknown) if serving else unknown
        blocks = [block for block in run.blocks if block.variant == variant and most > 1]
        for name in dict.fromkeys(block.prompt_class for block in blocks):
            of_class = [block for block in blocks if block.prompt_class == name]
            if tokens := tokens_per_step(of_class, variant):
                drafts[replace(decoding, window=None)][name].append(_of_run(of_class, tokens, most))
    if not drafts:
        return None
    requests = [request for block in run.blocks for request in block.requests]
    return acceptance_profile.AcceptanceProfile(
        target=acceptance_profile.name_of(serving.target_model if serving else run.blocks[0].model),
        target_revision=_revision(serving.target_revision if serving else None),
        source=acceptance_profile.name_of(f"run {result.run_id} of {result.experiment}"),
        temperature=result.temperature,
        text_sha256=acceptance_profile.text_hash(
            r.output_sha256 for r in requests if r.output_sha256
        ),
        drafts=tuple(
            acceptance_profile.DraftAcceptance(
                method=acceptance_profile.name_of(decoding.method),
                draft=acceptance_profile.name_of(decoding.draft or decoding.method),
                draft_revision=_revision(decoding.draft_revision),
                classes={
                    acceptance_profile.name_of(n): tuple(windows) for n, windows in classes.items()
                },
            )
            for decoding, classes in drafts.items()
        ),
    )


def _revision(text: str | None) -> str | None:
    return None if text is None else acceptance_profile.name_of(text)


def _of_run(
    blocks: Sequence[BlockResult], tokens: Estimate, most: int
) -> acceptance_profile.WindowAcceptance:
    """Return a variant's acceptance in one class. blocks: the variant's blocks in that class.

    The share of steps that accept the n-th drafted token has no interval, because servers count it
    per block and not per request.
    tokens: mean tokens per step. most: the most tokens that a step can yield.
    """
    shares = acceptance_by_position(blocks) if draft_whole_windows(blocks, most) else ()
    requests = [r for block in blocks for r in block.requests if r.counts]
    return acceptance_profile.WindowAcceptance(
        drafts_checked=most - 1,
        tokens_per_step=_measured(tokens),
        accepted=tuple(
            acceptance_profile.Measured(value=round(share, _DIGITS)) for share in shares[: most - 1]
        ),
        outputs=len(requests),
        tokens=sum((r.number_output_tokens or 1) - 1 for r in requests),
    )
