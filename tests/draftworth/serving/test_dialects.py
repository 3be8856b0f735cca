"""Serving flags: in every dialect, baseline and variant differ only in speculation's flags."""

import json
import tempfile
from functools import cache
from pathlib import Path
from typing import TypeGuard

import pytest

from draftworth.experiment.catalog import catalog
from draftworth.experiment.model import Experiment, NeuronExperiment
from draftworth.experiment.variants import AsShipped
from draftworth.records.servers import COMPILE_LIMIT_MINUTES
from draftworth.serving.dialects import artifact_inputs, serving_command
from draftworth.serving.server_command import (
    PER_REQUEST_ACCEPTANCE,
    ServingCommand,
    served_model_name,
)
from tests.conftest import ROOT
from tests.draftworth.serving.served import SERVED
from tests.support.experiments import Edit, both, load_spec, put, write_experiment

# The settings of speculation. vLLM does not start with the second flag but without the first, so
# the baseline can have neither.
OF_SPECULATION = {"--speculative-config", PER_REQUEST_ACCEPTANCE} | {
    *("enable_eagle_speculation", "is_eagle3"),
}


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


def on_neuron(*edits: Edit) -> NeuronExperiment:
    with tempfile.TemporaryDirectory() as folder:
        experiment = load_spec(write_experiment(Path(folder), both(*edits)))
    assert isinstance(experiment, NeuronExperiment)
    return experiment


@cache
def served(name: str) -> NeuronExperiment:
    return on_neuron(SERVED[name])


@pytest.mark.parametrize("name", SERVED)
def test_both_sides_differ_in_speculation_only(name: str) -> None:
    plain, drafted = commands(served(name))

    assert plain.environment == drafted.environment
    assert without(plain, OF_SPECULATION) == without(drafted, OF_SPECULATION)
    assert plain.arguments != drafted.arguments


def is_json(value: str | None) -> TypeGuard[str]:
    return value is not None and value.startswith("{")


def says(command: ServingCommand, setting: str) -> list[object]:
    """Return all values that a command gives a setting, as a flag or as a key in a JSON flag."""
    values: list[object] = []
    for name, value in command.flags.items():
        if name == setting:
            values.append((name, value))
        if is_json(value):
            values += [v for k, v in flattened(json.loads(value)) if k == setting]
    return values


def flattened(value: dict[str, object]) -> list[tuple[str, object]]:
    inner = [pair for v in value.values() if isinstance(v, dict) for pair in flattened(v)]
    return [*value.items(), *inner]


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("fused draft on 2.26.1", {"sequence_parallel_enabled", "on_device_sampling_config"}),
        ("eagle3 on 2.31.1", set()),
        ("eagle3 on 2.32.0", {"--no-async-scheduling"}),
        ("dflash on 2.33.0", {*catalog().releases["neuron-2.33.0"].depends_on_speculation}),
    ],
)
def test_settings_that_depend_on_speculation_are_equal(name: str, settings: set[str]) -> None:
    experiment = served(name)
    plain, drafted = commands(experiment)
    for setting in experiment.release_facts.depends_on_speculation:
        assert says(plain, setting) == says(drafted, setting)
        assert (setting in settings) == bool(says(plain, setting))


@pytest.mark.parametrize("edit", SERVED.values(), ids=SERVED)
def test_the_shipped_baseline_lacks_only_speculations_settings(
    edit: Edit,
) -> None:
    experiment = on_neuron(edit, put("baseline_as_shipped", value=True))
    *_, shipped = experiment.served_variants
    assert isinstance(shipped, AsShipped)
    plain, _ = commands(experiment)
    as_shipped = serving_command(experiment, shipped)

    settings = {*experiment.release_facts.depends_on_speculation}
    assert not any(says(as_shipped, setting) for setting in settings)
    assert as_shipped.environment == plain.environment
    assert without(as_shipped, set()) == without(plain, settings)


def without(command: ServingCommand, settings: set[str]) -> list[object]:
    """Return a command's flags without some settings, which may also be keys in a flag's JSON."""
    kept: list[object] = []
    for name, value in command.flags.items():
        if name not in settings:
            kept.append((name, less(json.loads(value), settings) if is_json(value) else value))
    return kept


def less(value: object, settings: set[str]) -> object:
    if isinstance(value, dict):
        return {k: less(v, settings) for k, v in value.items() if k not in settings}
    return value


def test_an_experiments_setting_reaches_every_variant() -> None:
    edit = put("serving", "neuron_config", value={"sequence_parallel_enabled": True})
    experiment = on_neuron(edit, put("baseline_as_shipped", value=True))
    command = serving_command(experiment, AsShipped())
    for each in (*commands(experiment), command):
        assert says(each, "sequence_parallel_enabled") == [True]
    assert says(command, "on_device_sampling_config") == []


@pytest.mark.parametrize(
    ("max_model_len", "output_tokens", "prompts"),
    [(1024, 600, 512), (1024, 512, 512), (1024, 1000, 128), (1024, 100, 1024), (100, 90, 100)],
)
def test_one_bucket_holds_every_prompt_with_its_output(
    max_model_len: int, output_tokens: int, prompts: int
) -> None:
    plain, drafted = commands(
        on_neuron(
            put("serving", "buckets", value="one"),
            put("serving", "max_model_len", value=max_model_len),
            put("workload", "output_tokens", value=output_tokens),
            put("workload", "input_tokens", value=8),
        )
    )

    configs = [json.loads(flag(c, "override-neuron-config")) for c in (plain, drafted)]
    assert configs[0] == configs[1]
    assert configs[0]["enable_bucketing"] is True
    assert configs[0]["context_encoding_buckets"] == [prompts]
    assert configs[0]["token_generation_buckets"] == [max_model_len]


def logging_prompts(command: ServingCommand, vllm_version: str) -> list[str]:
    """Return the reasons why a server with this command would log prompts; empty if it would not.

    vLLM up to 0.10.0 logs requests unless a flag says not to. Since 0.10.1 this flag has another
    name, and 0.17 removed the old one (vllm-project/vllm, pull request 21739).
    """
    old = tuple(int(part) for part in vllm_version.split(".")) < (0, 10, 1)
    right, wrong = "--disable-log-requests", "--no-enable-log-requests"
    right, wrong = (right, wrong) if old else (wrong, right)
    wrong_flags = [f"no {right}"] if right not in command.arguments else []
    logging_flags = [wrong, "--enable-log-requests", "--enable-log-outputs"]
    return wrong_flags + [flag for flag in logging_flags if flag in command.arguments]


@pytest.mark.parametrize("name", [*SERVED, "the rehearsal"])
def test_what_holds_for_every_server(name: str) -> None:
    experiment = (
        served(name) if name in SERVED else load_spec(ROOT / "experiments" / "rehearsal.yaml")
    )
    for command in commands(experiment):
        assert logging_prompts(command, experiment.release_facts.vllm_version) == []
        # Otherwise a model's generation_config.json may set top_k, top_p and penalties for requests
        # that leave them out.
        assert flag(command, "generation-config") == "vllm"
        # A checkpoint's own code is not trusted, and not staged either
        # (`pods/checkpoint_stager/model_files.py`).
        assert "--trust-remote-code" not in command.arguments
        assert flag(command, "served-model-name") == served_model_name(experiment)


@pytest.mark.parametrize(
    ("version", "arguments"),
    [
        ("0.9.1", ()),
        ("0.9.1", ("--no-enable-log-requests",)),
        ("0.24.0", ("--disable-log-requests",)),
        ("0.24.0", ("--no-enable-log-requests", "--enable-log-outputs")),
    ],
)
def test_servers_that_log_prompts_are_detected(version: str, arguments: tuple[str, ...]) -> None:
    command = ServingCommand(model="model", flags=dict.fromkeys(arguments), environment={})
    assert logging_prompts(command, version)


def test_a_tool_call_parser_reaches_every_variant(tmp_path: Path) -> None:
    parser_flags = {"--enable-auto-tool-choice", "--tool-call-parser=hermes"}
    edit = put("serving", "tool_call_parser", value="hermes")
    for base in ("qwen3-32b", "llama-3.1-8b-eagle3"):
        with_parser = commands(load_spec(write_experiment(tmp_path, edit, base=base)))
        without = commands(load_spec(write_experiment(tmp_path, lambda _: None, base=base)))
        for command, plain in zip(with_parser, without, strict=True):
            assert {*command.arguments} - {*plain.arguments} == parser_flags


@pytest.mark.parametrize("name", SERVED)
def test_a_server_outlasts_compilation_without_an_efa_adapter(name: str) -> None:
    experiment = served(name)
    inputs = artifact_inputs(experiment, experiment.variants[0])
    for command in commands(experiment):
        seconds = int(command.environment["VLLM_ENGINE_READY_TIMEOUT_S"])
        assert seconds >= 60 * COMPILE_LIMIT_MINUTES
        # NxD Inference does not check for an EFA adapter, so its servers do not get the variable.
        skips = command.environment.get("NEURON_SKIP_EFA_AFFINITY") == "1"
        assert skips == (experiment.release_facts.dialect == "vllm_neuron")
        # No environment variable changes a graph, so none may be in the artifact key.
        assert not {*command.environment} & {*inputs}
