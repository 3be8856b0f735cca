"""The catalogue's facts, and what is computed from them."""

import pytest

from draftworth.experiment.catalog import ArtifactFolder, CompilerCache, catalog


def test_only_the_2_26_1_image_serves_a_fused_draft() -> None:
    serving = [n for n, r in catalog().releases.items() if "fused_draft" in r.methods]
    assert serving == ["neuron-2.26.1"]


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


@pytest.mark.parametrize(("lnc", "cores"), [(1, 64), (2, 32)])
def test_eight_devices_have_so_many_logical_cores(lnc: int, cores: int) -> None:
    assert catalog().instances["trn2.48xlarge"].logical_cores(devices=8, lnc=lnc) == cores


def test_every_fact_has_a_source_and_every_neuron_release_an_image() -> None:
    for name, release in catalog().releases.items():
        assert release.sources, name
        assert (release.image is not None) == (release.platform == "neuron"), name
        if release.image:
            assert release.vllm_version in release.image
            assert name.removeprefix("neuron-").partition("-")[0] in release.image


@pytest.mark.parametrize(
    ("release", "way"),
    [
        (
            "neuron-2.26.1",
            ArtifactFolder(kind="artifact_folder", variable="NEURON_COMPILED_ARTIFACTS"),
        ),
        (
            "neuron-2.32.0",
            CompilerCache(
                kind="compiler_cache",
                variable="VLLM_CACHE_ROOT",
                folder="neuron/compile_cache",
                proof_variable="VLLM_NEURON_DISABLE_WARMUP_COMPILE",
            ),
        ),
        (
            "neuron-2.33.0",
            CompilerCache(
                kind="compiler_cache",
                variable="VLLM_CACHE_ROOT",
                folder=".",
                proof_variable="VLLM_NEURON_DISABLE_WARMUP_COMPILE",
            ),
        ),
        ("cpu-vllm-0.32.0", None),
    ],
)
def test_a_release_keeps_compiled_graphs_in_its_own_way(release: str, way: object) -> None:
    assert catalog().releases[release].compiled_graphs == way


def test_every_neuron_release_says_how_it_keeps_compiled_graphs() -> None:
    for name, release in catalog().releases.items():
        assert (release.compiled_graphs is not None) == (release.platform == "neuron"), name


def test_the_small_type_is_one_device_without_efa_or_known_disks() -> None:
    small = catalog().instances["trn2.3xlarge"]
    assert (small.devices, small.legal_slot_devices) == (1, (1,))
    assert (small.efa_interfaces, small.nvme_gib) == (0, 0)
    assert small.logical_cores(devices=1, lnc=2) == 4


def test_only_0_29_serves_dflash_and_names_the_backend_whose_traces_are_kept() -> None:
    serving = {n: r for n, r in catalog().releases.items() if "dflash" in r.methods}
    assert [*serving] == ["neuron-2.33.0"]
    assert serving["neuron-2.33.0"].environment == {"VLLM_NEURON_BACKEND": "neuron_native"}


def test_vllm_neuron_runs_with_two_physical_cores_in_a_logical_one() -> None:
    for name, release in catalog().releases.items():
        assert release.lnc == ((2,) if release.dialect == "vllm_neuron" else None), name


@pytest.mark.parametrize(
    ("head", "window"),
    [
        ("z-lab/gpt-oss-20b-DFlash", 7),
        ("z-lab/LLaMA3.1-8B-Instruct-DFlash-UltraChat", 9),
        ("z-lab/Qwen3-4B-DFlash-b16", 15),
    ],
)
def test_a_dflash_head_has_the_window_that_it_was_trained_for(head: str, window: int) -> None:
    assert catalog().models[head].window == window


def test_heads_and_only_heads_name_a_target_of_the_catalogue_and_its_dialects() -> None:
    models = catalog().models
    dialects = {release.dialect for release in catalog().releases.values()}
    for name, facts in models.items():
        assert (facts.trained_for is None) == (facts.kind == "causal_lm"), name
        if facts.trained_for:
            assert models[facts.trained_for].tokenizer_family == facts.tokenizer_family, name
        assert {*facts.served_by, *facts.doubtful_on} <= dialects, name
        assert (facts.window is not None) == (facts.kind == "dflash_head"), name


def test_no_release_serves_a_method_that_the_catalogue_calls_unserved() -> None:
    for method, unserved in catalog().unserved_methods.items():
        for name, release in catalog().releases.items():
            if unserved.platform in (None, release.platform):
                assert method not in release.methods, f"{method} on {name}"
