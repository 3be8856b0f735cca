"""Runs of shipped experiments, built as if they had been measured, and what is exported of them."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from charts.manifest_files import yaml_text
from charts.winner.exported_server import Export
from charts.winner.measured_winner import measured_winner
from charts.winner.winner_objects import export_of
from draftworth.planning.resolved import ResolvedExperiment, load
from draftworth.planning.specify_run import serving_facts
from draftworth.records.run_folder import Run
from tests.conftest import ROOT
from tests.draftworth.decision.loads import blocks_at, in_flight
from tests.draftworth.report import runs

NEURON, HEADS, LOCAL = "qwen3-32b", "llama-3.1-8b-dflash", "rehearsal"
SEARCH = "qwen3-32b-search"
IMAGE = "111122223333.dkr.ecr.us-east-2.amazonaws.com/vllm-cpu:0.32.0"
BUCKETS = {"checkpoints_bucket": "example-checkpoints", "artifacts_bucket": "example-artifacts"}


def experiment_path(name: str) -> Path:
    return ROOT / "experiments" / f"{name}.yaml"


def built_run(
    experiment: ResolvedExperiment, *concurrencies: int, pays: bool = True, **overrides: Any
) -> Run:
    """Return a run whose variant is cheaper at concurrency 1 only, or nowhere if not `pays`."""
    blocks = blocks_at(*in_flight(*(concurrencies or (1, 2, 4))))
    fields: dict[str, Any] = {"class_weights": {"structured": 1.0}}
    if not pays:
        blocks = runs.two_rounds(
            runs.make_plain_block(1, "open_ended"), runs.make_drafted_block(2, "open_ended")
        )
        fields = {"class_weights": {"open_ended": 1.0}}
    drafted = next(v.name for v in experiment.variants if v.speculates)
    names = {runs.BASELINE: experiment.variants[0].name, runs.VARIANT: drafted}
    fields |= {
        "experiment": experiment.name,
        "variants": tuple(names.values()),
        "baseline": names[runs.BASELINE],
        "max_tokens_per_step": {names[runs.BASELINE]: 1, drafted: 8},
        "serving": serving_facts(experiment),
    }
    named = tuple(replace(block, variant=names[block.variant]) for block in blocks)
    return runs.make_run(blocks=named, **{**fields, **overrides})


def written_run(folder: Path, name: str = NEURON, **overrides: Any) -> Path:
    """Write such a run (`built_run`) of a shipped experiment into `folder`; return its path."""
    experiment = load(experiment_path(name))
    return runs.write_run(built_run(experiment, **overrides), folder / "run")


@cache
def exported(
    name: str = NEURON, *, image: str = "", namespace: str = "serving", pays: bool = True
) -> Export:
    """Return the export of the winner of a built run (`built_run`) of the experiment `name`.

    image: "" for the release's own image. Tests share the result: copy it before a change.
    """
    experiment = load(experiment_path(name))
    return export_of(
        experiment,
        measured_winner(built_run(experiment, pays=pays), {}, experiment),
        namespace=namespace,
        image=image or experiment.spec.release_facts.image or IMAGE,
        bucket_names=BUCKETS,
    )


def as_read(objects: Sequence[Any]) -> list[Any]:
    """Return the objects as `kubectl apply` reads them: written as YAML and read again."""
    return list(yaml.load_all(yaml_text(objects), Loader=yaml.CSafeLoader))
