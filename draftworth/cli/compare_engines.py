"""What `compare` says of engines: how many of the tokens per step that texts allow they yield.

N-gram drafting needs no checkpoint: after a run, the server that made its outputs tokenizes them,
and the drafting is replayed over them. What a draft model allows takes its weights, which
`draftworth estimate EXPERIMENT --answers RUN` reads.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from draftworth.errors import DraftworthError
from draftworth.estimate.prompt_lookup import LookupLengths
from draftworth.estimate.replayed_run import allowed_by_lookup, keep_allowed_steps
from draftworth.estimate.server_tokens import ServerTokens
from draftworth.estimate.target_outputs import TargetOutputs
from draftworth.measuring.http_client import API_KEY_VARIABLE
from draftworth.measuring.run_specification import RunSpec
from draftworth.records.allowed_steps import VariantSteps
from draftworth.records.run_folder import read_run
from draftworth.records.transcripts import read_transcripts


def keep_engine_losses(spec: RunSpec, folder: Path, progress: Callable[[str], None]) -> None:
    """Say what the engines of a run lose that draft by n-grams, and keep it in the run's folder.

    Errors go to `progress` only, because the run is complete without it.
    """
    run = read_run(folder)
    transcripts = read_transcripts(folder, run.blocks)
    source = TargetOutputs(outputs=(), run=run, folder=folder, transcripts=transcripts)
    if allowed := [*_allowed(spec, source, progress)]:
        keep_allowed_steps(allowed, source, progress=progress)


def _allowed(
    spec: RunSpec, source: TargetOutputs, progress: Callable[[str], None]
) -> Iterator[VariantSteps]:
    for endpoint in spec.endpoints:
        if not endpoint.lookup_lengths or not endpoint.max_tokens_per_step:
            continue
        name = endpoint.variant
        tokens = ServerTokens(
            base_url=endpoint.base_url,
            model=spec.shape.model,
            api_key=os.environ.get(API_KEY_VARIABLE),
        )
        try:
            steps = allowed_by_lookup(
                source,
                spec.cases,
                name,
                tokens,
                LookupLengths(*endpoint.lookup_lengths),
                checked=endpoint.max_tokens_per_step - 1,
                enable_thinking=spec.shape.enable_thinking,
            )
        except DraftworthError as error:
            progress(f"{name}: what its engine loses is not told: {error}")
            continue
        if steps.requests:
            yield steps
        else:
            progress(
                f"{name}: what its engine loses is not told: no output has as many tokens as the "
                "server counted; next: measure with --token-ids"
            )
