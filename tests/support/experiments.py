"""Makes experiments for tests: the shipped ones, also with a few keys changed."""

import copy
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from draftworth.experiment.aws import S3_ADD_ON, Aws, Capacity
from draftworth.experiment.loading import LoadedExperiment, load_experiment
from draftworth.experiment.model import Experiment
from draftworth.planning.resolved import ResolvedNeuron, load_neuron, resolve
from tests.conftest import ROOT

Edit = Callable[[dict[str, Any]], object]
# The names of the shipped experiments that run on AWS.
ON_AWS = [
    file.stem
    for file in sorted((ROOT / "experiments").glob("*.yaml"))
    if "\naws:" in file.read_text(encoding="utf-8")
]

# The workload that tests give to the experiment qwen3-32b: rounds of 8 requests at one load.
ROUNDS = {
    "classes": [{"name": "structured"}, {"name": "open_ended"}],
    "concurrency": 4,
    "requests_per_round": 8,
    "min_requests": 16,
    "max_requests": 64,
    "warmup_requests": 4,
}


def shipped(name: str) -> dict[str, Any]:
    """Return the data of the experiment file `name`.yaml of this repository, with absolute paths.

    `qwen3-32b` gets the smaller workload `ROUNDS` and one repetition.
    """
    return copy.deepcopy(_shipped_once(name))


@cache
def _shipped_once(name: str) -> dict[str, Any]:
    data: dict[str, Any] = yaml.load(
        (ROOT / "experiments" / f"{name}.yaml").read_text(), Loader=yaml.CSafeLoader
    )
    data["workload"]["prompts_dir"] = str(ROOT / "prompts")
    drafts = data.get("search", {}).get("drafts", [])
    for model in (data["target"], *(v.get("draft", {}) for v in data["variants"]), *drafts):
        if "path" in model:
            model["path"] = str((ROOT / "experiments" / model["path"]).resolve())
    if name == "qwen3-32b":
        data["workload"] |= ROUNDS
        data["repetitions"] = 1
    return data


def write_experiment(folder: Path, edit: Edit, *, base: str = "qwen3-32b") -> Path:
    """Write a copy of the shipped experiment `base`, changed by `edit`; return the file's path."""
    data = shipped(base)
    edit(data)
    path = folder / "experiment.yaml"
    path.write_text(yaml.dump(data, Dumper=yaml.CSafeDumper, sort_keys=False))
    return path


def put(*key: str | int, value: Any) -> Edit:
    def edit(data: dict[str, Any]) -> None:
        node: Any = data
        for part in key[:-1]:
            node = node[part]
        node[key[-1]] = copy.deepcopy(value)  # a later edit may change it

    return edit


def drop(*key: str | int) -> Edit:
    def edit(data: dict[str, Any]) -> None:
        node: Any = data
        for part in key[:-1]:
            node = node[part]
        del node[key[-1]]

    return edit


def both(*edits: Edit) -> Edit:
    def edit(data: dict[str, Any]) -> None:
        for one in edits:
            one(data)

    return edit


# Changes the shipped experiment with an EAGLE3 head for Llama 3.1 8B: its variant has a DFlash head
# instead.
DFLASH_HEAD = "z-lab/LLaMA3.1-8B-Instruct-DFlash-UltraChat"
DFLASH = both(
    put("release", value="neuron-2.33.0"),
    put(
        "variants",
        1,
        value={
            "name": "dflash-k9",
            "method": "dflash",
            "draft": {"model": DFLASH_HEAD},
            "window": 9,
        },
    ),
)


# Changes the shipped search over draft models to one over DFlash heads of Llama 3.1 8B. A head
# works only with the window that it was trained for, so there is one candidate per head.
OF_HEADS = both(
    put("release", value="neuron-2.33.0"),
    put("target", "model", value="meta-llama/Llama-3.1-8B-Instruct"),
    put("search", value={"method": "dflash", "drafts": [{"model": DFLASH_HEAD}]}),
)


def load_spec(path: Path) -> Experiment:
    """Return the checked content of an experiment file, without the plan derived from it."""
    return load_experiment(path).spec


@cache
def resolved(name: str = "qwen3-32b") -> ResolvedNeuron:
    """Return a shipped experiment that runs on AWS, with its placement, commands and keys."""
    return load_neuron(ROOT / "experiments" / f"{name}.yaml")


@cache
def with_rounds() -> ResolvedNeuron:
    """Return the resolved experiment qwen3-32b with the smaller workload `ROUNDS`."""
    with tempfile.TemporaryDirectory() as folder:
        return load_neuron(write_experiment(Path(folder), lambda _: None))


def changed(experiment: ResolvedNeuron, **values: Any) -> ResolvedNeuron:
    """Return an experiment with these top-level values of its file replaced, resolved again."""
    spec = experiment.spec.model_copy(update=values)
    again = resolve(LoadedExperiment(spec=spec, path=experiment.path, cases=experiment.cases))
    assert isinstance(again, ResolvedNeuron)
    return again


def changed_in(experiment: ResolvedNeuron, section: str, **values: Any) -> ResolvedNeuron:
    """Return an experiment with these values in one section of its file replaced."""
    part = getattr(experiment.spec, section).model_copy(update=values)
    return changed(experiment, **{section: part})


def with_third_variant(experiment: ResolvedNeuron) -> ResolvedNeuron:
    """Return an experiment of two variants with a third: the second's draft, but window 5."""
    _, drafted = experiment.spec.variants
    third = drafted.model_copy(update={"name": "k5", "window": 5})
    return changed(experiment, variants=(*experiment.spec.variants, third))


def on_small_nodes(experiment: ResolvedNeuron) -> ResolvedNeuron:
    """Return the experiment with one device and one node for each variant, in sa-east-1."""
    one_device = changed_in(experiment, "serving", slot_devices=1)
    return changed_aws(
        changed(one_device, name="small-nodes"),
        region="sa-east-1",
        availability_zone="sa-east-1b",
        instance_type="trn2.3xlarge",
        capacity=Capacity(kind="spot"),
        pins={
            "node_release": "1.35.2-20261102",
            "add_ons": {"vpc-cni": "v1.21.1-eksbuild.3", S3_ADD_ON: "v2.7.0-eksbuild.1"},
        },
    )


def changed_aws(experiment: ResolvedNeuron, **values: Any) -> ResolvedNeuron:
    """Return an experiment with these values of its AWS section replaced.

    pydantic's ValidationError is raised if no experiment file could have the new section.
    """
    data = experiment.spec.aws.model_dump() | {
        key: value.model_dump() if hasattr(value, "model_dump") else value
        for key, value in values.items()
    }
    return changed(experiment, aws=Aws.model_validate(data))
