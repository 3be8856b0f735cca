"""Wrong experiment files: which rule refuses each, at which key, and in which words.

`refused.txt` has the words: every problem of every row, read by people in a diff.
"""

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from draftworth.errors import ExperimentError, Problem
from draftworth.experiment import rules
from draftworth.experiment.loading import load_experiment
from draftworth.experiment.rules import models, search, workload
from tests.conftest import ROOT
from tests.support.experiments import OF_HEADS, Edit, both, drop, put, write_experiment
from tests.support.snapshot import assert_snapshot


def sets(key: str, value: object) -> Edit:
    """An edit of a key as problems name it: `variants[1].window`."""
    parts = re.findall(r"[^.\[\]]+", key)
    return put(*(int(part) if part.isdecimal() else part for part in parts), value=value)


SPECULATIVE = {
    "name": "k5",
    "method": "fused_draft",
    "draft": {"model": "Qwen/Qwen3-1.7B"},
    "window": 5,
}
NGRAM = {"name": "ngram-k5", "method": "ngram", "window": 5}
BY_HAND = {**SPECULATIVE, "name": "as-published", "window": 7}
DFLASH_ON_QWEN = both(
    sets("release", "neuron-2.33.0"),
    sets("target.model", "Qwen/Qwen3-4B"),
    sets("variants[1].method", "dflash"),
    sets("variants[1].draft.model", "z-lab/Qwen3-4B-DFlash-b16"),
    sets("variants[1].window", 15),
)
FORECAST = sets("search.forecast", "forecast.json")
BLOCK = {"kind": "capacity_block", "reservation_id": "cr-0123456789abcdef0"}
ON_ONE_DEVICE = both(
    sets("aws.instance_type", "trn2.3xlarge"),
    sets("serving.slot_devices", 1),
    sets("serving.tensor_parallel_size", 4),
)
WHOLE_NODES = both(sets("serving.slot_devices", 16), sets("serving.tensor_parallel_size", 64))
TINY_PAIR = ROOT / "rehearsal" / "tiny_pair"
TOOL = {"type": "function", "function": {"name": "weather"}}
# The prompt classes of the rows below, one line each.
PROMPTS: dict[str, dict[str, object]] = {
    "long": {"prompt": "word " * 200_000},
    "no-prompt": {},
    "asks-for-601": {"prompt": "x", "max_tokens": 601},
    "asks-for-600": {"prompt": "x", "max_tokens": 600},
    "tools": {"prompt": "x", "tools": [TOOL]},
    "tools-auto": {"prompt": "x", "tools": [TOOL], "tool_choice": "auto"},
    "one-tool": {"prompt": "x", "tools": [TOOL], "tool_choice": TOOL},
    "no-tool": {"prompt": "x", "tools": [TOOL], "tool_choice": "none"},
    "json": {"prompt": "x", "response_format": {"type": "json_object"}},
}


def asked(prompt_class: str, *, fixed_length: bool = True) -> Edit:
    """An edit: prompts of one of the classes above alone."""
    return both(
        sets("workload.prompts_dir", "prompts"),
        sets("workload.classes", [{"name": prompt_class}]),
        sets("workload.fixed_output_length", fixed_length),
    )


def at(key: str, value: object, *edits: Edit) -> tuple[str, Edit]:
    """A row: the key is refused for this value, after some edits of other keys."""
    return key, both(*edits, sets(key, value))


def first(key: str, value: object) -> tuple[str, Edit]:
    """A row: the first entry of a list is refused."""
    return f"{key}[0]", sets(key, [value])


def part(key: str, name: str, value: object) -> tuple[str, Edit]:
    """A row: a key of what is set is refused."""
    return f"{key}.{name}", sets(key, value)


# Of each rule: the key that it refuses, and what is changed in a shipped file so that it does.
Rows = dict[str, list[tuple[str, Edit]]]
NEURON: Rows = {
    "exactly-one-baseline": [
        ("variants", sets("variants[0]", SPECULATIVE)),
        ("variants", lambda data: data["variants"].append({"name": "again", "method": "none"})),
    ],
    "something-to-compare": [("variants", drop("variants", 1))],
    "too-short": [at("variants", []), at("workload.input_tokens", [])],
    "every-token-accepted-would-pay": [
        ("variants[1].window", sets("variants[1].draft.model", "Qwen/Qwen3-32B"))
    ],
    "methods-the-release-serves": [
        ("variants[1].method", sets("release", "neuron-2.32.0")),
        at("variants[1].method", "draft_model"),
        ("variants[1].method", both(DFLASH_ON_QWEN, sets("release", "neuron-2.32.0"))),
    ],
    "union-tag-not-found": [
        at("variants[1].method", "guesswork"),
        at("variants[1].method", "medusa"),
        at("variants[1].method", "fused_drafts"),
        ("workload.load.kind", sets("workload.load", {"knd": "concurrency", "concurrency": 4})),
        ("workload.load.kind", sets("workload.load", {"concurrency": 4})),
        ("variants[0].method", sets("variants[0]", {"name": "baseline", "methd": "none"})),
        at("variants[0].method", "nonne"),
        at("variants[1].method", ["eagle"]),
    ],
    "window-is-that-of-the-draft": [at("variants[1].window", 7, DFLASH_ON_QWEN)],
    "head-is-of-the-target": [
        ("variants[1].draft.model", both(DFLASH_ON_QWEN, sets("target.model", "Qwen/Qwen3-8B")))
    ],
    "dflash-is-in-bf16": [
        (
            "serving.neuron_config.quantization",
            both(DFLASH_ON_QWEN, sets("serving.neuron_config", {"quantization": "mxfp4"})),
        )
    ],
    "draft-is-what-the-method-takes": [
        ("variants[1].draft.model", both(DFLASH_ON_QWEN, sets("variants[1].method", "eagle3"))),
        at(
            "variants[1].draft.model",
            "RedHatAI/Llama-3.1-8B-Instruct-speculator.eagle3",
            sets("target.model", "meta-llama/Llama-3.1-8B-Instruct"),
        ),
    ],
    "lnc-is-one-that-runs": [
        at("serving.lnc", 1, DFLASH_ON_QWEN, sets("serving.tensor_parallel_size", 64)),
        at("serving.lnc", 4),
        at("serving.lnc", 1, DFLASH_ON_QWEN, ON_ONE_DEVICE),
        at("serving.lnc", 3, DFLASH_ON_QWEN, ON_ONE_DEVICE),
        at("serving.lnc", 3, ON_ONE_DEVICE),
    ],
    "reserved-name": [at("variants[1].name", "baseline-as-shipped")],
    "unknown-release": [
        at("release", "neuron-2.26"),
        at("release", ["neuron-2.26.1"]),
        ("release", drop("release")),
        ("release", both(drop("release"), sets("relase", "neuron-2.26.1"))),
        at("release", None),
    ],
    "literal-error": [at("aws.instance_type", "trn2.6xlarge"), at("aws.kubernetes_version", 1.35)],
    "slot-is-connected": [
        ("serving.slot_devices", sets("aws.instance_type", "trn2.3xlarge")),
        at("serving.slot_devices", 2),
        at("serving.slot_devices", 8, ON_ONE_DEVICE),
    ],
    "pins-are-of-what-is-deployed": [
        ("aws.pins.node_release", sets("aws.pins", {"node_release": "1.34.2-20261102"})),
        (
            "aws.pins.add_ons.vpc-cmi",
            sets("aws.pins", {"add_ons": {"vpc-cmi": "v1.21.1-eksbuild.3"}}),
        ),
        (
            "aws.pins.add_ons.aws-mountpoint-s3-csi-driver",
            sets("aws.pins", {"add_ons": {"aws-mountpoint-s3-csi-driver": "v1.15.0-eksbuild.1"}}),
        ),
    ],
    "string-pattern-mismatch": [
        first("aws.admin_principal_arns", "arn:aws:sts::111122223333:assumed-role/A/b"),
        first("aws.admin_principal_arns", "arn:aws:iam::1:role/Admin"),
        first("aws.admin_principal_arns", "arn:aws:iam::111122223333:role/*"),
        ("aws.pins.node_release", sets("aws.pins", {"node_release": "1.35"})),
        ("aws.pins.add_ons.vpc-cni", sets("aws.pins", {"add_ons": {"vpc-cni": "latest"}})),
        at("variants[1].name", "Draft_7"),
        part(
            "aws.capacity", "reservation_id", {"kind": "capacity_block", "reservation_id": "i-123"}
        ),
        at("aws.region", "Ohio"),
        at("aws.region", "us-est-2"),
        at("aws.region", "us-est-2", sets("aws.availability_zone", "us-est-2c")),
        at("target.model", "Qwen/.."),
        at("target.model", "acme/モデル"),
        at("target.revision", ".."),
        at("target.revision", "v1..v2"),
        at("target.revision", "-f"),
    ],
    "tensor-parallel-fills-the-slot": [
        at("serving.tensor_parallel_size", 16),
        ("serving.tensor_parallel_size", both(ON_ONE_DEVICE, sets("serving.lnc", 1))),
    ],
    "lengths-fit": [
        at("serving.max_model_len", 512),
        ("serving.max_model_len", sets("workload.input_tokens", [64, 512])),
    ],
    "draft-is-of-the-targets-family": [
        at("variants[1].draft.model", "meta-llama/Llama-3.2-1B-Instruct")
    ],
    "tokenizer-family-is-known": [
        ("variants[1].draft.model", sets("variants[1].draft.model", "acme/Draft-1B")),
        at("target.tokenizer_family", "llama3"),
        ("variants[1].draft.model", sets("variants[1].draft.model", "Qwen/Qwen3-1.7b")),
    ],
    "target-is-a-model": [at("target.model", "RedHatAI/Llama-3.1-8B-Instruct-speculator.eagle3")],
    "window-drafts-something": [at("variants[1].window", 1)],
    "greater-than-equal": [
        at("variants[1].window", 0),
        ("workload.input_tokens[1]", sets("workload.input_tokens", [64, 1])),
        at("aws.price.usd_per_hour", 0),
        at("workload.classes[0].weight", 1e-320),
        at("workload.requests_per_round", 0),
    ],
    "window-fits-the-output": [at("variants[1].window", 31, sets("workload.output_tokens", 31))],
    "missing": [
        ("variants[1].window", drop("variants", 1, "window")),
        ("aws.capacity.reservation_id", sets("aws.capacity", {"kind": "capacity_block"})),
        (
            "aws.availability_zone",
            both(sets("aws.capacity", BLOCK), drop("aws", "availability_zone")),
        ),
        ("aws.budget_usd", drop("aws", "budget_usd")),
        ("aws.price.as_of", drop("aws", "price", "as_of")),
        part("workload.load", "requests_per_second", {"kind": "poisson", "concurrency": 4}),
        ("aws.capacity", drop("aws", "capacity")),
        ("aws", drop("aws")),
    ],
    "extra-forbidden": [
        at("variants[0].window", 7),
        at("variants[1].tensor_parallel_size", 16),
        part(
            "aws.capacity",
            "reservation_id",
            {"kind": "spot", "reservation_id": "cr-0123456789abcdef0"},
        ),
        at("budget_usd", 60),
        at("aws.rerun", 2),
        at("serving.max_num_seq", 4),
        ("aws", sets("release", "cpu-vllm-0.32.0")),
        ("variants[1].methd", sets("variants[1]", {**SPECULATIVE, "methd": "fused_draft"})),
        at("baseline", 1),
        at("workload.load.concurrencies", [4]),
    ],
    "distinct-variants": [
        (
            "variants[2]",
            lambda data: data["variants"].append(
                copy.deepcopy(data["variants"][1]) | {"name": "twin"}
            ),
        )
    ],
    "unique-variant-names": [
        at("variants[1].name", "baseline"),
        (
            "variants[2].name",
            lambda data: data["variants"].append({**SPECULATIVE, "name": "qwen3-1-7b-k7"}),
        ),
    ],
    "union-tag-invalid": [
        at("variants[1].method", "ngram"),
        ("aws.capacity.kind", sets("aws.capacity", {"kind": "spott"})),
        ("workload.load.kind", sets("workload.load", {"kind": "concurency", "concurrency": 4})),
        ("workload.load.kind", sets("workload.load", {"kind": "burst"})),
    ],
    "zone-is-in-the-region": [
        at("aws.availability_zone", "us-west-2a"),
        at("aws.availability_zone", "us-east-2é"),
    ],
    "second-zone-is-another": [
        at("aws.second_zone", "us-east-2c"),
        at("aws.second_zone", "us-west-2a"),
    ],
    "buckets-are-known-to-the-engine": [
        at("serving.buckets", "one", sets("release", "neuron-2.32.0")),
        (
            "serving.neuron_config.context_encoding_buckets",
            both(
                sets("serving.buckets", "one"),
                sets("serving.neuron_config", {"context_encoding_buckets": [128]}),
            ),
        ),
    ],
    "block-has-its-price": [("aws.price", both(sets("aws.capacity", BLOCK), drop("aws", "price")))],
    "public-access-is-limited": [
        ("aws.public_access_cidrs[0]", sets("aws.public_access_cidrs", ["0.0.0.0/0"])),
        ("aws.public_access_cidrs[0]", sets("aws.public_access_cidrs", ["10.0.0.0/8"])),
        ("aws.public_access_cidrs[0]", sets("aws.public_access_cidrs", ["203.0.113.7/24"])),
        ("aws.public_access_cidrs[0]", sets("aws.public_access_cidrs", ["8.8.0.0/15"])),
        ("aws.public_access_cidrs[0]", sets("aws.public_access_cidrs", ["2600::/32"])),
        ("aws.public_access_cidrs[0]", sets("aws.public_access_cidrs", ["224.0.0.0/24"])),
    ],
    "int-type": [
        ("workload.input_tokens[0]", sets("workload.input_tokens", ["a"])),
        at("workload.load.concurrency", "4"),
        at("workload.input_tokens", "long"),
    ],
    "hub-token-stays-secret": [at("aws.hub_token_secret", "hf_" + "0" * 34)],
    "prompts": [
        at("workload.classes[0].name", "structure"),
        ("workload.classes[0].cases[0]", sets("workload.classes[0].cases", ["counting"])),
        at("workload.prompts_dir", "nowhere"),
        ("workload.classes[0].cases[0]", sets("workload.classes[0].cases", ["../open_ended/poem"])),
        ("workload.classes[0].cases", asked("no-prompt")),
        ("workload.classes[0].cases", asked("asks-for-601")),
        ("workload.classes[0].cases", asked("misnamed")),
        ("workload.classes[0].cases", asked("empty")),
    ],
    "classes-once": [("workload.classes[1]", sets("workload.classes[1].name", "structured"))],
    "weights-of-all-or-of-none": [("workload.classes[1]", sets("workload.classes[0].weight", 70))],
    "all-variants-sample-alike": [
        at("workload.temperature", 0.7),
        at(
            "workload.temperature",
            0.7,
            sets("release", "neuron-2.31.1"),
            sets("variants[1].method", "eagle3"),
            sets("variants[1].draft.model", "AngelSlim/Qwen3-32B_eagle3"),
        ),
        at("workload.temperature", 0.7, DFLASH_ON_QWEN),
    ],
    "temperature-is-taken-as-it-is": [at("workload.temperature", 0.001)],
    "less-than-equal": [
        at("workload.temperature", 2.5),
        at("variants[1].window", 50),
        at("workload.requests_per_round", 10001),
        at("aws.deadline_minutes", 525600),
        at("workload.warmup_requests", 1001),
        at("workload.output_tokens", 10**18),
    ],
    "token-ids-can-be-told": [
        at("workload.token_ids", True),
        at("workload.token_ids", True, sets("workload.input_tokens", 200000)),
    ],
    "bool-type": [at("aws.keep_checkpoints", "no")],
    "image-is-pinned": [
        at("aws.load_generator_image", "registry.example.com:5000/llmperf"),
        at("aws.load_generator_image", "llm perf; rm -rf /:1"),
    ],
    "load-generator-can-send": [
        (
            "workload.load_generator",
            both(sets("workload.load.concurrency", 33), sets("workload.requests_per_round", 40)),
        )
    ],
    "budget-reaches-everywhere": [
        at("workload.min_requests", 100),
        ("workload.max_requests", sets("workload.requests_per_round", 100)),
        (
            "workload.max_requests",
            both(
                sets("workload.load", {"kind": "ladder", "concurrencies": [1, 2, 4]}),
                sets("repetitions", 3),
            ),
        ),
        at(
            "workload.min_requests",
            40,
            sets("workload.load", {"kind": "ladder", "concurrencies": [1, 2]}),
            sets("repetitions", 2),
        ),
        at(
            "workload.max_requests",
            8,
            sets("workload.input_tokens", [32, 64]),
            sets("workload.min_requests", 8),
        ),
    ],
    "each-load-is-worth-its-warm-up": [
        ("workload.load", both(drop("workload", "load"), sets("serving.max_num_seqs", 9))),
        at("workload.load.concurrency", 64),
        (
            "workload.load.concurrencies[1]",
            sets("workload.load", {"kind": "ladder", "concurrencies": [4, 9]}),
        ),
    ],
    "string-type": [
        at("aws.instance_type", 3),
        ("aws.pins.add_ons.vpc-cni", sets("aws.pins", {"add_ons": {"vpc-cni": 3}})),
    ],
    "string-too-long": [at("target.model", "acme/" + "a" * 140)],
    "not-plain-yaml": [
        ("serving.neuron_config.deep[0]", sets("serving.neuron_config", {"deep": [float("nan")]}))
    ],
    "repeated": [
        at("workload.input_tokens", [64, 64]),
        part("workload.load", "concurrencies", {"kind": "ladder", "concurrencies": [4, 4]}),
        at("workload.classes[0].cases", ["count", "count"]),
        at("aws.public_access_cidrs", ["8.8.8.8/32"] * 2),
    ],
    "too-long": [at("aws.public_access_cidrs", [f"8.8.8.{n}/32" for n in range(41)])],
    "nodes-fit-the-plan": [
        (
            "variants",
            both(
                WHOLE_NODES,
                lambda data: data["variants"].extend(
                    copy.deepcopy(SPECULATIVE) | {"name": f"more-{k}", "window": k}
                    for k in range(8, 15)
                ),
            ),
        )
    ],
    "prompts-fit-the-load-generator": [("workload.classes", asked("long"))],
    "tool-calls-can-be-read": [
        ("serving.tool_call_parser", asked("tools", fixed_length=False)),
        ("serving.tool_call_parser", asked("tools-auto", fixed_length=False)),
    ],
    "length-is-not-forced": [
        ("workload.fixed_output_length", asked("no-tool", fixed_length=True)),
        ("workload.fixed_output_length", asked("json", fixed_length=True)),
    ],
}
SEARCH: Rows = {
    "windows-where-they-can-be-chosen": [
        ("search.windows", drop("search", "windows")),
        at("search.windows", "3..9", OF_HEADS),
    ],
    "windows": [at("search.windows", "15..3"), at("search.windows", "3-15")],
    "less-than-equal": [
        ("search.windows[1]", sets("search.windows", [3, 32])),
        at("search.stop.within", "80%"),
    ],
    "repeated": [at("search.windows", [3, 5, 3])],
    "tuple-type": [at("search.windows", 7)],
    "window-drafts-something": [at("search.windows", "1..3")],
    "every-token-accepted-would-pay": [
        at("search.windows", [15], sets("search.drafts[0].model", "Qwen/Qwen3-32B"))
    ],
    "own-windows-are-known": [
        ("search.drafts[0]", both(OF_HEADS, sets("search.drafts[0].model", "example/unknown-head")))
    ],
    "too-short": [at("search.drafts", [])],
    "drafts-are-told-apart": [
        ("search.drafts[1]", sets("search.drafts[1].model", "Qwen/Qwen3-1.7B"))
    ],
    "draft-is-of-the-targets-family": [
        at("search.drafts[1].model", "meta-llama/Llama-3.2-1B-Instruct")
    ],
    "unique-variant-names": [
        (
            "search.drafts[1]",
            lambda data: data["variants"].append({**BY_HAND, "name": "qwen3-0.6b-k7"}),
        )
    ],
    "method-drafts": [at("search.method", "none"), at("search.method", "fused_drafts")],
    "methods-the-release-serves": [at("search.method", "eagle3"), at("search.method", "medusa")],
    "each-is-measured-once": [
        at("repetitions", 2),
        at("control", True),
        at("baseline_as_shipped", True),
    ],
    "one-load": [
        ("workload.load", drop("workload", "load")),
        at("workload.input_tokens", [64, 128]),
    ],
    "not-too-many-candidates": [("search", sets("search.windows", "3..31"))],
    "a-forecast-can-tell": [
        ("search.forecast", both(FORECAST, sets("workload.temperature", 0.8))),
        ("search.forecast", both(FORECAST, sets("workload.input_tokens", [64, 128]))),
        ("search.forecast", both(FORECAST, sets("search.method", "eagle"))),
    ],
    "it-stops-before-the-guards": [
        at("search.stop.last_start_usd", 1000),
        at("search.stop.last_start_hours", 10),
    ],
    "share": [at("search.stop.within", "three")],
    "exactly-one-baseline": [("variants", sets("variants[0]", BY_HAND))],
}
HERE = both(
    sets("target.path", str(TINY_PAIR / "target")),
    sets("variants[1].draft.path", str(TINY_PAIR / "draft")),
)
LOCAL: Rows = {
    "lookup-lengths-in-order": [
        at("variants[1].prompt_lookup_min", 5, HERE, sets("variants[1]", NGRAM)),
    ],
    "load-generator-can-send": [at("workload.load_generator", "llmperf", HERE)],
    "local-models-are-there": [at("target.path", "prompts", HERE)],
    "local-tokenizers-are-equal": [at("variants[1].draft.path", "another-tokenizer", HERE)],
}
LOCAL_SEARCH: Rows = {
    "money-where-something-is-rented": [
        at(
            "search.stop.last_start_usd",
            1,
            sets("target.path", str(TINY_PAIR / "target")),
            sets("search.drafts[0].path", str(TINY_PAIR / "draft")),
        )
    ],
}
# base, rule, key, number of the row
Row = tuple[str, str, str, int]
REFUSED = {
    "qwen3-32b": NEURON,
    "qwen3-32b-search": SEARCH,
    "rehearsal": LOCAL,
    "rehearsal-search": LOCAL_SEARCH,
}
TAKEN = {
    "as many tokens as output_tokens": asked("asks-for-600"),
    "tools with a parser": both(
        asked("tools", fixed_length=False), sets("serving.tool_call_parser", "hermes")
    ),
    "a tool that is named": asked("one-tool", fixed_length=False),
    "tools that are not called": asked("no-tool", fixed_length=False),
    "a form of answer": asked("json", fixed_length=False),
    "a case that is named beside a file that is meant as one": both(
        asked("misnamed"), sets("workload.classes[0].cases", ["case"])
    ),
    "a secret that is named after the hub": sets("aws.hub_token_secret", "hf_token"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the rows' files lie, with their prompts; a measuring Job holds 1 MB here."""
    root = tmp_path_factory.mktemp("experiments")
    good: dict[str, object] = {"prompt": "x"}
    for name, line in {**PROMPTS, "misnamed": good, "empty": good}.items():
        (root / "prompts" / name).mkdir(parents=True)
        (root / "prompts" / name / "case.jsonl").write_text(json.dumps({"id": "a", **line}))
    (root / "prompts" / "misnamed" / "other.JSONL").touch()
    (root / "prompts" / "misnamed" / "README.md").touch()
    (root / "prompts" / "empty" / "case.jsonl").unlink()
    (root / "another-tokenizer").mkdir()
    (root / "another-tokenizer" / "config.json").touch()
    (root / "another-tokenizer" / "tokenizer.json").touch()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workload, "MAX_PROMPT_BYTES", 1_000_000)
        yield root


@pytest.fixture(scope="module")
def refused(folder: Path) -> dict[Row, tuple[Problem, ...]]:
    return {
        (base, code, key, number): problems_of(write_experiment(folder, edit, base=base))
        for base, rules_of_base in REFUSED.items()
        for code, rows in rules_of_base.items()
        for number, (key, edit) in enumerate(rows, start=1)
    }


def problems_of(path: Path) -> tuple[Problem, ...]:
    with pytest.raises(ExperimentError) as refused:
        load_experiment(path)
    assert all(f"{path}:{p.line}: " in str(refused.value) for p in refused.value.problems[:20])
    return refused.value.problems


def test_a_wrong_file_is_refused_by_its_rule_at_its_key(
    refused: dict[Row, tuple[Problem, ...]],
) -> None:
    told = {row: [(p.code, p.dotted_key) for p in found] for row, found in refused.items()}
    assert {row: found for row, found in told.items() if row[1:3] not in found} == {}


def test_the_words_of_every_problem(refused: dict[Row, tuple[Problem, ...]], folder: Path) -> None:
    text = "\n".join("".join(map(words, problems)) for problems in refused.values())
    text = text.replace(str(folder), "FOLDER").replace(str(ROOT), "ROOT")
    assert_snapshot(text, Path(__file__).with_name("refused.txt"))


def words(problem: Problem) -> str:
    """A problem as people read it, without its place."""
    return problem.render(Path()).partition(": ")[2] + "\n"


def test_every_rule_has_a_file_that_breaks_it() -> None:
    known = (
        *(*rules.COMMON, *rules.NEURON, *models.LOCAL, *search.OF_A_SEARCH),
        *(*workload.OF_PROMPTS, *workload.NEURON_OF_PROMPTS),
    )
    names = {rule.__name__.strip("_").replace("_", "-") for rule in known}
    assert names <= {code for rules_of_base in REFUSED.values() for code in rules_of_base}


@pytest.mark.parametrize("edit", TAKEN.values(), ids=TAKEN)
def test_what_is_just_allowed_is_taken(folder: Path, edit: Edit) -> None:
    assert load_experiment(write_experiment(folder, edit)).cases
