"""Serving flags: the same for both sides but for speculation, in every dialect."""

import json
import tempfile
from functools import cache
from pathlib import Path
from typing import TypeGuard

import pytest

from draftworth.experiment.catalog import catalog
from draftworth.experiment.model import Experiment, NeuronExperiment
from draftworth.experiment.variants import AsShipped
from draftworth.serving.command import PER_REQUEST_ACCEPTANCE, ServingCommand
from draftworth.serving.dialects import neuron_dialect, serving_command
from draftworth.serving.vllm_neuron import VllmNeuron
from tests.conftest import ROOT
from tests.support.experiments import (
    DFLASH_HEAD,
    Edit,
    both,
    load_spec,
    on_small_nodes,
    put,
    resolved,
    write_experiment,
)

SPECULATION_KEYS = {"enable_eagle_speculation", "is_eagle3"}


def commands(experiment: Experiment) -> tuple[ServingCommand, ServingCommand]:
    baseline, speculating = experiment.variants
    return (
        serving_command(experiment, baseline),
        serving_command(experiment, speculating),
    )


def flag(command: ServingCommand, name: str) -> str:
    value = command.flags[f"--{name}"]
    assert value is not None
    return value


def speculating(method: str, release: str, draft: str, window: int = 7) -> Edit:
    target = "meta-llama/Llama-3.1-8B-Instruct" if "3.1-8B" in draft else "Qwen/Qwen3-32B"
    return both(
        put("variants", 1, "window", value=window),
        put("release", value=release),
        put("target", "model", value=target),
        put("variants", 1, "method", value=method),
        put("variants", 1, "draft", "model", value=draft),
    )


EAGLE3_HEAD = "RedHatAI/Llama-3.1-8B-Instruct-speculator.eagle3"
SERVED = {
    "fused draft on 2.26.1": speculating("fused_draft", "neuron-2.26.1", "Qwen/Qwen3-1.7B"),
    "eagle on 2.26.1": speculating("eagle", "neuron-2.26.1", "Qwen/Qwen3-1.7B"),
    "eagle3 on 2.28.0": speculating("eagle3", "neuron-2.28.0", EAGLE3_HEAD),
    "eagle3 on 2.31.1": speculating("eagle3", "neuron-2.31.1", EAGLE3_HEAD),
    "eagle3 on 2.31.1, vLLM Neuron": speculating(
        "eagle3", "neuron-2.31.1-vllm-0.21.0", EAGLE3_HEAD
    ),
    "eagle3 on 2.32.0": speculating("eagle3", "neuron-2.32.0", EAGLE3_HEAD),
    "eagle3 on 2.33.0": speculating("eagle3", "neuron-2.33.0", EAGLE3_HEAD),
    "dflash on 2.33.0": speculating("dflash", "neuron-2.33.0", DFLASH_HEAD, window=9),
}


@cache
def served(name: str) -> Experiment:
    if name not in SERVED:
        return load_spec(ROOT / "experiments" / "rehearsal.yaml")
    with tempfile.TemporaryDirectory() as folder:
        return load_spec(write_experiment(Path(folder), SERVED[name]))


@pytest.mark.parametrize("name", SERVED)
def test_both_sides_differ_in_speculation_only(name: str) -> None:
    plain, drafted = commands(served(name))

    assert plain.environment == drafted.environment
    assert without_speculation(plain) == without_speculation(drafted)
    assert plain.arguments != drafted.arguments


def without_speculation(command: ServingCommand) -> list[object]:
    kept: list[object] = []
    for name, value in command.flags.items():
        # vLLM refuses to start with the second one alone, so the baseline cannot have it.
        if name in ("--speculative-config", PER_REQUEST_ACCEPTANCE):
            continue
        kept.append((name, pruned(json.loads(value)) if is_json(value) else value))
    return kept


def is_json(value: str | None) -> TypeGuard[str]:
    return value is not None and value.startswith("{")


def pruned(value: object) -> object:
    if isinstance(value, dict):
        return {k: pruned(v) for k, v in value.items() if k not in SPECULATION_KEYS}
    return value


def on_neuron(folder: Path, *edits: Edit) -> NeuronExperiment:
    experiment = load_spec(write_experiment(folder, both(*edits)))
    assert isinstance(experiment, NeuronExperiment)
    return experiment


def says(command: ServingCommand, setting: str) -> list[object]:
    """What a command says of a setting: its flag, or its key in engine settings."""
    found: list[object] = []
    for name, value in command.flags.items():
        if name == setting:
            found.append((name, value))
        if is_json(value):
            found += [v for k, v in flattened(json.loads(value)) if k == setting]
    return found


def flattened(value: dict[str, object]) -> list[tuple[str, object]]:
    inner = [pair for v in value.values() if isinstance(v, dict) for pair in flattened(v)]
    return [*value.items(), *inner]


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("fused draft on 2.26.1", {"sequence_parallel_enabled", "on_device_sampling_config"}),
        ("eagle3 on 2.31.1", set()),
        ("eagle3 on 2.32.0", {"--no-async-scheduling"}),
        ("dflash on 2.33.0", {*VllmNeuron.SPECULATION_DEPENDENT_DEFAULTS}),
    ],
)
def test_settings_with_a_default_that_depends_on_speculation_are_equal_on_both_sides(
    tmp_path: Path, name: str, settings: set[str]
) -> None:
    experiment = on_neuron(tmp_path, SERVED[name])
    plain, drafted = commands(experiment)
    for setting in neuron_dialect(experiment).SPECULATION_DEPENDENT_DEFAULTS:
        assert says(plain, setting) == says(drafted, setting)
        assert (setting in settings) == bool(says(plain, setting))


@pytest.mark.parametrize("edit", SERVED.values(), ids=SERVED)
def test_the_baseline_as_shipped_lacks_what_is_there_for_speculation_and_nothing_else(
    tmp_path: Path, edit: Edit
) -> None:
    experiment = on_neuron(tmp_path, edit, put("baseline_as_shipped", value=True))
    *_, shipped = experiment.served_variants
    assert isinstance(shipped, AsShipped)
    plain, _ = commands(experiment)
    as_shipped = serving_command(experiment, shipped)

    settings = {*neuron_dialect(experiment).SPECULATION_DEPENDENT_DEFAULTS}
    assert not any(says(as_shipped, setting) for setting in settings)
    assert as_shipped.environment == plain.environment
    assert without(as_shipped, set()) == without(plain, settings)


def without(command: ServingCommand, settings: set[str]) -> list[object]:
    """The arguments, each with its own settings in JSON left out."""
    kept: list[object] = []
    for name, value in command.flags.items():
        if name not in settings:
            kept.append((name, less(json.loads(value), settings) if is_json(value) else value))
    return kept


def less(value: object, settings: set[str]) -> object:
    if isinstance(value, dict):
        return {k: less(v, settings) for k, v in value.items() if k not in settings}
    return value


def test_a_setting_of_the_experiments_own_stays_in_the_baseline_as_shipped(tmp_path: Path) -> None:
    own = put("serving", "neuron_config", value={"sequence_parallel_enabled": True})
    experiment = on_neuron(tmp_path, own, put("baseline_as_shipped", value=True))
    command = serving_command(experiment, AsShipped())
    assert says(command, "sequence_parallel_enabled") == [True]
    assert says(command, "on_device_sampling_config") == []


def test_dflash_takes_from_every_variant_what_it_does_not_support(tmp_path: Path) -> None:
    """For 4 sequences of 1024 tokens: 32 blocks each and one for drafts, and the unused one."""
    experiment = on_neuron(tmp_path, SERVED["dflash on 2.33.0"])
    for command in commands(experiment):
        assert {
            "--no-async-scheduling",
            "--no-enable-prefix-caching",
            "--no-enable-chunked-prefill",
            "--disable-hybrid-kv-cache-manager",
            "--dtype=bfloat16",
            "--max-num-batched-tokens=1024",
            "--block-size=32",
            "--num-gpu-blocks-override=133",
        } <= {*command.arguments}
        assert says(command, "quantization") == ["bf16"]
    _, drafted = commands(experiment)
    assert json.loads(flag(drafted, "speculative-config")) == {
        "method": "dflash",
        "model": "/models/draft",
        "num_speculative_tokens": 9,
    }


def test_without_dflash_nothing_of_it_is_there(tmp_path: Path) -> None:
    for command in commands(on_neuron(tmp_path, SERVED["eagle3 on 2.33.0"])):
        assert "--no-enable-chunked-prefill" not in command.arguments
        assert says(command, "quantization") == []


@pytest.mark.parametrize(
    ("name", "tells"), [("eagle3 on 2.33.0", True), ("eagle3 on 2.32.0", False)]
)
def test_only_the_speculative_side_tells_of_each_requests_drafts_where_the_image_can(
    tmp_path: Path, name: str, tells: bool
) -> None:
    plain, drafted = commands(on_neuron(tmp_path, SERVED[name]))
    told = [(PER_REQUEST_ACCEPTANCE, "summary")]
    assert says(plain, PER_REQUEST_ACCEPTANCE) == []
    assert says(drafted, PER_REQUEST_ACCEPTANCE) == (told if tells else [])


def test_fused_draft_settings_are_those_of_the_fork(experiments: Path) -> None:
    _, drafted = commands(load_spec(experiments / "qwen3-32b.yaml"))

    settings = json.loads(flag(drafted, "speculative-config"))
    # `method` is left out: the fork detects a draft model, and "eagle" would be a mislabel.
    assert settings == {
        "model": "/models/draft",
        "num_speculative_tokens": 7,
        "max_model_len": 1024,
    }
    assert "eagle-" not in settings["model"]


def test_the_forks_sampler_is_static_and_greedy_without_speculation_too(experiments: Path) -> None:
    plain, _ = commands(load_spec(experiments / "qwen3-32b.yaml"))
    assert says(plain, "sequence_parallel_enabled") == [False]
    assert says(plain, "dynamic") == says(plain, "do_sample") == [False]


def test_the_experiments_own_neuron_config_reaches_both_sides(tmp_path: Path) -> None:
    edit = put("serving", "neuron_config", value={"sequence_parallel_enabled": True})
    plain, drafted = commands(load_spec(write_experiment(tmp_path, edit)))

    for command in (plain, drafted):
        config = json.loads(flag(command, "override-neuron-config"))
        assert config["sequence_parallel_enabled"] is True


@pytest.mark.parametrize(
    ("max_model_len", "output_tokens", "prompts"),
    [(1024, 600, 512), (1024, 512, 512), (1024, 1000, 128), (1024, 100, 1024), (100, 90, 100)],
)
def test_one_bucket_of_each_kind_holds_every_prompt_that_leaves_room_for_its_output(
    tmp_path: Path, max_model_len: int, output_tokens: int, prompts: int
) -> None:
    edits = (
        put("serving", "buckets", value="one"),
        put("serving", "max_model_len", value=max_model_len),
        put("workload", "output_tokens", value=output_tokens),
        put("workload", "input_tokens", value=8),
    )
    plain, drafted = commands(load_spec(write_experiment(tmp_path, both(*edits))))

    configs = [json.loads(flag(c, "override-neuron-config")) for c in (plain, drafted)]
    assert configs[0] == configs[1]
    assert configs[0]["enable_bucketing"] is True
    assert configs[0]["context_encoding_buckets"] == [prompts]
    assert configs[0]["token_generation_buckets"] == [max_model_len]


def test_by_itself_the_engine_chooses_its_buckets(experiments: Path) -> None:
    for command in commands(load_spec(experiments / "llama-3.1-8b-eagle3.yaml")):
        assert says(command, "context_encoding_buckets") == []


def test_eagle3_on_vllm_neuron_names_its_method(experiments: Path) -> None:
    plain, drafted = commands(load_spec(experiments / "llama-3.1-8b-eagle3.yaml"))

    settings = json.loads(flag(drafted, "speculative-config"))
    assert settings["method"] == "eagle3"
    assert settings["num_speculative_tokens"] == 3
    assert "--no-enable-prefix-caching" in plain.arguments


def test_every_dialect_of_the_catalogue_is_tested() -> None:
    dialects = {r.dialect for r in catalog().releases.values() if r.platform == "neuron"}
    tested = {"neuron_v0_nxdi", "neuron_v1_nxdi", "vllm_neuron"}
    assert dialects == tested


def logging_prompts(command: ServingCommand, vllm_version: str) -> list[str]:
    """Why this command would put what people ask into the server's log; nothing if it does not.

    vLLM up to 0.10.0 logs requests unless told otherwise; from 0.10.1 the flag has another name,
    and the old one is gone in 0.17 (vllm-project/vllm, pull request 21739).
    """
    old = tuple(int(part) for part in vllm_version.split(".")) < (0, 10, 1)
    right, wrong = "--disable-log-requests", "--no-enable-log-requests"
    right, wrong = (right, wrong) if old else (wrong, right)
    found = [f"no {right}"] if right not in command.arguments else []
    known = [wrong, "--enable-log-requests", "--enable-log-outputs"]
    return found + [flag for flag in known if flag in command.arguments]


@pytest.mark.parametrize("name", [*SERVED, "the rehearsal"])
def test_no_server_logs_what_it_is_asked(name: str) -> None:
    experiment = served(name)
    for command in commands(experiment):
        assert logging_prompts(command, experiment.release_facts.vllm_version) == []


@pytest.mark.parametrize(
    ("version", "arguments"),
    [
        ("0.9.1", ()),
        ("0.9.1", ("--no-enable-log-requests",)),
        ("0.24.0", ("--disable-log-requests",)),
        ("0.24.0", ("--no-enable-log-requests", "--enable-log-outputs")),
    ],
)
def test_a_server_that_logs_or_does_not_know_the_flag_is_found(
    version: str, arguments: tuple[str, ...]
) -> None:
    command = ServingCommand(model="model", flags=dict.fromkeys(arguments), environment={})
    assert logging_prompts(command, version)


@pytest.mark.parametrize("name", [*SERVED, "the rehearsal"])
def test_no_server_draws_from_another_distribution_than_the_models(name: str) -> None:
    """A generation_config.json may set top_k, top_p and penalties that a request leaves out."""
    for command in commands(served(name)):
        assert flag(command, "generation-config") == "vllm"


@pytest.mark.parametrize("name", SERVED)
def test_no_server_runs_code_of_a_model_repository(name: str) -> None:
    """Such code is not staged either (`pods/checkpoint_stager/files.py`)."""
    for command in commands(served(name)):
        assert "--trust-remote-code" not in command.arguments


def test_a_parser_of_tool_calls_is_given_to_every_variant(tmp_path: Path) -> None:
    own = {"--enable-auto-tool-choice", "--tool-call-parser=hermes"}
    edit = put("serving", "tool_call_parser", value="hermes")
    for base in ("qwen3-32b", "llama-3.1-8b-eagle3"):
        with_parser = commands(load_spec(write_experiment(tmp_path, edit, base=base)))
        without = commands(load_spec(write_experiment(tmp_path, lambda _: None, base=base)))
        for command, plain in zip(with_parser, without, strict=True):
            assert {*command.arguments} - {*plain.arguments} == own


def test_the_servers_answer_to_the_targets_name(experiments: Path) -> None:
    plain, drafted = commands(load_spec(experiments / "qwen3-32b.yaml"))
    assert flag(plain, "served-model-name") == flag(drafted, "served-model-name")
    assert flag(plain, "served-model-name") == "Qwen/Qwen3-32B"


@pytest.mark.parametrize("index", [0, 1])
def test_only_nodes_without_efa_are_told_not_to_look_for_it(index: int) -> None:
    large = resolved("llama-3.1-8b-eagle3")
    small = on_small_nodes(large)
    name = "NEURON_SKIP_EFA_AFFINITY"
    assert small.variants[index].command.environment[name] == "1"
    assert name not in large.variants[index].command.environment
