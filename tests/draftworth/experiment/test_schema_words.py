"""What is said of a key's meaning and values, where it is missing or wrong."""

import pytest

from draftworth.errors import Key
from draftworth.experiment.model import NeuronExperiment
from draftworth.experiment.schema_words import description, nodes_at, values_in_words


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
