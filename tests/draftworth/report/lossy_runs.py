"""Writes runs whose texts and draft allow fewer steps than the engine took."""

from pathlib import Path

from draftworth.records.allowed_steps import (
    ALLOWED_STEPS_FILE,
    AllowedSteps,
    RequestSteps,
    VariantSteps,
)
from draftworth.records.codec import dump_record
from tests.draftworth.report.runs import VARIANT, make_run, write_run


def write_allowed_steps(folder: Path, *, steps: int) -> Path:
    """Write a run, and that texts and draft allow each of its requests this number of steps."""
    run = make_run()
    requests = tuple(
        RequestSteps(
            request_id=record.request_id,
            tokens=(record.number_output_tokens or 0) - 1,
            steps=steps,
            taken_as_allowed=False,
        )
        for block in run.blocks
        if block.variant == VARIANT and block.prompt_class == "structured"
        for record in block.requests
    )
    variants = (VariantSteps(variant=VARIANT, draft="models/draft", requests=requests),)
    record = AllowedSteps(run_id=run.result.run_id, variants=variants)
    write_run(run, folder)
    (folder / ALLOWED_STEPS_FILE).write_bytes(dump_record(record))
    return folder
