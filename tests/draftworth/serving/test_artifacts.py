"""Artifact keys: what changes the graph changes the key, and nothing else does.

Its tables together hold every field of an experiment, so a new field has to be put into one.
"""

import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from draftworth.experiment.catalog import catalog
from draftworth.experiment.model import NeuronExperiment
from draftworth.experiment.strict_model import StrictModel
from draftworth.serving import dialects
from tests.draftworth.serving.served import SERVED
from tests.support.experiments import load_spec, resolved, with_rounds, write_experiment
from tests.support.snapshot import assert_snapshot

EXPERIMENT: NeuronExperiment = with_rounds().spec

NUMBERS = st.integers(1, 10_000)
WORDS = st.text(st.characters(codec="ascii"), max_size=8)
ANYTHING = NUMBERS | WORDS | st.none()
NEURON_RELEASES = [name for name, r in catalog().releases.items() if r.platform == "neuron"]

# The fields that change the compiled graph, and values for each. `variants[]` has a draft.
IN_THE_KEY: dict[str, st.SearchStrategy[Any]] = {
    # A release stands for the image, the vLLM version and the dialect.
    "release": st.sampled_from(NEURON_RELEASES),
    "target.model": WORDS,
    "target.revision": WORDS,
    "serving.max_num_seqs": NUMBERS,
    "serving.max_model_len": NUMBERS,
    "serving.slot_devices": NUMBERS,
    "serving.lnc": NUMBERS,
    "serving.buckets": st.just("one"),
    # Settings with names that no dialect sets: a setting that repeats a default changes no graph.
    "serving.neuron_config": st.dictionaries(WORDS.map("x_{}".format), NUMBERS, min_size=1),
    "variants[].method": st.sampled_from(["fused_draft", "eagle", "eagle3"]),
    "variants[].window": NUMBERS,
    "variants[].draft.model": WORDS,
    "variants[].draft.revision": WORDS,
    "aws.pins.serving_image_digest": st.text("0123456789abcdef", min_size=64, max_size=64).map(
        "sha256:{}".format
    ),
    "aws.instance_type": st.sampled_from([*catalog().instances]),
}
# The fields that change no graph, by section of the experiment file (empty: the top level).
# `baseline_as_shipped` adds a variant, which has a key of its own. `tool_call_parser` reads what a
# model has already written. `output_tokens` matters only if `serving.buckets` is `one`: then the
# length that it leaves for prompts is in the key.
NOT_IN_SECTIONS = {
    "": "name description baseline_as_shipped rerun repetitions control",
    "target.": "allow_pickle_weights tokenizer_family",
    "serving.": "tool_call_parser",
    "variants[].": "name draft.allow_pickle_weights draft.tokenizer_family",
    "workload.": "prompts_dir input_tokens output_tokens fixed_output_length temperature "
    "concurrency requests_per_second load_generator requests_per_round min_requests max_requests "
    "target_interval_percent stop warmup_requests parallel seed token_ids enable_thinking "
    "request_timeout_seconds",
    "workload.classes[].": "name cases weight",
    "workload.limits.": "ttft_p95_ms itl_p95_ms e2e_p95_ms failures_percent",
    "aws.": "region availability_zone second_zone kubernetes_version public_access_cidrs "
    "admin_principal_arns pins.node_release pins.add_ons accelerator_budget_usd notify_email "
    "hub_token_secret keep_checkpoints checkpoints_bucket keep_results load_generator_image "
    "deadline_minutes hold",
    "aws.capacity.": "kind reservation_id hours",
    "aws.price.": "usd_per_hour as_of source",
}
NOT_IN_THE_KEY = {f"{s}{name}" for s, names in NOT_IN_SECTIONS.items() for name in names.split()}
# The fields of a search, which adds variants; these have keys of their own.
ADDS_VARIANTS = {
    "search.forecast",
    "search.method",
    "search.windows",
    *(
        f"search.stop.{name}"
        for name in (
            "last_start_usd",
            "last_start_hours",
            "within_percent",
            "tokens_per_day",
            "days",
        )
    ),
    *(
        f"search.drafts[].{name}"
        for name in ("model", "revision", "tokenizer_family", "allow_pickle_weights")
    ),
}


def fields_of(model: type[StrictModel], prefix: str = "") -> Iterator[str]:
    """Yield the dotted names of all fields that hold a value, such as `variants[].window`."""
    hints = typing.get_type_hints(model, include_extras=False)
    for name in model.model_fields:
        inner = list(_models(hints[name]))
        many = "[]" if typing.get_origin(hints[name]) is tuple else ""
        if not inner:
            yield f"{prefix}{name}"
        for each in inner:
            yield from fields_of(each, f"{prefix}{name}{many}.")


def _models(hint: Any) -> Iterator[type[StrictModel]]:
    if isinstance(hint, type) and issubclass(hint, StrictModel):
        yield hint
    for argument in typing.get_args(hint):
        yield from _models(argument)


def with_value(model: Any, path: str, value: Any) -> Any:
    """Return a copy with another value at `path`, which is not validated.

    In a list, the last item is changed.
    """
    name, _, rest = path.partition(".")
    name, many, _ = name.partition("[]")
    if not rest:
        return model.model_copy(update={name: value})
    inner = getattr(model, name)
    if many:
        changed: Any = (*inner[:-1], with_value(inner[-1], rest, value))
    else:
        changed = with_value(inner, rest, value)
    return model.model_copy(update={name: changed})


def value_at(model: Any, path: str) -> Any:
    for part in path.split("."):
        model = getattr(model, part.removesuffix("[]"))
        model = model[-1] if part.endswith("[]") else model
    return model


def keys(experiment: NeuronExperiment) -> tuple[str, ...]:
    return tuple(
        dialects.artifact_key(dialects.artifact_inputs(experiment, variant))
        for variant in experiment.variants
    )


def test_every_experiment_field_is_in_one_table() -> None:
    tables = [*IN_THE_KEY, *NOT_IN_THE_KEY, *ADDS_VARIANTS]
    assert sorted(tables) == sorted(set(fields_of(NeuronExperiment)))


def test_candidates_and_variants_by_hand_share_keys() -> None:
    searched = {v.name: v.artifact_key for v in resolved("qwen3-32b-search").variants}
    by_hand = {v.name: v.artifact_key for v in resolved("qwen3-32b").variants}
    assert len(by_hand) == 2
    assert by_hand.items() <= searched.items()


class Inner(StrictModel):
    here: int


class Other(StrictModel):
    there: int


class Outer(StrictModel):
    plain: tuple[str, ...] | None
    one: Inner | Other
    many: tuple[Inner, ...]


def test_the_fields_are_found_through_lists_and_alternatives() -> None:
    assert set(fields_of(Outer)) == {"plain", "one.here", "one.there", "many[].here"}


@given(st.dictionaries(st.sampled_from(sorted(NOT_IN_THE_KEY)), ANYTHING))
def test_settings_outside_the_graph_keep_the_keys(changes: dict[str, Any]) -> None:
    changed = EXPERIMENT
    for path, value in changes.items():
        changed = with_value(changed, path, value)
    assert keys(changed) == keys(EXPERIMENT)


@pytest.mark.parametrize("path", IN_THE_KEY)
@given(data=st.data())
def test_what_changes_the_graph_changes_the_key(path: str, data: st.DataObject) -> None:
    value = data.draw(IN_THE_KEY[path])
    assume(value != value_at(EXPERIMENT, path))
    before, after = keys(EXPERIMENT), keys(with_value(EXPERIMENT, path, value))
    assert before[1] != after[1]
    assert (before[0] == after[0]) == path.startswith("variants[]"), "the baseline's"


def test_every_release_has_keys_of_its_own() -> None:
    """Two releases of one dialect differ only in the image, which has another compiler."""
    keys_of_releases = [
        key for name in NEURON_RELEASES for key in keys(with_value(EXPERIMENT, "release", name))
    ]
    assert len(NEURON_RELEASES) > len({catalog().releases[n].dialect for n in NEURON_RELEASES})
    assert len(set(keys_of_releases)) == len(keys_of_releases) == 2 * len(NEURON_RELEASES)


ALL_OF_THEM = st.fixed_dictionaries(IN_THE_KEY)


@given(ALL_OF_THEM, ALL_OF_THEM)
def test_equal_keys_mean_equal_graphs(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert (drafted_key(one) == drafted_key(other)) == (one == other)
    assert drafted_key(one) == drafted_key(dict(reversed(one.items())))


def drafted_key(values: dict[str, Any]) -> str:
    experiment = EXPERIMENT
    for path, value in values.items():
        experiment = with_value(experiment, path, value)
    return keys(experiment)[1]


def test_another_version_of_a_dialect_is_another_key(monkeypatch: pytest.MonkeyPatch) -> None:
    before = keys(EXPERIMENT)
    monkeypatch.setattr(dialects.NEURON_DIALECTS["neuron_v0_nxdi"], "VERSION", 99)
    assert not set(before) & set(keys(EXPERIMENT))


# Flags and variables that do not reach the compiler.
WITHOUT_EFFECT = (
    "--served-model-name=",
    "--port=",
    "--disable-log-requests",
    "--no-enable-log-requests",
    "--generation-config=",
    "NEURON_SKIP_EFA_AFFINITY=",
    "VLLM_ENGINE_READY_TIMEOUT_S=",
)
FLAGS_FILE = Path(__file__).parent / "snapshots" / "graph-flags.yaml"


def version(dialect: str) -> int:
    """Return a dialect's VERSION in artifact keys; 1 for a dialect that compiles nothing."""
    return dialects.NEURON_DIALECTS[dialect].VERSION if dialect in dialects.NEURON_DIALECTS else 1


def flags_by_dialect(folder: Path) -> dict[str, Any]:
    """Return for each dialect its version, and its flags and environment by experiment."""
    flags_of: dict[str, Any] = {}
    for name, edit in SERVED.items():
        experiment = load_spec(write_experiment(folder, edit))
        dialect = experiment.release_facts.dialect
        entry = flags_of.setdefault(dialect, {"version": version(dialect), "flags": {}})
        for variant in experiment.variants:
            command = dialects.serving_command(experiment, variant)
            environment = [f"{k}={v}" for k, v in sorted(command.environment.items())]
            entry["flags"][f"{name}, {variant.method}"] = [
                each
                for each in (*environment, *command.arguments)
                if not each.startswith(WITHOUT_EFFECT)
            ]
    return flags_of


def dialects_changed_in_silence(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Return dialects with changed flags but the same version: old graphs would be served."""
    return [
        dialect
        for dialect, entry in after.items()
        if dialect in before
        and entry["flags"] != before[dialect]["flags"]
        and entry["version"] <= before[dialect]["version"]
    ]


def test_a_changed_dialect_has_a_new_version(tmp_path: Path) -> None:
    current = flags_by_dialect(tmp_path)
    if FLAGS_FILE.exists():
        before = yaml.safe_load(FLAGS_FILE.read_text(encoding="utf-8"))
        silent = dialects_changed_in_silence(before, current)
        assert silent == [], "raise their VERSION, unless no flag reaches the graph"
    assert_snapshot(current, FLAGS_FILE)


def test_a_change_without_another_version_is_found() -> None:
    before = {"d": {"version": 1, "flags": {"x": ["--a"]}}}
    assert dialects_changed_in_silence(before, {"d": {"version": 1, "flags": {"x": ["--b"]}}}) == [
        "d"
    ]
    assert dialects_changed_in_silence(before, {"d": {"version": 2, "flags": {"x": ["--b"]}}}) == []
