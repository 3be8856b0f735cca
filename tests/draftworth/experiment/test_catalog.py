"""The catalogue's facts, and what is computed from them."""

import pytest

from draftworth.experiment.aws import second_zone
from draftworth.experiment.catalog import catalog
from tests.support.experiments import changed_aws, resolved


def test_every_method_that_a_release_serves_is_described() -> None:
    served = {method for release in catalog().releases.values() for method in release.methods}
    assert served <= catalog().methods.keys()


@pytest.mark.parametrize(
    ("release", "method", "window", "most"),
    [
        ("neuron-2.26.1", "fused_draft", 7, 7),
        ("neuron-2.32.0", "eagle3", 3, 4),
        ("neuron-2.33.0", "dflash", 9, 10),
        ("cpu-vllm-0.32.0", "draft_model", 7, 8),
    ],
)
def test_window_semantics_differ_between_releases(
    release: str, method: str, window: int, most: int
) -> None:
    facts = catalog().releases[release].methods[method]
    assert facts.max_tokens_per_step(window) == most


def test_facts_have_sources_and_neuron_releases_have_images() -> None:
    for name, release in catalog().releases.items():
        assert release.sources, name
        on_neuron = release.platform == "neuron"
        assert (release.image is not None) == on_neuron, name
        assert (release.compiled_graphs is not None) == on_neuron, name
        if release.image:
            assert release.vllm_version in release.image
            assert name.removeprefix("neuron-").partition("-")[0] in release.image


def test_vllm_neuron_needs_two_physical_cores_per_logical() -> None:
    for name, release in catalog().releases.items():
        assert release.lnc == ((2,) if release.dialect == "vllm_neuron" else None), name


def test_only_heads_name_their_target_and_dialects() -> None:
    models = catalog().models
    dialects = {release.dialect for release in catalog().releases.values()}
    for name, facts in models.items():
        assert (facts.trained_for is None) == (facts.kind == "causal_lm"), name
        if facts.trained_for:
            assert models[facts.trained_for].tokenizer_family == facts.tokenizer_family, name
        named = {*facts.served_by, *facts.doubtful_on, *facts.heads_doubtful_on}
        assert named <= dialects, name
        assert (facts.window is not None) == (facts.kind == "dflash_head"), name


def test_no_release_serves_an_unserved_method() -> None:
    for method, unserved in catalog().unserved_methods.items():
        for name, release in catalog().releases.items():
            if unserved.platform in (None, release.platform):
                assert method not in release.methods, f"{method} on {name}"


@pytest.mark.parametrize(
    ("zones", "other"),
    [
        ({"availability_zone": "us-east-2c"}, "us-east-2a"),
        ({"availability_zone": "us-east-2a"}, "us-east-2b"),
        ({"second_zone": "us-east-2f"}, "us-east-2f"),
    ],
)
def test_the_second_zone_is_stated_or_another(zones: dict[str, str], other: str) -> None:
    assert second_zone(changed_aws(resolved(), **zones).spec.aws) == other
