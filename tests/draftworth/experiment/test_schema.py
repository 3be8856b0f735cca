"""The JSON Schema that editors read, and what messages take from it about a key."""

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import jsonschema
import pytest
import yaml

from draftworth.errors import Key
from draftworth.experiment.loading import experiment_json_schema
from draftworth.experiment.model import NeuronExperiment
from draftworth.experiment.strict_model import PATTERN_WORDS
from draftworth.experiment.validation_errors import description, fields_at, values_in_words
from tests.conftest import ROOT
from tests.support.snapshot import assert_snapshot

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
    """`make schema` writes the file; editors find it beside the experiment files."""
    published = json.loads((ROOT / "experiments" / "experiment.schema.json").read_text())
    assert published == SCHEMA


def test_every_pattern_of_the_schema_has_words() -> None:
    patterns = set(re.findall(r'"pattern": (".*")', json.dumps(SCHEMA, indent=1)))
    assert len(patterns) >= 8
    assert {json.loads(p) for p in patterns} <= PATTERN_WORDS.keys()


def keys_of(section: Key = ()) -> Iterator[Key]:
    """Yield every key that a file for AWS may have, and then the keys below it."""
    for name in fields_at(NeuronExperiment, section):
        yield (*section, name)
        yield from keys_of((*section, name))


def test_what_each_key_may_have_is_told() -> None:
    lines = (f"{'.'.join(map(str, k))}: {values_in_words(NeuronExperiment, k)}" for k in keys_of())
    assert_snapshot("\n".join(lines) + "\n", Path(__file__).with_name("values.txt"))
    assert values_in_words(NeuronExperiment, ("no", "such", "key")) == "a value"


def test_an_entry_is_described_by_its_container() -> None:
    described = description(NeuronExperiment, ("aws", "pins", "add_ons", "vpc-cni"))
    assert described == description(NeuronExperiment, ("aws", "pins", "add_ons"))
    assert "EKS add-on to its version" in described
    # An unknown key does not get the description of the section around it.
    assert description(NeuronExperiment, ("aws", "nonsense")) == ""
