"""The smallest experiment on AWS, and what follows for the keys that it leaves out."""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from draftworth.errors import ExperimentError, Key
from draftworth.planning.resolved import ResolvedNeuron, load_neuron
from tests.conftest import ROOT
from tests.draftworth.experiment.changes import Changes, changed
from tests.support.experiments import write_experiment

SMALLEST_YAML = yaml.safe_load(
    Path(__file__).with_name("smallest.yaml").read_text(encoding="utf-8")
)
SMALLEST: dict[str, Any] = SMALLEST_YAML["file"]


def leaves(value: object, key: Key = ()) -> Iterator[Key]:
    if not isinstance(value, dict | list):
        yield key
        return
    for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
        yield from leaves(inner, (*key, name))


def smallest(folder: Path, changes: Changes) -> ResolvedNeuron:
    def edit(data: dict[str, Any]) -> None:
        data.clear()
        data.update(copy.deepcopy(SMALLEST), serving={})
        # The default is relative to the experiment file, which a test writes elsewhere.
        data["workload"]["prompts_dir"] = str(ROOT / "prompts")
        changed(changes)(data)

    return load_neuron(write_experiment(folder, edit))


def test_it_has_twelve_keys_none_of_them_guessed(tmp_path: Path) -> None:
    keys = [*leaves(SMALLEST)]
    assert len(keys) == 12
    for key in keys:
        with pytest.raises(ExperimentError):
            smallest(tmp_path, {".".join(map(str, key)): "GONE"})


@pytest.mark.parametrize("follows", SMALLEST_YAML["follows"], ids=str)
def test_the_rest_follows(tmp_path: Path, follows: dict[str, Any]) -> None:
    experiment = smallest(tmp_path, follows.pop("changes"))
    values = experiment.spec.model_dump() | {
        "loads": " ".join(load.label for load in experiment.loads),
        "pinned": experiment.spec.aws.pins.node_release,
        "variants": " ".join(variant.name for variant in experiment.variants),
    }
    for name, value in follows.items():
        has = values[name].items() if isinstance(value, dict) else values[name]
        assert value.items() <= has if isinstance(value, dict) else value == has
    serving = experiment.spec.serving
    assert experiment.spec.tensor_parallel_size == 8 * serving.slot_devices / serving.lnc


def test_the_longest_prompt_is_estimated_from_above(tmp_path: Path) -> None:
    experiment = smallest(tmp_path, {})
    longest = max(len(p.texts[0].encode()) for case in experiment.cases for p in case.prompts)
    assert longest / 2 < experiment.spec.workload.most_input_tokens < longest / 2 + 80
