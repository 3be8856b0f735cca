"""The JSON Schema that editors read: the published file is the model's."""

import json
import re
from pathlib import Path

import jsonschema
import pytest
import yaml

from draftworth.experiment.loading import experiment_json_schema
from draftworth.experiment.strict import PATTERN_WORDS
from tests.conftest import ROOT


@pytest.mark.parametrize(
    "file", sorted((ROOT / "experiments").glob("*.yaml")), ids=lambda f: f.stem
)
def test_the_json_schema_accepts_the_shipped_experiments(file: Path) -> None:
    data = yaml.load(file.read_text(), Loader=yaml.BaseLoader)  # noqa: S506 (all values as text)
    typed = json.loads(json.dumps(yaml.safe_load(file.read_text()), default=str))
    assert data
    jsonschema.validate(typed, experiment_json_schema())


def test_the_json_schema_refuses_what_the_loader_refuses() -> None:
    typed = yaml.safe_load((ROOT / "experiments" / "qwen3-32b.yaml").read_text())
    typed["serving"]["max_num_seq"] = 4
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(json.loads(json.dumps(typed, default=str)), experiment_json_schema())


def test_the_published_schema_file_is_the_models_schema() -> None:
    """`make schema` writes it; editors find it beside the experiments."""
    published = json.loads((ROOT / "experiments" / "experiment.schema.json").read_text())
    assert published == experiment_json_schema()


def test_every_pattern_of_the_schema_has_words() -> None:
    patterns = set(re.findall(r'"pattern": (".*")', json.dumps(experiment_json_schema(), indent=1)))
    assert len(patterns) >= 8
    assert {json.loads(p) for p in patterns} <= PATTERN_WORDS.keys()
