"""Artifact keys: what changes the graph changes the key, and nothing else does."""

from __future__ import annotations

from pathlib import Path

import pytest

from draftbench.artifacts import artifact_key
from draftbench.experiment import NeuronExperiment
from draftbench.loading import load_experiment
from tests.support.experiments import Edit, both, put, write_experiment


def keys(folder: Path, edit: Edit) -> tuple[str, ...]:
    experiment = load_experiment(write_experiment(folder, edit))
    assert isinstance(experiment, NeuronExperiment)
    return tuple(artifact_key(experiment, variant) for variant in experiment.variants)


def unchanged(data: dict[str, object]) -> None:
    """No edit."""


CHANGES_BOTH = {
    "lengths": put("serving", "max_model_len", value=2048),
    "batch": put("serving", "max_num_seqs", value=8),
    "revision": put("target", "revision", value="v1"),
    "neuron config": put("serving", "neuron_config", value={"sequence_parallel_enabled": True}),
    "parallelism": both(
        put("serving", "tensor_parallel_size", value=64), put("serving", "slot_devices", value=16)
    ),
    "lnc": both(put("serving", "tensor_parallel_size", value=64), put("serving", "lnc", value=1)),
}
CHANGES_THE_DRAFTED_ONE = {
    "window": put("variants", 1, "window", value=5),
    "draft": put("variants", 1, "draft", "model", value="Qwen/Qwen3-0.6B"),
    "draft revision": put("variants", 1, "draft", "revision", value="v1"),
    "method": put("variants", 1, "method", value="eagle"),
}
CHANGES_NEITHER = {
    "name": put("name", value="other"),
    "variant name": put("variants", 1, "name", value="other"),
    "output length": put("workload", "output_tokens", value=300),
    "load": put("workload", "load", "concurrency", value=2),
    "region": both(
        put("aws", "region", value="us-west-2"),
        put("aws", "availability_zone", value="us-west-2a"),
    ),
}


@pytest.mark.parametrize("edit", CHANGES_BOTH.values(), ids=CHANGES_BOTH)
def test_shared_settings_change_both_keys(tmp_path: Path, edit: Edit) -> None:
    before, after = keys(tmp_path, unchanged), keys(tmp_path, edit)
    assert before[0] != after[0]
    assert before[1] != after[1]


@pytest.mark.parametrize("edit", CHANGES_THE_DRAFTED_ONE.values(), ids=CHANGES_THE_DRAFTED_ONE)
def test_a_variants_settings_change_its_own_key_only(tmp_path: Path, edit: Edit) -> None:
    before, after = keys(tmp_path, unchanged), keys(tmp_path, edit)
    assert before[0] == after[0]
    assert before[1] != after[1]


@pytest.mark.parametrize("edit", CHANGES_NEITHER.values(), ids=CHANGES_NEITHER)
def test_what_does_not_touch_the_graph_keeps_the_keys(tmp_path: Path, edit: Edit) -> None:
    assert keys(tmp_path, unchanged) == keys(tmp_path, edit)


def test_baseline_and_draft_have_different_keys(tmp_path: Path) -> None:
    first, second = keys(tmp_path, unchanged)
    assert first != second
