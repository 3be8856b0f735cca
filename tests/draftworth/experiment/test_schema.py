"""The JSON Schema that editors read, and what is said of a key by it."""

import json
import re
from functools import cache
from pathlib import Path

import jsonschema
import pytest
import yaml

from draftworth.errors import Key
from draftworth.experiment.loading import experiment_json_schema
from draftworth.experiment.model import NeuronExperiment
from draftworth.experiment.schema_words import description, nodes_at, values_in_words
from draftworth.experiment.strict import PATTERN_WORDS
from tests.conftest import ROOT

SCHEMA = experiment_json_schema()


@cache
def validator() -> jsonschema.protocols.Validator:
    return jsonschema.validators.validator_for(SCHEMA)(SCHEMA)


@pytest.mark.parametrize(
    "file", sorted((ROOT / "experiments").glob("*.yaml")), ids=lambda f: f.stem
)
def test_the_json_schema_accepts_the_shipped_experiments(file: Path) -> None:
    typed = json.loads(json.dumps(yaml.safe_load(file.read_text()), default=str))
    validator().validate(typed)


def test_the_json_schema_refuses_what_the_loader_refuses() -> None:
    typed = yaml.safe_load((ROOT / "experiments" / "qwen3-32b.yaml").read_text())
    typed["serving"]["max_num_seq"] = 4
    with pytest.raises(jsonschema.ValidationError):
        validator().validate(json.loads(json.dumps(typed, default=str)))


def test_the_published_schema_file_is_the_models_schema() -> None:
    """`make schema` writes it; editors find it beside the experiments."""
    published = json.loads((ROOT / "experiments" / "experiment.schema.json").read_text())
    assert published == SCHEMA


def test_every_pattern_of_the_schema_has_words() -> None:
    patterns = set(re.findall(r'"pattern": (".*")', json.dumps(SCHEMA, indent=1)))
    assert len(patterns) >= 8
    assert {json.loads(p) for p in patterns} <= PATTERN_WORDS.keys()


def test_the_words_for_a_keys_values_are_those_of_its_schema() -> None:
    """None of them is the bare `a value`, whichever key is left out."""
    required = [
        (section, name)
        for section in ("serving", "workload", "aws")
        for node in nodes_at(NeuronExperiment, (section,))
        for name in node["required"]
    ]
    words = {key: values_in_words(NeuronExperiment, key) for key in required}
    assert words[("aws", "keep_checkpoints")] == "true or false"
    assert "a value" not in words.values()


@pytest.mark.parametrize(
    ("key", "words"),
    [
        (("workload", "target_interval_width"), "a number, more than 0, 1 or less"),
        (("variants",), "a list of 1 or more entries"),
        (("search", "windows"), "FIRST..LAST, as in 3..15 or a list of 1 or more entries"),
        (
            ("search", "stop", "within"),
            "a percentage, as in 3% or a number, 0.001 or more, 0.5 or less",
        ),
        (("workload", "warmup_requests"), "a whole number, 0 or more, 1000 or less"),
        (
            ("workload", "load"),
            "a mapping with kind: concurrency or poisson or ladder or poisson_ladder",
        ),
        (("aws", "pins", "node_release"), "a release of EKS's node images, as in 1.35.2-20261102"),
        (("no", "such", "key"), "a value"),
    ],
)
def test_bounds_and_choices_are_told(key: Key, words: str) -> None:
    assert values_in_words(NeuronExperiment, key) == words


def test_an_entry_is_described_by_the_list_or_mapping_that_it_is_in() -> None:
    described = description(NeuronExperiment, ("aws", "pins", "add_ons", "vpc-cni"))
    assert described == description(NeuronExperiment, ("aws", "pins", "add_ons"))
    assert "EKS add-on to its version" in described
    # A key that nobody describes is not told in the words of the section around it.
    assert description(NeuronExperiment, ("aws", "nonsense")) == ""
