"""Wrong experiment files: each is refused with its file, line, key, given, allowed and reason."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

from draftworth.errors import ExperimentError, UserInputError
from draftworth.experiment.catalog import catalog
from draftworth.experiment.loading import load_experiment
from draftworth.experiment.model import LocalExperiment, NeuronExperiment, loads_of
from draftworth.experiment.rules import workload as rules_prompts
from draftworth.experiment.rules.aws import is_pinned_image
from tests.conftest import ROOT
from tests.support.experiments import Edit, assert_refused, both, drop, put, write_experiment

SPECULATIVE = {
    "name": "k5",
    "method": "fused_draft",
    "draft": {"model": "Qwen/Qwen3-1.7B"},
    "window": 5,
}

DFLASH_ON_QWEN = both(
    put("release", value="neuron-2.33.0"),
    put("target", "model", value="Qwen/Qwen3-4B"),
    put("variants", 1, "method", value="dflash"),
    put("variants", 1, "draft", "model", value="z-lab/Qwen3-4B-DFlash-b16"),
    put("variants", 1, "window", value=15),
)

# edit, key, given, allowed, reason: pieces of the message, all of which must be there
REFUSED: dict[str, tuple[Edit, str, str, str, str]] = {
    "no baseline": (
        put("variants", 0, value=SPECULATIVE),
        "variants",
        "0 variants with method none",
        "exactly one variant with method none",
        "ratio to the one baseline",
    ),
    "two baselines": (
        lambda data: data["variants"].append({"name": "again", "method": "none"}),
        "variants",
        "2 variants with method none (baseline, again)",
        "exactly one",
        "ratio to the one baseline",
    ),
    "only one variant": (
        drop("variants", 1),
        "variants",
        "1 variant and no search",
        "two or more variants, or the baseline and a search",
        "compares ways to decode",
    ),
    "no variant": (
        put("variants", value=[]),
        "variants",
        "[]",
        "a list of 1 or more",
        "two or more",
    ),
    "a draft that could not pay with every token accepted": (
        put("variants", 1, "draft", "model", value="Qwen/Qwen3-32B"),
        "variants[1].window",
        "7",
        "a smaller draft",
        "at least 1 + 7 x 1.00 = 8.00 baseline steps (it reads all its weights",
    ),
    "a method the release cannot serve": (
        put("release", value="neuron-2.32.0"),
        "variants[1].method",
        "fused_draft on release neuron-2.32.0",
        "fused_draft needs release neuron-2.26.1",
        "cannot serve this method",
    ),
    "a method nobody knows": (
        put("variants", 1, "method", value="guesswork"),
        "variants[1].method",
        '"guesswork"',
        "none (the baseline), fused_draft, eagle on neuron-2.26.1",
        "how tokens are drafted",
    ),
    "a method that no image serves": (
        put("variants", 1, "method", value="medusa"),
        "variants[1].method",
        "medusa on release neuron-2.26.1",
        "none (the baseline), fused_draft, eagle on neuron-2.26.1; in the place of medusa: eagle3",
        "no vLLM image for Neuron reaches that mode",
    ),
    "a method that takes no draft checkpoint": (
        put("variants", 1, "method", value="ngram"),
        "variants[1].method",
        "ngram on release neuron-2.26.1",
        "`python -m draftworth measure`",
        "served with a draft checkpoint",
    ),
    "an unfused draft model on Neuron": (
        put("variants", 1, "method", value="draft_model"),
        "variants[1].method",
        "draft_model on release neuron-2.26.1",
        "fused_draft on neuron-2.26.1",
        "no image for Neuron runs an unfused draft model",
    ),
    "DFlash before 0.29": (
        both(DFLASH_ON_QWEN, put("release", value="neuron-2.32.0")),
        "variants[1].method",
        "dflash on release neuron-2.32.0",
        "dflash needs release neuron-2.33.0",
        "cannot serve this method",
    ),
    "a window that a DFlash head was not trained for": (
        both(DFLASH_ON_QWEN, put("variants", 1, "window", value=7)),
        "variants[1].window",
        "7 with z-lab/Qwen3-4B-DFlash-b16",
        "15",
        "blocks of 16: there is no window to search",
    ),
    "a head of another target": (
        both(DFLASH_ON_QWEN, put("target", "model", value="Qwen/Qwen3-8B")),
        "variants[1].draft.model",
        "trained for Qwen/Qwen3-4B, with Qwen/Qwen3-8B",
        "the catalogue knows none",
        "the one target",
    ),
    "DFlash with quantized weights": (
        both(DFLASH_ON_QWEN, put("serving", "neuron_config", value={"quantization": "mxfp4"})),
        "serving.neuron_config.quantization",
        "mxfp4",
        "bf16",
        "in BF16 only",
    ),
    "a DFlash head as an EAGLE3 head": (
        both(DFLASH_ON_QWEN, put("variants", 1, "method", value="eagle3")),
        "variants[1].draft.model",
        "a DFlash head for method eagle3",
        "an EAGLE3 head",
        "hidden states",
    ),
    "LNC 1 on vLLM Neuron": (
        both(
            DFLASH_ON_QWEN,
            put("serving", "lnc", value=1),
            put("serving", "tensor_parallel_size", value=64),
        ),
        "serving.lnc",
        "1 on release neuron-2.33.0",
        "2, with tensor_parallel_size 4 on 1 device, 16 on 4 devices, 32 on 8 devices, 64 on 16",
        "likely never starts",
    ),
    "the name of the baseline as shipped": (
        put("variants", 1, "name", value="baseline-as-shipped"),
        "variants[1].name",
        '"baseline-as-shipped"',
        "another name",
        "baseline_as_shipped: true",
    ),
    "a misspelt method": (
        put("variants", 1, "method", value="fused_drafts"),
        "variants[1].method",
        '"fused_drafts"',
        "none (the baseline), fused_draft, eagle on neuron-2.26.1",
        "did you mean 'fused_draft'?",
    ),
    "a release nobody knows": (
        put("release", value="neuron-2.26"),
        "release",
        '"neuron-2.26"',
        "neuron-2.26.1, neuron-2.28.0",
        "did you mean 'neuron-2.26.1'?",
    ),
    "a list of releases": (
        put("release", value=["neuron-2.26.1"]),
        "release",
        '["neuron-2.26.1"]',
        "neuron-2.26.1",
        "names the serving image",
    ),
    "an instance type that the catalogue does not know": (
        put("aws", "instance_type", value="trn2.6xlarge"),
        "aws.instance_type",
        '"trn2.6xlarge"',
        "trn2.48xlarge or trn2.3xlarge",
        "EC2 type of the accelerator nodes",
    ),
    "a slot larger than its node": (
        put("aws", "instance_type", value="trn2.3xlarge"),
        "serving.slot_devices",
        "8",
        "1 on trn2.3xlarge",
        "connected",
    ),
    "a node image of another Kubernetes version": (
        put("aws", "pins", value={"node_release": "1.34.2-20261102"}),
        "aws.pins.node_release",
        '"1.34.2-20261102" with Kubernetes 1.35',
        "1.35.x-YYYYMMDD",
        "another Kubernetes version",
    ),
    "a node image without its date": (
        put("aws", "pins", value={"node_release": "1.35"}),
        "aws.pins.node_release",
        '"1.35"',
        "as in 1.35.2-20261102",
        "release of the node images",
    ),
    "a pin of an add-on that is not installed": (
        put("aws", "pins", value={"add_ons": {"vpc-cmi": "v1.21.1-eksbuild.3"}}),
        "aws.pins.add_ons.vpc-cmi",
        '"vpc-cmi"',
        "coredns, eks-pod-identity-agent",
        "did you mean 'vpc-cni'?",
    ),
    "an add-on's version that is none": (
        put("aws", "pins", value={"add_ons": {"vpc-cni": "latest"}}),
        "aws.pins.add_ons.vpc-cni",
        '"latest"',
        "as in v1.21.1-eksbuild.3",
        "EKS add-on to its version",
    ),
    "an S3 driver that knows no Pod Identity": (
        put(
            "aws", "pins", value={"add_ons": {"aws-mountpoint-s3-csi-driver": "v1.15.0-eksbuild.1"}}
        ),
        "aws.pins.add_ons.aws-mountpoint-s3-csi-driver",
        '"v1.15.0-eksbuild.1"',
        "v2 or later",
        "Pod Identity",
    ),
    "an endless price": (
        put("aws", "price", "usd_per_hour", value=float("inf")),
        "aws.price.usd_per_hour",
        ".inf",
        "a finite number",
        "no quantity",
    ),
    "no release": (
        drop("release"),
        "release",
        "nothing",
        "neuron-2.26.1",
        "names the serving image",
    ),
    "tensor parallel size that does not fill the slot": (
        put("serving", "tensor_parallel_size", value=16),
        "serving.tensor_parallel_size",
        "16",
        "32 = slot_devices 8 x 4 logical cores a device at lnc 2",
        "cores of a slot",
    ),
    "a slot that is not connected": (
        put("serving", "slot_devices", value=2),
        "serving.slot_devices",
        "2",
        "1, 4, 8, 16 on trn2.48xlarge, with tensor_parallel_size 4 on 1 device, 16 on 4 devices",
        "connected to each other",
    ),
    "lnc 4": (
        put("serving", "lnc", value=4),
        "serving.lnc",
        "4",
        "1 or 2",
        "one or two physical ones",
    ),
    "lengths that do not fit": (
        put("serving", "max_model_len", value=512),
        "serving.max_model_len",
        "workload.output_tokens 600 = 664",
        "664 or more",
        "refuses or cuts",
    ),
    "a draft of another family": (
        put("variants", 1, "draft", "model", value="meta-llama/Llama-3.2-1B-Instruct"),
        "variants[1].draft.model",
        "tokenizer family llama3",
        "a draft of the family qwen3",
        "token ids",
    ),
    "an unknown model without a family": (
        put("variants", 1, "draft", "model", value="acme/Draft-1B"),
        "variants[1].draft.tokenizer_family",
        "nothing",
        "the family's name",
        "does not know acme/Draft-1B",
    ),
    "a family that contradicts the catalogue": (
        put("target", "tokenizer_family", value="llama3"),
        "target.tokenizer_family",
        '"llama3" for Qwen/Qwen3-32B',
        "qwen3, or leave the key out",
        "knows this model",
    ),
    "an EAGLE head as a draft model": (
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
        "variants[1].draft.model",
        "an EAGLE3 head for method fused_draft",
        "a causal language model",
        "a whole model of its own",
    ),
    "an EAGLE head as the target": (
        put("target", "model", value="RedHatAI/Llama-3.1-8B-Instruct-speculator.eagle3"),
        "target.model",
        "an EAGLE3 head",
        "a causal language model",
        "cannot be served by itself",
    ),
    "a window of 1 for fused draft": (
        put("variants", 1, "window", value=1),
        "variants[1].window",
        "1",
        "2 or more",
        "speculates nothing",
    ),
    "a window of 0": (
        put("variants", 1, "window", value=0),
        "variants[1].window",
        "0",
        "1 or more",
        "num_speculative_tokens",
    ),
    "a window as long as the output": (
        put("variants", 1, "window", value=600),
        "variants[1].window",
        "600 with workload.output_tokens 600",
        "less than 600",
        "no inter-token latency",
    ),
    "a variant without a window": (
        drop("variants", 1, "window"),
        "variants[1].window",
        "nothing",
        "a whole number, 1 or more",
        "required; num_speculative_tokens",
    ),
    "a baseline with a window": (
        put("variants", 0, "window", value=7),
        "variants[0].window",
        "unknown key, 'window'",
        "method, name",
        "another experiment",
    ),
    "a tensor parallel size inside a variant": (
        put("variants", 1, "tensor_parallel_size", value=16),
        "variants[1].tensor_parallel_size",
        "unknown key",
        "draft, method, name, window",
        "another experiment",
    ),
    "the same variant twice": (
        lambda data: data["variants"].append(copy.deepcopy(data["variants"][1]) | {"name": "twin"}),
        "variants[2]",
        '"twin", which decodes exactly as "qwen3-1.7b-k7"',
        "differ in method, draft or window",
        "answers nothing",
    ),
    "duplicate names": (
        put("variants", 1, "name", value="baseline"),
        "variants[1].name",
        '"baseline"',
        "unique",
        "Kubernetes service",
    ),
    "names that collide as DNS labels": (
        lambda data: data["variants"].append({**SPECULATIVE, "name": "qwen3-1-7b-k7"}),
        "variants[2].name",
        '"qwen3-1-7b-k7"',
        "when dots become hyphens",
        "Kubernetes service",
    ),
    "a name that is not DNS": (
        put("variants", 1, "name", value="Draft_7"),
        "variants[1].name",
        '"Draft_7"',
        "lower-case letters",
        "DNS name",
    ),
    "a Capacity Block without its reservation": (
        put("aws", "capacity", value={"kind": "capacity_block"}),
        "aws.capacity.reservation_id",
        "nothing",
        "cr- and 17 hex digits",
        "required",
    ),
    "a Capacity Block without a zone": (
        both(
            put(
                "aws",
                "capacity",
                value={"kind": "capacity_block", "reservation_id": "cr-0123456789abcdef0"},
            ),
            drop("aws", "availability_zone"),
        ),
        "aws.availability_zone",
        "nothing",
        "text such as us-east-2c",
        "Capacity Block all live in one zone",
    ),
    "a reservation id of another kind": (
        put("aws", "capacity", value={"kind": "capacity_block", "reservation_id": "i-123"}),
        "aws.capacity.reservation_id",
        '"i-123"',
        "cr- and 17 hex digits",
        "launches nothing into the block",
    ),
    "a reservation id for Spot": (
        put("aws", "capacity", value={"kind": "spot", "reservation_id": "cr-0123456789abcdef0"}),
        "aws.capacity.reservation_id",
        "unknown key",
        "kind",
        "another experiment",
    ),
    "a capacity nobody sells": (
        put("aws", "capacity", value={"kind": "spott"}),
        "aws.capacity.kind",
        '"spott"',
        "on_demand, spot, capacity_block",
        "how accelerator nodes are bought",
    ),
    "a zone of another region": (
        put("aws", "availability_zone", value="us-west-2a"),
        "aws.availability_zone",
        '"us-west-2a"',
        "a zone of us-east-2",
        "one zone of aws.region",
    ),
    "a second zone that is the first": (
        put("aws", "second_zone", value="us-east-2c"),
        "aws.second_zone",
        '"us-east-2c"',
        "a zone of us-east-2 other than aws.availability_zone",
        "subnets in two zones",
    ),
    "a second zone of another region": (
        put("aws", "second_zone", value="us-west-2a"),
        "aws.second_zone",
        '"us-west-2a"',
        "a zone of us-east-2 other than aws.availability_zone",
        "subnets in two zones",
    ),
    "one bucket of an engine that is not told": (
        both(put("serving", "buckets", value="one"), put("release", value="neuron-2.32.0")),
        "serving.buckets",
        '"one" on release neuron-2.32.0',
        "engine",
        "only images with NxD Inference",
    ),
    "buckets said twice": (
        both(
            put("serving", "buckets", value="one"),
            put("serving", "neuron_config", value={"context_encoding_buckets": [128]}),
        ),
        "serving.neuron_config.context_encoding_buckets",
        "with serving.buckets one",
        "serving.buckets, or this setting",
        "both say",
    ),
    "a Capacity Block without a price": (
        both(
            put(
                "aws",
                "capacity",
                value={"kind": "capacity_block", "reservation_id": "cr-0123456789abcdef0"},
            ),
            drop("aws", "price"),
        ),
        "aws.price",
        "nothing",
        "what was paid",
        "only while it is on offer",
    ),
    "a region that is none": (
        put("aws", "region", value="Ohio"),
        "aws.region",
        '"Ohio"',
        "a region such as us-east-2",
        "us-east-2",
    ),
    "the whole internet": (
        put("aws", "public_access_cidrs", value=["0.0.0.0/0"]),
        "aws.public_access_cidrs[0]",
        '"0.0.0.0/0"',
        "/16 or narrower",
        "opens the Kubernetes API",
    ),
    "documentation addresses, which EKS refuses": (
        put("aws", "public_access_cidrs", value=["203.0.113.0/24"]),
        "aws.public_access_cidrs[0]",
        '"203.0.113.0/24"',
        "public IPv4 ranges",
        "EKS refuses private and reserved ranges",
    ),
    "private addresses": (
        put("aws", "public_access_cidrs", value=["10.0.0.0/8"]),
        "aws.public_access_cidrs[0]",
        '"10.0.0.0/8"',
        "public IPv4 ranges",
        "EKS refuses private and reserved ranges",
    ),
    "an address range with host bits": (
        put("aws", "public_access_cidrs", value=["203.0.113.7/24"]),
        "aws.public_access_cidrs[0]",
        '"203.0.113.7/24"',
        "public IPv4 ranges",
        "host bits set",
    ),
    "a session ARN as administrator": (
        put("aws", "admin_principal_arns", value=["arn:aws:sts::111122223333:assumed-role/A/b"]),
        "aws.admin_principal_arns[0]",
        "assumed-role",
        "arn:aws:iam::111122223333:role/Admin",
        "neither",
    ),
    "a budget at the top level": (
        put("budget_usd", value=60),
        "budget_usd",
        "unknown key, 'budget_usd'",
        "rerun",
        "belongs into aws",
    ),
    "a rerun inside aws": (
        put("aws", "rerun", value=2),
        "aws.rerun",
        "unknown key, 'rerun'",
        "budget_usd",
        "belongs to the top level",
    ),
    "a key of another name in an earlier version": (
        put("repetition", value=2),
        "repetition",
        "unknown key, 'repetition'",
        "rerun",
        "is called `rerun` now",
    ),
    "a length that is no number": (
        put("workload", "input_tokens", value=["a"]),
        "workload.input_tokens[0]",
        '"a"',
        "a whole number, 32 or more",
        "longest prompt",
    ),
    "a length that holds no prompt": (
        put("workload", "input_tokens", value=[64, 1]),
        "workload.input_tokens[1]",
        "1",
        "32 or more",
        "longest prompt",
    ),
    "a hub token instead of a secret's name": (
        put("aws", "hub_token_secret", value="hf_" + "0" * 34),
        "aws.hub_token_secret",
        "hf_... (not repeated here)",
        "draftworth/hub",
        "revoke",
    ),
    "an endless budget": (
        put("aws", "budget_usd", value=float("inf")),
        "aws.budget_usd",
        ".inf",
        "a finite number",
        "no quantity",
    ),
    "no budget": (
        drop("aws", "budget_usd"),
        "aws.budget_usd",
        "nothing",
        "a number, 0.001 or more",
        "required; accelerator nodes go to zero",
    ),
    "an unquoted Kubernetes version": (
        put("aws", "kubernetes_version", value=1.35),
        "aws.kubernetes_version",
        "1.35",
        "'1.35'",
        "quoted",
    ),
    "a free node": (
        put("aws", "price", "usd_per_hour", value=0),
        "aws.price.usd_per_hour",
        "0",
        "0.001 or more",
        "US dollars",
    ),
    "a price without a date": (
        drop("aws", "price", "as_of"),
        "aws.price.as_of",
        "nothing",
        "YYYY-MM-DD",
        "required",
    ),
    "an unknown prompt class": (
        put("workload", "classes", 0, "name", value="structure"),
        "workload.classes[0].name",
        '"structure"',
        "open_ended, published_open_ended, published_structured, structured",
        "did you mean 'structured'?",
    ),
    "a missing prompt file": (
        put("workload", "classes", 0, "cases", value=["counting"]),
        "workload.classes[0].cases[0]",
        '"counting"',
        "code_template, count",
        "did you mean 'count'?",
    ),
    "a prompt folder that is not there": (
        put("workload", "prompts_dir", value="nowhere"),
        "workload.prompts_dir",
        '"nowhere"',
        "a folder with one folder a prompt class",
        "is not a folder",
    ),
    "a class twice": (
        put("workload", "classes", 1, "name", value="structured"),
        "workload.classes[1]",
        '"structured" twice',
        "each class once",
        "count double",
    ),
    "sampling where a fused graph samples greedily": (
        put("workload", "temperature", value=0.7),
        "workload.temperature",
        "0.7 on release neuron-2.26.1",
        "`python -m draftworth measure --temperature`",
        "the baseline would draw its tokens",
    ),
    "sampling where nothing documents it": (
        both(
            put("release", value="neuron-2.31.1"),
            put("variants", 1, "method", value="eagle3"),
            put("variants", 1, "draft", "model", value="AngelSlim/Qwen3-32B_eagle3"),
            put("workload", "temperature", value=0.7),
        ),
        "workload.temperature",
        "0.7 on release neuron-2.31.1",
        "0; or serve each variant yourself",
        "have the sampler compiled in",
    ),
    "sampling where the documentation contradicts itself": (
        both(DFLASH_ON_QWEN, put("workload", "temperature", value=0.7)),
        "workload.temperature",
        "0.7 on release neuron-2.33.0",
        "0; or serve each variant yourself",
        "all but 0 is not yet supported",
    ),
    "a temperature that vLLM raises": (
        put("workload", "temperature", value=0.001),
        "workload.temperature",
        "0.001",
        "0, which is greedy, or 0.01 to 2",
        "vLLM takes a lower one for 0.01",
    ),
    "a temperature that no API promises": (
        put("workload", "temperature", value=2.5),
        "workload.temperature",
        "2.5",
        "2.0 or less",
        "",
    ),
    "token ids of a server that does not know them": (
        put("workload", "token_ids", value=True),
        "workload.token_ids",
        "true on release neuron-2.26.1",
        "a release with vLLM 0.10.2 or later",
        "does not know return_token_ids",
    ),
    "token ids with prompts whose own no event holds": (
        both(
            put("workload", "token_ids", value=True), put("workload", "input_tokens", value=200_000)
        ),
        "workload.token_ids",
        "true with workload.input_tokens 200000",
        "at most 100,000 input tokens",
        "in one event",
    ),
    "a number in quotes": (
        put("workload", "load", "concurrency", value="4"),
        "workload.load.concurrency",
        '"4"',
        "a whole number, 1 or more, not in quotes",
        "requests in flight",
    ),
    "a word for a boolean": (
        put("aws", "keep_checkpoints", value="no"),
        "aws.keep_checkpoints",
        '"no"',
        "true or false",
        "outlives",
    ),
    "a misspelt key": (
        put("serving", "max_num_seq", value=4),
        "serving.max_num_seq",
        "unknown key, 'max_num_seq'",
        "max_num_seqs",
        "did you mean 'max_num_seqs'?",
    ),
    "an AWS section for a local release": (
        put("release", value="cpu-vllm-0.32.0"),
        "aws",
        "unknown key",
        "release",
        "another experiment",
    ),
    "a misspelt kind of load": (
        put("workload", "load", value={"kind": "concurency", "concurrency": 4}),
        "workload.load.kind",
        '"concurency"',
        "concurrency, poisson, ladder",
        "did you mean 'concurrency'?",
    ),
    "a misspelt key for the kind of load": (
        put("workload", "load", value={"knd": "concurrency", "concurrency": 4}),
        "workload.load.kind",
        "nothing",
        "concurrency, poisson, ladder",
        "did you mean 'kind' by 'knd'?",
    ),
    "a load without its kind": (
        put("workload", "load", value={"concurrency": 4}),
        "workload.load.kind",
        "nothing",
        "concurrency, poisson, ladder",
        "how requests are sent",
    ),
    "a misspelt key for the method": (
        put("variants", 1, value={**SPECULATIVE, "name": "k5"} | {"methd": "fused_draft"}),
        "variants[1].methd",
        "unknown key",
        "method",
        "did you mean 'method'?",
    ),
    "a variant whose method is misspelt": (
        put("variants", 0, value={"name": "baseline", "methd": "none"}),
        "variants[0].method",
        "nothing",
        "none (the baseline), fused_draft, eagle on neuron-2.26.1",
        "did you mean 'method' by 'methd'?",
    ),
    "a misspelt key for the release": (
        both(drop("release"), put("relase", value="neuron-2.26.1")),
        "release",
        "nothing",
        "neuron-2.26.1",
        "did you mean 'release' by 'relase'?",
    ),
    "an image under a tag that moves": (
        put("aws", "load_generator_image", value="registry.example.com:5000/llmperf"),
        "aws.load_generator_image",
        '"registry.example.com:5000/llmperf"',
        "a tag other than latest",
        "different clients",
    ),
    "a load nobody knows": (
        put("workload", "load", value={"kind": "burst"}),
        "workload.load.kind",
        '"burst"',
        "concurrency, poisson, ladder",
        "how requests are sent",
    ),
    "a key of another load": (
        put("workload", "load", value={"kind": "poisson", "concurrency": 4}),
        "workload.load.requests_per_second",
        "nothing",
        "a number, 0.001 or more",
        "required; mean rate",
    ),
    "an infinite rate": (
        put("workload", "load", value={"kind": "poisson", "requests_per_second": float("inf")}),
        "workload.load.requests_per_second",
        ".inf",
        "a finite number",
        "no quantity",
    ),
    "more in flight than llmperf has processes for": (
        both(
            put("workload", "load", "concurrency", value=33),
            put("workload", "requests_per_round", value=40),
        ),
        "workload.load_generator",
        "llmperf with 33 requests in flight",
        "at most 32 in flight, or asyncio",
        "a process for each",
    ),
    "more requests needed than allowed": (
        put("workload", "min_requests", value=100),
        "workload.min_requests",
        "100 with max_requests 64",
        "at most 64, or max_requests of 104 or more",
        "more requests than its part: 64, in whole rounds of 8",
    ),
    "a round longer than the run": (
        put("workload", "requests_per_round", value=100),
        "workload.max_requests",
        "64 with requests_per_round 100",
        "100 or more",
        "one round",
    ),
    "a budget that gives a load no round": (
        both(
            put("workload", "load", value={"kind": "ladder", "concurrencies": [1, 2, 4]}),
            put("repetitions", value=3),
        ),
        "workload.max_requests",
        "64 with requests_per_round 8, shared by loads c1, c2, c4 in 3 repetitions",
        "72 or more, or fewer requests a round, loads or repetitions",
        "one round of each takes 72 requests of every case and variant",
    ),
    "a budget that gives no load what it needs": (
        both(
            put("workload", "load", value={"kind": "ladder", "concurrencies": [1, 2]}),
            put("workload", "min_requests", value=40),
            put("repetitions", value=2),
        ),
        "workload.min_requests",
        "40 with max_requests 64, shared by loads c1, c2 in 2 repetitions",
        "at most 32, or max_requests of 96 or more",
        "32, in whole rounds of 8",
    ),
    "a ladder by default whose last rung a round cannot fill": (
        both(drop("workload", "load"), put("serving", "max_num_seqs", value=9)),
        "workload.load",
        "workload.requests_per_round 8; load is left out: the ladder to serving.max_num_seqs 9",
        "requests_per_round of 9 or more",
        "c9",
    ),
    "more requests in a round than a result file holds": (
        put("workload", "requests_per_round", value=10_001),
        "workload.requests_per_round",
        "10001",
        "10000",
        "",
    ),
    "a baseline's method misspelt": (
        put("variants", 0, "method", value="nonne"),
        "variants[0].method",
        '"nonne"',
        "none (the baseline), fused_draft, eagle on neuron-2.26.1",
        "did you mean 'none'?",
    ),
    "an instance type that is a number": (
        put("aws", "instance_type", value=3),
        "aws.instance_type",
        "3",
        "trn2.48xlarge or trn2.3xlarge",
        "EC2 type of the accelerator nodes",
    ),
    "an add-on's version that is a number": (
        put("aws", "pins", value={"add_ons": {"vpc-cni": 3}}),
        "aws.pins.add_ons.vpc-cni",
        "3",
        "an add-on's version, as in v1.21.1-eksbuild.3 (in quotes",
        "EKS add-on to its version",
    ),
    "no way to buy nodes": (
        drop("aws", "capacity"),
        "aws.capacity",
        "nothing",
        "a mapping with kind: on_demand or spot or capacity_block",
        "required; how accelerator nodes are bought",
    ),
    "no AWS section": (
        drop("aws"),
        "aws",
        "nothing",
        "a mapping with region, availability_zone, capacity, budget_usd, keep_checkpoints",
        "this key is required",
    ),
    "no day of the price": (
        drop("aws", "price", "as_of"),
        "aws.price.as_of",
        "nothing",
        "a date, YYYY-MM-DD",
        "required; the day this price was looked up",
    ),
    "a list of methods": (
        put("variants", 1, "method", value=["eagle"]),
        "variants[1].method",
        '["eagle"]',
        "none (the baseline), fused_draft, eagle on neuron-2.26.1",
        "how tokens are drafted",
    ),
    "a misspelt hub id": (
        put("variants", 1, "draft", "model", value="Qwen/Qwen3-1.7b"),
        "variants[1].draft.tokenizer_family",
        "nothing",
        "the family's name",
        "did you mean 'Qwen/Qwen3-1.7B'?",
    ),
    "a hub id that leads out of its folder": (
        put("target", "model", value="Qwen/.."),
        "target.model",
        '"Qwen/.."',
        "OWNER/NAME",
        "hub id",
    ),
    "a hub id in another script": (
        put("target", "model", value="acme/モデル"),
        "target.model",
        '"acme/モデル"',
        "OWNER/NAME",
        "hub id",
    ),
    "an endless hub id": (
        put("target", "model", value="acme/" + "a" * 140),
        "target.model",
        '"acme/aaa',
        "at most 140 characters",
        "hub id",
    ),
    "a revision that leads out of its folder": (
        put("target", "revision", value=".."),
        "target.revision",
        '".."',
        "as git names them",
        "branch, tag or commit",
    ),
    "a range of revisions": (
        put("target", "revision", value="v1..v2"),
        "target.revision",
        '"v1..v2"',
        "single dots",
        "branch, tag or commit",
    ),
    "an option as a revision": (
        put("target", "revision", value="-f"),
        "target.revision",
        '"-f"',
        "no hyphen or dot first",
        "branch, tag or commit",
    ),
    "an unknown key that is called as a kind of variant": (
        put("baseline", value=1),
        "baseline",
        "unknown key, 'baseline'",
        "variants",
        "another experiment",
    ),
    "a key of another kind": (
        put("workload", "load", "concurrencies", value=[4]),
        "workload.load.concurrencies",
        "unknown key",
        "concurrency, kind",
        "did you mean 'concurrency'?",
    ),
    "a release of nothing": (
        put("release", value=None),
        "release",
        "null",
        "neuron-2.26.1",
        "what can be served",
    ),
    "an endless weight": (
        put("workload", "classes", 0, "weight", value=float("inf")),
        "workload.classes[0].weight",
        ".inf",
        "a finite number",
        "no quantity",
    ),
    "a weight of nothing": (
        put("workload", "classes", 0, "weight", value=1e-320),
        "workload.classes[0].weight",
        "e-320",
        "0.001 or more",
        "output tokens",
    ),
    "a seed that no engine takes": (
        put("workload", "seed", value=2**63),
        "workload.seed",
        "9223372036854775808",
        "at most 64 bits",
        "no quantity",
    ),
    "a setting of the engine that is endless": (
        put("serving", "neuron_config", value={"deep": [float("nan")]}),
        "serving.neuron_config.deep[0]",
        ".nan",
        "a finite number",
        "no quantity",
    ),
    "a reference of CloudFormation in a setting": (
        put("serving", "neuron_config", value={"path": "{{resolve:ssm:/secret}}"}),
        "serving.neuron_config.path",
        "{{resolve:ssm:/secret}}",
        "text without ${",
        "CloudFormation and CDK",
    ),
    "a reference of CloudFormation in a sentence": (
        put("description", value="in ${AWS::Region}"),
        "description",
        "in ${AWS::Region}",
        "text without ${",
        "CloudFormation and CDK",
    ),
    "a token of CDK": (
        put("aws", "price", "source", value="${Token[TOKEN.1]}"),
        "aws.price.source",
        "${Token[TOKEN.1]}",
        "text without ${",
        "CloudFormation and CDK",
    ),
    "an escape sequence": (
        put("description", value="[2J"),
        "description",
        "u001b[2J",
        "characters that are seen",
        "terminals",
    ),
    "a deadline of a year": (
        put("aws", "deadline_minutes", value=525_600),
        "aws.deadline_minutes",
        "525600",
        "10080 or less",
        "accelerator nodes go to zero",
    ),
    "a warm-up without end": (
        put("workload", "warmup_requests", value=1_001),
        "workload.warmup_requests",
        "1001",
        "1000 or less",
        "not measured",
    ),
    "outputs longer than any context": (
        put("workload", "output_tokens", value=10**18),
        "workload.output_tokens",
        "1000000000000000000",
        "10000000 or less",
        "max_tokens",
    ),
    "more in flight than a round has": (
        put("workload", "load", "concurrency", value=64),
        "workload.load.concurrency",
        "64 requests in flight with workload.requests_per_round 8",
        "at most 8, or requests_per_round of 64 or more",
        "c64 takes 64 requests of warm-up to build up and as many fillers",
    ),
    "a rung that a round cannot fill": (
        put("workload", "load", value={"kind": "ladder", "concurrencies": [4, 9]}),
        "workload.load.concurrencies[1]",
        "9 requests in flight",
        "at most 8",
        "c9",
    ),
    "the longest of several lengths does not fit": (
        put("workload", "input_tokens", value=[64, 512]),
        "serving.max_model_len",
        "1024 with workload.input_tokens 512 + workload.output_tokens 600 = 1112",
        "1112 or more",
        "longer than max_model_len",
    ),
    "no length": (
        put("workload", "input_tokens", value=[]),
        "workload.input_tokens",
        "[]",
        "a list of 1 or more",
        "longest prompt",
    ),
    "a length twice": (
        put("workload", "input_tokens", value=[64, 64]),
        "workload.input_tokens",
        "[64, 64]",
        "each entry once; twice: 64",
        "longest prompt",
    ),
    "a length in words": (
        put("workload", "input_tokens", value="long"),
        "workload.input_tokens",
        '"long"',
        "a whole number, 1 or more or a list of 1 or more entries, not in quotes",
        "longest prompt",
    ),
    "a budget that gives a length no round": (
        both(
            put("workload", "input_tokens", value=[32, 64]),
            put("workload", "max_requests", value=8),
            put("workload", "min_requests", value=8),
        ),
        "workload.max_requests",
        "8 with requests_per_round 8, shared by loads c4-i32, c4-i64 in 1 repetition",
        "16 or more",
        "one round of each",
    ),
    "a rung twice": (
        put("workload", "load", value={"kind": "ladder", "concurrencies": [4, 4]}),
        "workload.load.concurrencies",
        "[4, 4]",
        "each entry once; twice: 4",
        "rung",
    ),
    "a case twice": (
        put("workload", "classes", 0, "cases", value=["count", "count"]),
        "workload.classes[0].cases",
        '["count", "count"]',
        "each entry once; twice: count",
        "file stems",
    ),
    "a case outside its folder": (
        put("workload", "classes", 0, "cases", value=["../open_ended/poem"]),
        "workload.classes[0].cases[0]",
        '"../open_ended/poem"',
        "lower-case letters",
        "result files' names",
    ),
    "an address range twice": (
        put("aws", "public_access_cidrs", value=["8.8.8.8/32"] * 2),
        "aws.public_access_cidrs",
        "8.8.8.8/32",
        "each entry once",
        "Kubernetes API",
    ),
    "more address ranges than EKS takes": (
        put("aws", "public_access_cidrs", value=[f"8.8.8.{n}/32" for n in range(41)]),
        "aws.public_access_cidrs",
        "8.8.8.0/32",
        "at most 40 entries",
        "Kubernetes API",
    ),
    "a range of a hundred thousand addresses": (
        put("aws", "public_access_cidrs", value=["8.8.0.0/15"]),
        "aws.public_access_cidrs[0]",
        '"8.8.0.0/15"',
        "/16 or narrower",
        "opens the Kubernetes API",
    ),
    "a range of IPv6": (
        put("aws", "public_access_cidrs", value=["2600::/32"]),
        "aws.public_access_cidrs[0]",
        '"2600::/32"',
        "public IPv4 ranges",
        "not an IPv4 range",
    ),
    "addresses of groups": (
        put("aws", "public_access_cidrs", value=["224.0.0.0/24"]),
        "aws.public_access_cidrs[0]",
        '"224.0.0.0/24"',
        "public IPv4 ranges",
        "EKS refuses",
    ),
    "an ARN without an account": (
        put("aws", "admin_principal_arns", value=["arn:aws:iam::1:role/Admin"]),
        "aws.admin_principal_arns[0]",
        "arn:aws:iam::1:role/Admin",
        "arn:aws:iam::111122223333:role/Admin",
        "neither",
    ),
    "every role of an account": (
        put("aws", "admin_principal_arns", value=["arn:aws:iam::111122223333:role/*"]),
        "aws.admin_principal_arns[0]",
        "role/*",
        "arn:aws:iam::111122223333:role/Admin",
        "neither",
    ),
    "a zone in another alphabet": (
        put("aws", "availability_zone", value="us-east-2é"),
        "aws.availability_zone",
        '"us-east-2é"',
        "a zone of us-east-2",
        "one zone of aws.region",
    ),
    "an image that is none": (
        put("aws", "load_generator_image", value="llm perf; rm -rf /:1"),
        "aws.load_generator_image",
        "llm perf",
        "an image with a tag",
        "different clients",
    ),
    "no requests": (
        put("workload", "requests_per_round", value=0),
        "workload.requests_per_round",
        "0",
        "1 or more",
        "measured requests",
    ),
}


@pytest.mark.parametrize(
    ("edit", "key", "given", "allowed", "reason"), REFUSED.values(), ids=REFUSED
)
def test_a_wrong_file_is_refused_with_key_given_allowed_and_reason(
    tmp_path: Path, edit: Edit, key: str, given: str, allowed: str, reason: str
) -> None:
    assert_refused(write_experiment(tmp_path, edit), key, given, allowed, reason)


ON_ONE_DEVICE = both(
    put("aws", "instance_type", value="trn2.3xlarge"),
    put("serving", "slot_devices", value=1),
    put("serving", "tensor_parallel_size", value=4),
)


@pytest.mark.parametrize(
    ("edit", "key", "allowed"),
    [
        (
            both(DFLASH_ON_QWEN, ON_ONE_DEVICE, put("serving", "lnc", value=1)),
            "serving.lnc",
            "2, with tensor_parallel_size 4 on 1 device",
        ),
        (
            both(DFLASH_ON_QWEN, ON_ONE_DEVICE, put("serving", "lnc", value=3)),
            "serving.lnc",
            "2, with tensor_parallel_size 4 on 1 device",
        ),
        (
            both(ON_ONE_DEVICE, put("serving", "slot_devices", value=8)),
            "serving.slot_devices",
            "1 on trn2.3xlarge, with tensor_parallel_size 4 on 1 device",
        ),
        (
            both(ON_ONE_DEVICE, put("serving", "lnc", value=3)),
            "serving.lnc",
            "1 or 2, with tensor_parallel_size 8 on 1 device at lnc 1, 4 on 1 device at lnc 2",
        ),
        (
            both(ON_ONE_DEVICE, put("serving", "lnc", value=1)),
            "serving.tensor_parallel_size",
            "8 = slot_devices 1 x 8 logical cores a device at lnc 1",
        ),
    ],
)
def test_cores_that_do_not_fit_together_are_one_problem(
    tmp_path: Path, edit: Edit, key: str, allowed: str
) -> None:
    """Two would tell the reader to change two keys in ways that contradict each other."""
    with pytest.raises(ExperimentError) as refused:
        load_experiment(write_experiment(tmp_path, edit))
    told = {problem.dotted_key: problem.allowed for problem in refused.value.problems}
    assert told == {key: allowed}


@pytest.mark.parametrize("variant", [0, 1])
def test_a_wrong_method_is_one_problem(tmp_path: Path, variant: int) -> None:
    with pytest.raises(ExperimentError) as refused:
        load_experiment(write_experiment(tmp_path, put("variants", variant, "method", value="x")))
    assert [p.dotted_key for p in refused.value.problems] == [f"variants[{variant}].method"]


@pytest.mark.parametrize("path", ["a" * 300, "/".join(["a"] * 400), "loop"])
def test_a_path_that_no_system_takes_is_a_problem(tmp_path: Path, path: str) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    edits = {"qwen3-32b": ("workload", "prompts_dir"), "rehearsal": ("target", "path")}
    for base, key in edits.items():
        with pytest.raises(ExperimentError) as refused:
            load_experiment(write_experiment(tmp_path, put(*key, value=path), base=base))
        assert key in [problem.key for problem in refused.value.problems]


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for folder in (tmp_path / "target", tmp_path / "draft"):
        folder.mkdir()
        (folder / "config.json").touch()
        (folder / "tokenizer.json").symlink_to("/proc/self/mem")
    models = both(
        put("target", "path", value="target"), put("variants", 1, "draft", "path", value="draft")
    )
    path = write_experiment(tmp_path, models, base="rehearsal")
    with pytest.raises(UserInputError, match=r"experiment\.yaml: a file that it names: .*Errno"):
        load_experiment(path)


def test_a_local_experiment_may_not_ask_for_llmperf(tmp_path: Path) -> None:
    edit = put("workload", "load_generator", value="llmperf")
    with pytest.raises(ExperimentError) as caught:
        load_experiment(write_experiment(tmp_path, edit, base="rehearsal"))
    problem = next(p for p in caught.value.problems if p.key == ("workload", "load_generator"))
    assert (problem.given, problem.allowed) == ("llmperf", "asyncio, which is the default")
    assert "measuring Job" in problem.reason


def test_a_local_experiment_may_sample(tmp_path: Path) -> None:
    edit = both(
        put("workload", "temperature", value=0.7),
        put("target", "path", value=str(ROOT / "rehearsal/tiny_pair/target")),
        put("variants", 1, "draft", "path", value=str(ROOT / "rehearsal/tiny_pair/draft")),
    )
    loaded = load_experiment(write_experiment(tmp_path, edit, base="rehearsal"))
    assert loaded.spec.workload.temperature == 0.7


def test_every_release_that_is_rented_refuses_to_sample() -> None:
    """Until a source says that one samples with a draft as without: then this list changes."""
    releases = catalog().releases.items()
    assert {name for name, r in releases if not r.refuses_sampling} == {"cpu-vllm-0.32.0"}


def test_every_problem_is_told_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    path = write_experiment(
        tmp_path,
        both(
            put("serving", "slot_devices", value=3),
            put("workload", "temperature", value=1.0),
            put("aws", "availability_zone", value="us-east-1a"),
        ),
    )

    with pytest.raises(ExperimentError) as refused:
        load_experiment(path)

    problems = refused.value.problems
    assert {"serving.slot_devices", "workload.temperature", "aws.availability_zone"} <= {
        problem.dotted_key for problem in problems
    }
    lines = [problem.line or 0 for problem in problems]
    assert lines == sorted(lines)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("name: a\nname: b\n", 'found duplicate key "name"'),
        ("name: [unclosed\n", "expected"),
        ("- a\n- list\n", "an experiment is a mapping"),
        ("", "an experiment is a mapping"),
        ("1: one\n", "is not text"),
        ("name: !!python/object/apply:os.system [id]\n", "a tag names a type of a program"),
        ("a: &a [x]\nb: *a\n", "given:   the alias *a"),
    ],
)
def test_text_that_is_no_experiment_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "experiment.yaml"
    path.write_text(text)

    with pytest.raises(ExperimentError) as refused:
        load_experiment(path)

    assert reason in str(refused.value)


def test_a_file_that_is_not_there_is_answered_with_those_that_are(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("")

    with pytest.raises(UserInputError, match=r"no such experiment file.*mine\.yaml"):
        load_experiment(tmp_path / "other.yaml")


def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "experiment.yaml"
    path.write_bytes(b"\xff\xfe\x00")

    with pytest.raises(UserInputError, match="UTF-8"):
        load_experiment(path)


@pytest.mark.parametrize(("limit_bytes", "taken"), [(1_000_200, True), (1_000_000, False)])
def test_prompts_that_no_load_generator_could_hold_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit_bytes: int, taken: bool
) -> None:
    monkeypatch.setattr(rules_prompts, "MAX_PROMPT_BYTES", limit_bytes)
    folder = tmp_path / "prompts" / "long"
    folder.mkdir(parents=True)
    line = json.dumps({"id": "a", "prompt": "word " * 200_000})
    (folder / "case.jsonl").write_text(line)
    path = write_experiment(
        tmp_path,
        both(
            put("workload", "prompts_dir", value="prompts"),
            put("workload", "classes", value=[{"name": "long"}]),
        ),
    )
    if taken:
        assert load_experiment(path).cases
        return
    with pytest.raises(ExperimentError, match="allowed: at most 1,000,000 bytes in all classes"):
        load_experiment(path)


def test_a_bad_prompt_line_is_told_with_its_file_and_line(tmp_path: Path) -> None:
    folder = tmp_path / "prompts" / "mine"
    folder.mkdir(parents=True)
    (folder / "case.jsonl").write_text('{"id": "a", "prompt": "x"}\n{"id": "b"}\n')
    path = write_experiment(
        tmp_path,
        both(
            put("workload", "prompts_dir", value="prompts"),
            put("workload", "classes", value=[{"name": "mine"}]),
        ),
    )

    with pytest.raises(ExperimentError, match=r"case\.jsonl:2: given: id; allowed: the keys id"):
        load_experiment(path)


TOOL = {"type": "function", "function": {"name": "weather"}}


def write_with_prompt(folder: Path, line: dict[str, object], *changes: Edit) -> Path:
    """An experiment whose one prompt is this line."""
    (folder / "prompts" / "mine").mkdir(parents=True, exist_ok=True)
    (folder / "prompts" / "mine" / "case.jsonl").write_text(json.dumps({"id": "a", **line}))
    prompts = (
        put("workload", "prompts_dir", value="prompts"),
        put("workload", "classes", value=[{"name": "mine"}]),
    )
    return write_experiment(folder, both(*prompts, *changes))


def test_a_prompt_that_asks_for_more_than_output_tokens_is_told_with_its_line(
    tmp_path: Path,
) -> None:
    path = write_with_prompt(tmp_path, {"prompt": "x", "max_tokens": 601})
    with pytest.raises(ExperimentError, match=r"case\.jsonl:1: max_tokens: given 601; .* 1 to 600"):
        load_experiment(path)
    assert load_experiment(write_with_prompt(tmp_path, {"prompt": "x", "max_tokens": 600})).cases


@pytest.mark.parametrize("choice", [{}, {"tool_choice": "auto"}])
def test_tools_that_the_model_may_call_need_a_parser_of_its_calls(
    tmp_path: Path, choice: dict[str, object]
) -> None:
    line = {"prompt": "x", "tools": [TOOL], **choice}
    natural = put("workload", "fixed_output_length", value=False)
    parser = put("serving", "tool_call_parser", value="hermes")
    with pytest.raises(ExperimentError, match=r"tool_call_parser\n .*1 prompt \(the first: mine/c"):
        load_experiment(write_with_prompt(tmp_path, line, natural))
    assert load_experiment(write_with_prompt(tmp_path, line, natural, parser)).cases
    named = {**line, "tool_choice": TOOL}
    assert load_experiment(write_with_prompt(tmp_path, named, natural)).cases


@pytest.mark.parametrize(
    "beside",
    [{"tools": [TOOL], "tool_choice": "none"}, {"response_format": {"type": "json_object"}}],
)
def test_an_answer_that_has_a_form_is_not_made_longer(
    tmp_path: Path, beside: dict[str, object]
) -> None:
    line = {"prompt": "x", **beside}
    forced = put("workload", "fixed_output_length", value=True)
    with pytest.raises(ExperimentError, match=r"workload\.fixed_output_length\n .*true, and 1 pro"):
        load_experiment(write_with_prompt(tmp_path, line, forced))
    natural = put("workload", "fixed_output_length", value=False)
    assert load_experiment(write_with_prompt(tmp_path, line, natural)).cases


def test_a_file_that_is_meant_as_a_case_is_not_left_out_without_a_word(tmp_path: Path) -> None:
    folder = tmp_path / "prompts" / "mine"
    folder.mkdir(parents=True)
    for name in ("case.jsonl", "other.JSONL", "README.md"):
        (folder / name).write_text('{"id": "a", "prompt": "x"}\n')
    classes = both(
        put("workload", "prompts_dir", value="prompts"),
        put("workload", "classes", value=[{"name": "mine"}]),
    )
    with pytest.raises(ExperimentError, match=r"the file other\.JSONL in the folder mine"):
        load_experiment(write_experiment(tmp_path, classes))
    named = both(classes, put("workload", "classes", 0, "cases", value=["case"]))
    assert load_experiment(write_experiment(tmp_path, named))


def test_every_shipped_experiment_loads() -> None:
    # By name: a user's own files may lie beside them.
    shipped = {
        "llama-3.1-8b-eagle3": NeuronExperiment,
        "qwen3-32b": NeuronExperiment,
        "qwen3-32b-search": NeuronExperiment,
        "rehearsal": LocalExperiment,
        "rehearsal-search": LocalExperiment,
    }
    for name, kind in shipped.items():
        assert type(load_experiment(ROOT / "experiments" / f"{name}.yaml").spec) is kind


def test_the_published_experiment_is_the_published_one() -> None:
    experiment = load_experiment(ROOT / "experiments" / "qwen3-32b.yaml").spec
    assert isinstance(experiment, NeuronExperiment)
    assert experiment.release == "neuron-2.26.1"
    assert (experiment.serving.tensor_parallel_size, experiment.serving.lnc) == (32, 2)
    assert experiment.serving.max_num_seqs == 4
    assert [load.label for load in loads_of(experiment)] == ["c1", "c2", "c4"]
    assert (experiment.workload.input_tokens, experiment.workload.output_tokens) == (64, 600)


@pytest.mark.parametrize(
    ("most", "labels"),
    [(1, ["c1"]), (2, ["c1", "c2"]), (6, ["c1", "c2", "c4", "c6"]), (8, ["c1", "c2", "c4", "c8"])],
)
def test_without_a_load_it_is_a_ladder_to_what_the_server_decodes_at_once(
    tmp_path: Path, most: int, labels: list[str]
) -> None:
    edit = both(drop("workload", "load"), put("serving", "max_num_seqs", value=most))
    experiment = load_experiment(write_experiment(tmp_path, edit)).spec

    assert [load.label for load in loads_of(experiment)] == labels


def test_each_length_is_measured_at_each_load(tmp_path: Path) -> None:
    edit = both(
        drop("workload", "load"),
        put("workload", "input_tokens", value=[64, 400]),
        put("workload", "max_requests", value=96),
    )
    experiment = load_experiment(write_experiment(tmp_path, edit)).spec

    labels = [load.label for load in loads_of(experiment)]
    assert labels == ["c1-i64", "c2-i64", "c4-i64", "c1-i400", "c2-i400", "c4-i400"]


def test_a_secret_may_be_named_after_the_hub(tmp_path: Path) -> None:
    path = write_experiment(tmp_path, put("aws", "hub_token_secret", value="hf_token"))
    experiment = load_experiment(path).spec
    assert isinstance(experiment, NeuronExperiment)
    assert experiment.aws.hub_token_secret == "hf_token"


@pytest.mark.parametrize(
    ("image", "pinned"),
    [
        ("llmperf", False),
        ("llmperf:latest", False),
        ("registry.example.com:5000/llmperf", False),
        ("example.com/llmperf:", False),
        ("registry.example.com:5000/llmperf:1.2", True),
        (f"llmperf@sha256:{'0' * 64}", True),
        (f"example.com/a/b_c--d:1.2@sha256:{'0' * 64}", True),
        (f"llmperf:latest@sha256:{'0' * 64}", True),
        (f"llmperf@sha256:{'0' * 63}", False),
        ("LLMPerf:1", False),
        ("example.com//llmperf:1", False),
        ("example.com/llmperf:1 --privileged", False),
        ("-x:1", False),
        ("a" * 600 + ":1", False),
        ("a-" * 250 + "!", False),
    ],
)
def test_an_image_is_pinned_by_a_tag_other_than_latest_or_a_digest(
    image: str, pinned: bool
) -> None:
    assert is_pinned_image(image) is pinned
