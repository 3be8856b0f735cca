"""The production-stack's chart knows all exported values and makes the measured command of them."""

import copy
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from charts.winner.exported_server import Export
from charts.winner.production_stack import production_stack_values
from tests.charts.winner.runs import HEADS, IMAGE, LOCAL, NEURON, as_read, exported

pytestmark = pytest.mark.synth

SCHEMA = Path(__file__).parent / "fixtures/production-stack.schema.yaml"


@cache
def schema() -> Any:
    return yaml.safe_load(SCHEMA.read_text(encoding="utf-8"))


def values_of(export: Export) -> Any:
    (values,) = as_read([production_stack_values(export)])
    return values


def model_of(export: Export) -> Any:
    (model,) = values_of(export)["servingEngineSpec"]["modelSpec"]
    return model


@pytest.mark.parametrize("name", [NEURON, HEADS, LOCAL])
@pytest.mark.parametrize("pays", [True, False])
def test_the_chart_reads_every_key(name: str, pays: bool) -> None:
    jsonschema.validate(values_of(exported(name, pays=pays)), schema())


@pytest.mark.parametrize("place", [(), ("modelSpec", 0), ("modelSpec", 0, "vllmConfig")])
def test_a_key_unknown_to_the_chart_is_refused(place: tuple[str | int, ...]) -> None:
    changed = copy.deepcopy(values_of(exported()))
    node = changed["servingEngineSpec"]
    for key in place:
        node = node[key]
    node["resourceClaims"] = []
    with pytest.raises(jsonschema.ValidationError, match="resourceClaims"):
        jsonschema.validate(changed, schema())


def test_a_label_of_the_chart_is_refused() -> None:
    values = values_of(exported())
    labels = values["servingEngineSpec"]["modelSpec"][0]["podLabels"]
    assert labels == {"draftworth/experiment": NEURON, "draftworth/variant": "qwen3-1.7b-k7"}
    labels["app.kubernetes.io/name"] = "vllm"
    with pytest.raises(jsonschema.ValidationError, match=r"app\.kubernetes\.io/name"):
        jsonschema.validate(values, schema())


def chart_command(model: Any, port: int) -> list[str]:
    """Return the arguments of `vllm serve` that the chart makes of the values of a model.

    This repeats in Python what the chart's template deployment-vllm-multi.yaml does.
    """
    config = model["vllmConfig"]
    made = [model["modelURL"], "--host=0.0.0.0", f"--port={port}"]
    if "enableChunkedPrefill" in config:
        made.append(f"--{'' if config['enableChunkedPrefill'] else 'no-'}enable-chunked-prefill")
    made.append(f"--{'' if config['enablePrefixCaching'] else 'no-'}enable-prefix-caching")
    flags = {
        "maxModelLen": "--max-model-len",
        "dtype": "--dtype",
        "tensorParallelSize": "--tensor-parallel-size",
        "maxNumSeqs": "--max-num-seqs",
    }
    made += [f"{flag}={config[key]}" for key, flag in flags.items() if key in config]
    return [*made, *config["extraArgs"]]


@pytest.mark.parametrize("name", [NEURON, HEADS, LOCAL])
def test_the_charts_command_is_the_measured_one(name: str) -> None:
    export = exported(name)
    made = chart_command(model_of(export), 8000)
    assert len(set(made)) == len(made)
    added = set(made) - set(export.server_data["args"])
    assert set(export.server_data["args"]) <= set(made)
    # The chart always writes a flag about prefix caching. It changes nothing: no measured server
    # caches prefixes.
    assert added <= {"--host=0.0.0.0", "--no-enable-prefix-caching"}


@pytest.mark.parametrize("image", [IMAGE, f"{IMAGE.partition(':')[0]}@sha256:{'0' * 64}"])
def test_the_charts_image_has_tag_or_digest(image: str) -> None:
    model = model_of(exported(LOCAL, image=image))
    assert f"{model['repository']}:{model['tag']}" == image
