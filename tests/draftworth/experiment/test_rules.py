"""Wrong experiment files: which rule refuses each, at which key, and in which words.

`refused.txt` has the words: every problem of every row, read by people in a diff.
"""

import copy
import json
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

SPECULATIVE = {
    "name": "k5",
    "method": "fused_draft",
    "draft": {"model": "Qwen/Qwen3-1.7B"},
    "window": 5,
}
BY_HAND = {**SPECULATIVE, "name": "as-published", "window": 7}
DFLASH_ON_QWEN = both(
    put("release", value="neuron-2.33.0"),
    put("target", "model", value="Qwen/Qwen3-4B"),
    put("variants", 1, "method", value="dflash"),
    put("variants", 1, "draft", "model", value="z-lab/Qwen3-4B-DFlash-b16"),
    put("variants", 1, "window", value=15),
)
FORECAST = put("search", "forecast", value="forecast.json")
BLOCK = {"kind": "capacity_block", "reservation_id": "cr-0123456789abcdef0"}
ON_ONE_DEVICE = both(
    put("aws", "instance_type", value="trn2.3xlarge"),
    put("serving", "slot_devices", value=1),
    put("serving", "tensor_parallel_size", value=4),
)
WHOLE_NODES = both(
    put("serving", "slot_devices", value=16), put("serving", "tensor_parallel_size", value=64)
)
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


def asked(prompt_class: str) -> Edit:
    """An edit: prompts of one of the classes above alone."""
    return both(
        put("workload", "prompts_dir", value="prompts"),
        put("workload", "classes", value=[{"name": prompt_class}]),
    )


def fixed_length(value: bool) -> Edit:
    return put("workload", "fixed_output_length", value=value)


# Of each rule: the key that it refuses, and what is changed in a shipped file so that it does.
Rows = dict[str, list[tuple[str, Edit]]]
NEURON: Rows = {
    "exactly-one-baseline": [
        ("variants", put("variants", 0, value=SPECULATIVE)),
        ("variants", lambda data: data["variants"].append({"name": "again", "method": "none"})),
    ],
    "something-to-compare": [
        ("variants", drop("variants", 1)),
    ],
    "too-short": [
        ("variants", put("variants", value=[])),
        ("workload.input_tokens", put("workload", "input_tokens", value=[])),
    ],
    "every-token-accepted-would-pay": [
        ("variants[1].window", put("variants", 1, "draft", "model", value="Qwen/Qwen3-32B")),
    ],
    "methods-the-release-serves": [
        ("variants[1].method", put("release", value="neuron-2.32.0")),
        ("variants[1].method", put("variants", 1, "method", value="draft_model")),
        ("variants[1].method", both(DFLASH_ON_QWEN, put("release", value="neuron-2.32.0"))),
    ],
    "union-tag-not-found": [
        ("variants[1].method", put("variants", 1, "method", value="guesswork")),
        ("variants[1].method", put("variants", 1, "method", value="medusa")),
        ("variants[1].method", put("variants", 1, "method", value="ngram")),
        ("variants[1].method", put("variants", 1, "method", value="fused_drafts")),
        (
            "workload.load.kind",
            put("workload", "load", value={"knd": "concurrency", "concurrency": 4}),
        ),
        ("workload.load.kind", put("workload", "load", value={"concurrency": 4})),
        ("variants[0].method", put("variants", 0, value={"name": "baseline", "methd": "none"})),
        ("variants[0].method", put("variants", 0, "method", value="nonne")),
        ("variants[1].method", put("variants", 1, "method", value=["eagle"])),
    ],
    "window-is-that-of-the-draft": [
        ("variants[1].window", both(DFLASH_ON_QWEN, put("variants", 1, "window", value=7))),
    ],
    "head-is-of-the-target": [
        (
            "variants[1].draft.model",
            both(DFLASH_ON_QWEN, put("target", "model", value="Qwen/Qwen3-8B")),
        ),
    ],
    "dflash-is-in-bf16": [
        (
            "serving.neuron_config.quantization",
            both(DFLASH_ON_QWEN, put("serving", "neuron_config", value={"quantization": "mxfp4"})),
        ),
    ],
    "draft-is-what-the-method-takes": [
        (
            "variants[1].draft.model",
            both(DFLASH_ON_QWEN, put("variants", 1, "method", value="eagle3")),
        ),
        (
            "variants[1].draft.model",
            both(
                put("target", "model", value="meta-llama/Llama-3.1-8B-Instruct"),
                put(
                    "variants",
                    1,
                    "draft",
                    "model",
                    value="RedHatAI/Llama-3.1-8B-Instruct-speculator.eagle3",
                ),
            ),
        ),
    ],
    "lnc-is-one-that-runs": [
        (
            "serving.lnc",
            both(
                DFLASH_ON_QWEN,
                put("serving", "lnc", value=1),
                put("serving", "tensor_parallel_size", value=64),
            ),
        ),
        ("serving.lnc", put("serving", "lnc", value=4)),
        ("serving.lnc", both(DFLASH_ON_QWEN, ON_ONE_DEVICE, put("serving", "lnc", value=1))),
        ("serving.lnc", both(DFLASH_ON_QWEN, ON_ONE_DEVICE, put("serving", "lnc", value=3))),
        ("serving.lnc", both(ON_ONE_DEVICE, put("serving", "lnc", value=3))),
    ],
    "reserved-name": [
        ("variants[1].name", put("variants", 1, "name", value="baseline-as-shipped")),
    ],
    "unknown-release": [
        ("release", put("release", value="neuron-2.26")),
        ("release", put("release", value=["neuron-2.26.1"])),
        ("release", drop("release")),
        ("release", both(drop("release"), put("relase", value="neuron-2.26.1"))),
        ("release", put("release", value=None)),
    ],
    "literal-error": [
        ("aws.instance_type", put("aws", "instance_type", value="trn2.6xlarge")),
        ("aws.kubernetes_version", put("aws", "kubernetes_version", value=1.35)),
    ],
    "slot-is-connected": [
        ("serving.slot_devices", put("aws", "instance_type", value="trn2.3xlarge")),
        ("serving.slot_devices", put("serving", "slot_devices", value=2)),
        ("serving.slot_devices", both(ON_ONE_DEVICE, put("serving", "slot_devices", value=8))),
    ],
    "pins-are-of-what-is-deployed": [
        ("aws.pins.node_release", put("aws", "pins", value={"node_release": "1.34.2-20261102"})),
        (
            "aws.pins.add_ons.vpc-cmi",
            put("aws", "pins", value={"add_ons": {"vpc-cmi": "v1.21.1-eksbuild.3"}}),
        ),
        (
            "aws.pins.add_ons.aws-mountpoint-s3-csi-driver",
            put(
                "aws",
                "pins",
                value={"add_ons": {"aws-mountpoint-s3-csi-driver": "v1.15.0-eksbuild.1"}},
            ),
        ),
    ],
    "string-pattern-mismatch": [
        (
            "aws.admin_principal_arns[0]",
            put(
                "aws", "admin_principal_arns", value=["arn:aws:sts::111122223333:assumed-role/A/b"]
            ),
        ),
        (
            "aws.admin_principal_arns[0]",
            put("aws", "admin_principal_arns", value=["arn:aws:iam::1:role/Admin"]),
        ),
        (
            "aws.admin_principal_arns[0]",
            put("aws", "admin_principal_arns", value=["arn:aws:iam::111122223333:role/*"]),
        ),
        ("aws.pins.node_release", put("aws", "pins", value={"node_release": "1.35"})),
        ("aws.pins.add_ons.vpc-cni", put("aws", "pins", value={"add_ons": {"vpc-cni": "latest"}})),
        ("variants[1].name", put("variants", 1, "name", value="Draft_7")),
        (
            "aws.capacity.reservation_id",
            put("aws", "capacity", value={"kind": "capacity_block", "reservation_id": "i-123"}),
        ),
        ("aws.region", put("aws", "region", value="Ohio")),
        ("target.model", put("target", "model", value="Qwen/..")),
        ("target.model", put("target", "model", value="acme/モデル")),
        ("target.revision", put("target", "revision", value="..")),
        ("target.revision", put("target", "revision", value="v1..v2")),
        ("target.revision", put("target", "revision", value="-f")),
    ],
    "tensor-parallel-fills-the-slot": [
        ("serving.tensor_parallel_size", put("serving", "tensor_parallel_size", value=16)),
        ("serving.tensor_parallel_size", both(ON_ONE_DEVICE, put("serving", "lnc", value=1))),
    ],
    "lengths-fit": [
        ("serving.max_model_len", put("serving", "max_model_len", value=512)),
        ("serving.max_model_len", put("workload", "input_tokens", value=[64, 512])),
    ],
    "draft-is-of-the-targets-family": [
        (
            "variants[1].draft.model",
            put("variants", 1, "draft", "model", value="meta-llama/Llama-3.2-1B-Instruct"),
        ),
    ],
    "tokenizer-family-is-known": [
        (
            "variants[1].draft.tokenizer_family",
            put("variants", 1, "draft", "model", value="acme/Draft-1B"),
        ),
        ("target.tokenizer_family", put("target", "tokenizer_family", value="llama3")),
        (
            "variants[1].draft.tokenizer_family",
            put("variants", 1, "draft", "model", value="Qwen/Qwen3-1.7b"),
        ),
    ],
    "target-is-a-model": [
        (
            "target.model",
            put("target", "model", value="RedHatAI/Llama-3.1-8B-Instruct-speculator.eagle3"),
        ),
    ],
    "window-drafts-something": [
        ("variants[1].window", put("variants", 1, "window", value=1)),
    ],
    "greater-than-equal": [
        ("variants[1].window", put("variants", 1, "window", value=0)),
        ("workload.input_tokens[1]", put("workload", "input_tokens", value=[64, 1])),
        ("aws.price.usd_per_hour", put("aws", "price", "usd_per_hour", value=0)),
        ("workload.classes[0].weight", put("workload", "classes", 0, "weight", value=1e-320)),
        ("workload.requests_per_round", put("workload", "requests_per_round", value=0)),
    ],
    "window-fits-the-output": [
        ("variants[1].window", put("variants", 1, "window", value=600)),
    ],
    "missing": [
        ("variants[1].window", drop("variants", 1, "window")),
        ("aws.capacity.reservation_id", put("aws", "capacity", value={"kind": "capacity_block"})),
        (
            "aws.availability_zone",
            both(put("aws", "capacity", value=BLOCK), drop("aws", "availability_zone")),
        ),
        ("aws.budget_usd", drop("aws", "budget_usd")),
        ("aws.price.as_of", drop("aws", "price", "as_of")),
        (
            "workload.load.requests_per_second",
            put("workload", "load", value={"kind": "poisson", "concurrency": 4}),
        ),
        ("aws.capacity", drop("aws", "capacity")),
        ("aws", drop("aws")),
    ],
    "extra-forbidden": [
        ("variants[0].window", put("variants", 0, "window", value=7)),
        ("variants[1].tensor_parallel_size", put("variants", 1, "tensor_parallel_size", value=16)),
        (
            "aws.capacity.reservation_id",
            put(
                "aws", "capacity", value={"kind": "spot", "reservation_id": "cr-0123456789abcdef0"}
            ),
        ),
        ("budget_usd", put("budget_usd", value=60)),
        ("aws.rerun", put("aws", "rerun", value=2)),
        ("serving.max_num_seq", put("serving", "max_num_seq", value=4)),
        ("aws", put("release", value="cpu-vllm-0.32.0")),
        ("variants[1].methd", put("variants", 1, value={**SPECULATIVE, "methd": "fused_draft"})),
        ("baseline", put("baseline", value=1)),
        ("workload.load.concurrencies", put("workload", "load", "concurrencies", value=[4])),
    ],
    "distinct-variants": [
        (
            "variants[2]",
            lambda data: data["variants"].append(
                copy.deepcopy(data["variants"][1]) | {"name": "twin"}
            ),
        ),
    ],
    "unique-variant-names": [
        ("variants[1].name", put("variants", 1, "name", value="baseline")),
        (
            "variants[2].name",
            lambda data: data["variants"].append({**SPECULATIVE, "name": "qwen3-1-7b-k7"}),
        ),
    ],
    "union-tag-invalid": [
        ("aws.capacity.kind", put("aws", "capacity", value={"kind": "spott"})),
        (
            "workload.load.kind",
            put("workload", "load", value={"kind": "concurency", "concurrency": 4}),
        ),
        ("workload.load.kind", put("workload", "load", value={"kind": "burst"})),
    ],
    "zone-is-in-the-region": [
        ("aws.availability_zone", put("aws", "availability_zone", value="us-west-2a")),
        ("aws.availability_zone", put("aws", "availability_zone", value="us-east-2é")),
    ],
    "second-zone-is-another": [
        ("aws.second_zone", put("aws", "second_zone", value="us-east-2c")),
        ("aws.second_zone", put("aws", "second_zone", value="us-west-2a")),
    ],
    "buckets-are-known-to-the-engine": [
        (
            "serving.buckets",
            both(put("serving", "buckets", value="one"), put("release", value="neuron-2.32.0")),
        ),
        (
            "serving.neuron_config.context_encoding_buckets",
            both(
                put("serving", "buckets", value="one"),
                put("serving", "neuron_config", value={"context_encoding_buckets": [128]}),
            ),
        ),
    ],
    "block-has-its-price": [
        ("aws.price", both(put("aws", "capacity", value=BLOCK), drop("aws", "price"))),
    ],
    "public-access-is-limited": [
        ("aws.public_access_cidrs[0]", put("aws", "public_access_cidrs", value=["0.0.0.0/0"])),
        ("aws.public_access_cidrs[0]", put("aws", "public_access_cidrs", value=["10.0.0.0/8"])),
        ("aws.public_access_cidrs[0]", put("aws", "public_access_cidrs", value=["203.0.113.7/24"])),
        ("aws.public_access_cidrs[0]", put("aws", "public_access_cidrs", value=["8.8.0.0/15"])),
        ("aws.public_access_cidrs[0]", put("aws", "public_access_cidrs", value=["2600::/32"])),
        ("aws.public_access_cidrs[0]", put("aws", "public_access_cidrs", value=["224.0.0.0/24"])),
    ],
    "int-type": [
        ("workload.input_tokens[0]", put("workload", "input_tokens", value=["a"])),
        ("workload.load.concurrency", put("workload", "load", "concurrency", value="4")),
        ("workload.input_tokens", put("workload", "input_tokens", value="long")),
    ],
    "hub-token-stays-secret": [
        ("aws.hub_token_secret", put("aws", "hub_token_secret", value="hf_" + "0" * 34)),
    ],
    "prompts": [
        ("workload.classes[0].name", put("workload", "classes", 0, "name", value="structure")),
        (
            "workload.classes[0].cases[0]",
            put("workload", "classes", 0, "cases", value=["counting"]),
        ),
        ("workload.prompts_dir", put("workload", "prompts_dir", value="nowhere")),
        (
            "workload.classes[0].cases[0]",
            put("workload", "classes", 0, "cases", value=["../open_ended/poem"]),
        ),
        ("workload.classes[0].cases", asked("no-prompt")),
        ("workload.classes[0].cases", asked("asks-for-601")),
        ("workload.classes[0].cases", asked("misnamed")),
        ("workload.classes[0].cases", asked("empty")),
    ],
    "classes-once": [
        ("workload.classes[1]", put("workload", "classes", 1, "name", value="structured")),
    ],
    "all-variants-sample-alike": [
        ("workload.temperature", put("workload", "temperature", value=0.7)),
        (
            "workload.temperature",
            both(
                put("release", value="neuron-2.31.1"),
                put("variants", 1, "method", value="eagle3"),
                put("variants", 1, "draft", "model", value="AngelSlim/Qwen3-32B_eagle3"),
                put("workload", "temperature", value=0.7),
            ),
        ),
        ("workload.temperature", both(DFLASH_ON_QWEN, put("workload", "temperature", value=0.7))),
    ],
    "temperature-is-taken-as-it-is": [
        ("workload.temperature", put("workload", "temperature", value=0.001)),
    ],
    "less-than-equal": [
        ("workload.temperature", put("workload", "temperature", value=2.5)),
        ("workload.requests_per_round", put("workload", "requests_per_round", value=10001)),
        ("aws.deadline_minutes", put("aws", "deadline_minutes", value=525600)),
        ("workload.warmup_requests", put("workload", "warmup_requests", value=1001)),
        ("workload.output_tokens", put("workload", "output_tokens", value=10**18)),
    ],
    "token-ids-can-be-told": [
        ("workload.token_ids", put("workload", "token_ids", value=True)),
        (
            "workload.token_ids",
            both(
                put("workload", "token_ids", value=True),
                put("workload", "input_tokens", value=200000),
            ),
        ),
    ],
    "bool-type": [
        ("aws.keep_checkpoints", put("aws", "keep_checkpoints", value="no")),
    ],
    "image-is-pinned": [
        (
            "aws.load_generator_image",
            put("aws", "load_generator_image", value="registry.example.com:5000/llmperf"),
        ),
        (
            "aws.load_generator_image",
            put("aws", "load_generator_image", value="llm perf; rm -rf /:1"),
        ),
    ],
    "load-generator-can-send": [
        (
            "workload.load_generator",
            both(
                put("workload", "load", "concurrency", value=33),
                put("workload", "requests_per_round", value=40),
            ),
        ),
    ],
    "budget-reaches-everywhere": [
        ("workload.min_requests", put("workload", "min_requests", value=100)),
        ("workload.max_requests", put("workload", "requests_per_round", value=100)),
        (
            "workload.max_requests",
            both(
                put("workload", "load", value={"kind": "ladder", "concurrencies": [1, 2, 4]}),
                put("repetitions", value=3),
            ),
        ),
        (
            "workload.min_requests",
            both(
                put("workload", "load", value={"kind": "ladder", "concurrencies": [1, 2]}),
                put("workload", "min_requests", value=40),
                put("repetitions", value=2),
            ),
        ),
        (
            "workload.max_requests",
            both(
                put("workload", "input_tokens", value=[32, 64]),
                put("workload", "max_requests", value=8),
                put("workload", "min_requests", value=8),
            ),
        ),
    ],
    "each-load-is-worth-its-warm-up": [
        ("workload.load", both(drop("workload", "load"), put("serving", "max_num_seqs", value=9))),
        ("workload.load.concurrency", put("workload", "load", "concurrency", value=64)),
        (
            "workload.load.concurrencies[1]",
            put("workload", "load", value={"kind": "ladder", "concurrencies": [4, 9]}),
        ),
    ],
    "string-type": [
        ("aws.instance_type", put("aws", "instance_type", value=3)),
        ("aws.pins.add_ons.vpc-cni", put("aws", "pins", value={"add_ons": {"vpc-cni": 3}})),
    ],
    "string-too-long": [
        ("target.model", put("target", "model", value="acme/" + "a" * 140)),
    ],
    "not-plain-yaml": [
        (
            "serving.neuron_config.deep[0]",
            put("serving", "neuron_config", value={"deep": [float("nan")]}),
        ),
    ],
    "repeated": [
        ("workload.input_tokens", put("workload", "input_tokens", value=[64, 64])),
        (
            "workload.load.concurrencies",
            put("workload", "load", value={"kind": "ladder", "concurrencies": [4, 4]}),
        ),
        (
            "workload.classes[0].cases",
            put("workload", "classes", 0, "cases", value=["count", "count"]),
        ),
        ("aws.public_access_cidrs", put("aws", "public_access_cidrs", value=["8.8.8.8/32"] * 2)),
    ],
    "too-long": [
        (
            "aws.public_access_cidrs",
            put("aws", "public_access_cidrs", value=[f"8.8.8.{n}/32" for n in range(41)]),
        ),
    ],
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
        ),
    ],
    "prompts-fit-the-load-generator": [
        ("workload.classes", asked("long")),
    ],
    "tool-calls-can-be-read": [
        ("serving.tool_call_parser", both(asked("tools"), fixed_length(False))),
        ("serving.tool_call_parser", both(asked("tools-auto"), fixed_length(False))),
    ],
    "length-is-not-forced": [
        ("workload.fixed_output_length", both(asked("no-tool"), fixed_length(True))),
        ("workload.fixed_output_length", both(asked("json"), fixed_length(True))),
    ],
}
SEARCH: Rows = {
    "windows-where-they-can-be-chosen": [
        ("search.windows", drop("search", "windows")),
        ("search.windows", both(OF_HEADS, put("search", "windows", value="3..9"))),
    ],
    "windows": [
        ("search.windows", put("search", "windows", value="15..3")),
        ("search.windows", put("search", "windows", value="3-15")),
    ],
    "less-than-equal": [
        ("search.windows[1]", put("search", "windows", value=[3, 32])),
        ("search.stop.within", put("search", "stop", "within", value="80%")),
    ],
    "repeated": [
        ("search.windows", put("search", "windows", value=[3, 5, 3])),
    ],
    "tuple-type": [
        ("search.windows", put("search", "windows", value=7)),
    ],
    "window-drafts-something": [
        ("search.windows", put("search", "windows", value="1..3")),
    ],
    "every-token-accepted-would-pay": [
        (
            "search.windows",
            both(
                put("search", "drafts", 0, "model", value="Qwen/Qwen3-32B"),
                put("search", "windows", value=[15]),
            ),
        ),
    ],
    "own-windows-are-known": [
        (
            "search.drafts[0]",
            both(OF_HEADS, put("search", "drafts", 0, "model", value="example/unknown-head")),
        ),
    ],
    "too-short": [
        ("search.drafts", put("search", "drafts", value=[])),
    ],
    "drafts-are-told-apart": [
        ("search.drafts[1]", put("search", "drafts", 1, "model", value="Qwen/Qwen3-1.7B")),
    ],
    "draft-is-of-the-targets-family": [
        (
            "search.drafts[1].model",
            put("search", "drafts", 1, "model", value="meta-llama/Llama-3.2-1B-Instruct"),
        ),
    ],
    "unique-variant-names": [
        (
            "search.drafts[1]",
            lambda data: data["variants"].append({**BY_HAND, "name": "qwen3-0.6b-k7"}),
        ),
    ],
    "method-drafts": [
        ("search.method", put("search", "method", value="none")),
        ("search.method", put("search", "method", value="fused_drafts")),
    ],
    "methods-the-release-serves": [
        ("search.method", put("search", "method", value="eagle3")),
        ("search.method", put("search", "method", value="medusa")),
    ],
    "each-is-measured-once": [
        ("repetitions", put("repetitions", value=2)),
        ("control", put("control", value=True)),
        ("baseline_as_shipped", put("baseline_as_shipped", value=True)),
    ],
    "one-load": [
        ("workload.load", drop("workload", "load")),
        ("workload.input_tokens", put("workload", "input_tokens", value=[64, 128])),
    ],
    "not-too-many-candidates": [
        ("search", put("search", "windows", value="3..31")),
    ],
    "a-forecast-can-tell": [
        ("search.forecast", both(FORECAST, put("workload", "temperature", value=0.8))),
        ("search.forecast", both(FORECAST, put("workload", "input_tokens", value=[64, 128]))),
        ("search.forecast", both(FORECAST, put("search", "method", value="eagle"))),
    ],
    "it-stops-before-the-guards": [
        ("search.stop.usd", put("search", "stop", "usd", value=1000)),
        ("search.stop.hours", put("search", "stop", "hours", value=10)),
    ],
    "share": [
        ("search.stop.within", put("search", "stop", "within", value="three")),
    ],
    "exactly-one-baseline": [
        ("variants", put("variants", 0, value=BY_HAND)),
    ],
}
HERE = both(
    put("target", "path", value=str(TINY_PAIR / "target")),
    put("variants", 1, "draft", "path", value=str(TINY_PAIR / "draft")),
)
LOCAL: Rows = {
    "load-generator-can-send": [
        ("workload.load_generator", both(HERE, put("workload", "load_generator", value="llmperf"))),
    ],
    "local-models-are-there": [
        ("target.path", both(HERE, put("target", "path", value="prompts"))),
    ],
    "local-tokenizers-are-equal": [
        (
            "variants[1].draft.path",
            both(HERE, put("variants", 1, "draft", "path", value="another-tokenizer")),
        ),
    ],
}
LOCAL_SEARCH: Rows = {
    "money-where-something-is-rented": [
        (
            "search.stop.usd",
            both(
                put("target", "path", value=str(TINY_PAIR / "target")),
                put("search", "drafts", 0, "path", value=str(TINY_PAIR / "draft")),
                put("search", "stop", "usd", value=1),
            ),
        ),
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
        asked("tools"), fixed_length(False), put("serving", "tool_call_parser", value="hermes")
    ),
    "a tool that is named": both(asked("one-tool"), fixed_length(False)),
    "tools that are not called": both(asked("no-tool"), fixed_length(False)),
    "a form of answer": both(asked("json"), fixed_length(False)),
    "a case that is named beside a file that is meant as one": both(
        asked("misnamed"), put("workload", "classes", 0, "cases", value=["case"])
    ),
    "a secret that is named after the hub": put("aws", "hub_token_secret", value="hf_token"),
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


def test_a_local_experiment_may_sample(folder: Path) -> None:
    edit = both(HERE, put("workload", "temperature", value=0.7))
    loaded = load_experiment(write_experiment(folder, edit, base="rehearsal"))
    assert loaded.spec.workload.temperature == 0.7
