"""Rules of an experiment that need more than one key, the catalogue or the disk.

Each rule yields a `Problem` for everything that would go wrong on AWS or make a comparison unfair,
so that it goes wrong here instead, in a second and for nothing.
"""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from draftworth.errors import Problem, PromptSetError, suggestion
from draftworth.experiment.catalog import accelerator, catalog
from draftworth.experiment.model import (
    SET_NAME_PATTERN,
    Baseline,
    Experiment,
    HubModel,
    HubSpeculative,
    LocalExperiment,
    LocalModel,
    LocalSpeculative,
    NeuronExperiment,
    Speculative,
    resolve,
)
from draftworth.experiment.naming import dns_label
from draftworth.records.prompts import CASE_SUFFIX, load_case

# The prompts travel in a ConfigMap (1 MiB) inside a CloudFormation template (1 MB, twice the bytes
# where JSON escapes them), which holds more than the prompts.
MAX_PROMPT_BYTES = 250_000
# A node group, a placement group and a Capacity Block are planned for this many nodes at most.
MAX_NODES = 8
# An access token of the model hub: a secret may well be NAMED hf_token.
_HUB_TOKEN = re.compile(r"hf_[A-Za-z0-9]{20,}")

_KIND_WORDS = {"causal_lm": "a causal language model", "eagle3_head": "an EAGLE3 head"}

Rule = Callable[[Experiment, Path], Iterator[Problem]]


def broken_rules(experiment: Experiment, path: Path) -> Iterator[Problem]:
    """Every problem of a well-formed experiment; `path` is the file it came from."""
    for rule in RULES:
        yield from rule(experiment, path)


def _exactly_one_baseline(experiment: Experiment, path: Path) -> Iterator[Problem]:
    names = [v.name for v in experiment.variants if isinstance(v, Baseline)]
    if len(names) != 1:
        yield Problem(
            key=("variants",),
            given=f"{len(names)} variants with method none"
            + (f" ({', '.join(names)})" if names else ""),
            allowed="exactly one variant with method none",
            reason="every speedup is a ratio to the one baseline",
        )


def _unique_variant_names(experiment: Experiment, path: Path) -> Iterator[Problem]:
    counts = Counter(dns_label(v.name) for v in experiment.variants)
    for index, variant in enumerate(experiment.variants):
        if counts[dns_label(variant.name)] > 1:
            yield Problem(
                key=("variants", index, "name"),
                given=f'"{variant.name}"',
                allowed="names that stay unique when dots become hyphens",
                reason="a variant's name is the name of its Kubernetes service and of its metrics",
            )


def _methods_the_release_serves(experiment: Experiment, path: Path) -> Iterator[Problem]:
    served = experiment.release_facts.methods
    for index, variant in _speculative(experiment):
        if variant.method in served:
            continue
        able = catalog().releases_that_serve(variant.method)
        yield Problem(
            key=("variants", index, "method"),
            given=f"{variant.method} on release {experiment.release}",
            allowed=", ".join(["none", *served]) + f" on {experiment.release}; "
            f"{variant.method} needs release {' or '.join(able)}",
            reason=f"the image of {experiment.release} (vLLM "
            f"{experiment.release_facts.vllm_version}) cannot serve this method",
        )


def _window_drafts_something(experiment: Experiment, path: Path) -> Iterator[Problem]:
    for index, variant in _speculative(experiment):
        facts = experiment.release_facts.methods.get(variant.method)
        if facts and variant.window < facts.min_window:
            yield Problem(
                key=("variants", index, "window"),
                given=str(variant.window),
                allowed=f"{facts.min_window} or more",
                reason=f"{variant.method} on {experiment.release} checks window - 1 drafts and "
                "yields at most window tokens a step: a window of 1 speculates nothing",
            )


def _window_fits_the_output(experiment: Experiment, path: Path) -> Iterator[Problem]:
    for index, variant in _speculative(experiment):
        if variant.window >= experiment.workload.output_tokens:
            yield Problem(
                key=("variants", index, "window"),
                given=f"{variant.window} with workload.output_tokens "
                f"{experiment.workload.output_tokens}",
                allowed=f"less than {experiment.workload.output_tokens}",
                reason="an output that ends within one step has no inter-token latency",
            )


def _distinct_variants(experiment: Experiment, path: Path) -> Iterator[Problem]:
    seen: dict[str, str] = {}
    for index, variant in _speculative(experiment):
        identity = variant.model_dump_json(exclude={"name"})
        if identity in seen:
            yield Problem(
                key=("variants", index),
                given=f'"{variant.name}", which decodes exactly as "{seen[identity]}"',
                allowed="variants that differ in method, draft or window",
                reason="the same variant twice costs a second slot and answers nothing",
            )
        seen.setdefault(identity, variant.name)


def _lengths_fit(experiment: Experiment, path: Path) -> Iterator[Problem]:
    work, limit = experiment.workload, experiment.serving.max_model_len
    total = work.input_tokens + work.output_tokens
    if total > limit:
        yield Problem(
            key=("serving", "max_model_len"),
            given=f"{limit} with workload.input_tokens {work.input_tokens} + "
            f"workload.output_tokens {work.output_tokens} = {total}",
            allowed=f"{total} or more",
            reason="the engine refuses or cuts requests longer than max_model_len",
        )


def _greedy(experiment: Experiment, path: Path) -> Iterator[Problem]:
    if experiment.workload.temperature != 0:
        yield Problem(
            key=("workload", "temperature"),
            given=str(experiment.workload.temperature),
            allowed="0",
            reason="only greedy outputs can be compared token for token, and the variants share a "
            "greedy sampler",
        )


def _draft_shares_the_tokenizer(experiment: Experiment, path: Path) -> Iterator[Problem]:
    for index, variant in _speculative(experiment):
        key = ("variants", index, "draft")
        if isinstance(variant, HubSpeculative) and isinstance(experiment.target, HubModel):
            yield from _hub_family_problem(key, experiment.target, variant.draft)
        if isinstance(variant, LocalSpeculative) and isinstance(experiment.target, LocalModel):
            yield from _local_tokenizer_problem(key, experiment.target, variant.draft, path)


def _hub_family_problem(
    key: tuple[str | int, ...], target: HubModel, draft: HubModel
) -> Iterator[Problem]:
    families = target.known_tokenizer_family, draft.known_tokenizer_family
    if None not in families and families[0] != families[1]:
        yield Problem(
            key=(*key, "model"),
            given=f"{draft.model} (tokenizer family {families[1]}) for {target.model} "
            f"({families[0]})",
            allowed=f"a draft of the family {families[0]}: "
            + ", ".join(
                n for n, f in catalog().models.items() if f.tokenizer_family == families[0]
            ),
            reason="the target checks the draft's token ids: with another vocabulary they mean "
            "something else",
        )


def _tokenizer_family_is_known(experiment: Experiment, path: Path) -> Iterator[Problem]:
    for key, model in _hub_models(experiment):
        facts = catalog().models.get(model.model)
        stated = model.tokenizer_family
        if facts is None and stated is None:
            yield Problem(
                key=(*key, "tokenizer_family"),
                given="nothing",
                allowed="the family's name, e.g. qwen3",
                reason=f"the catalogue does not know {model.model}, so it cannot tell whether "
                "target and draft share token ids",
            )
        elif facts is not None and stated is not None and stated != facts.tokenizer_family:
            yield Problem(
                key=(*key, "tokenizer_family"),
                given=f'"{stated}" for {model.model}',
                allowed=f"{facts.tokenizer_family}, or leave the key out",
                reason="the catalogue knows this model's tokenizer",
            )


def _model_kinds(experiment: Experiment, path: Path) -> Iterator[Problem]:
    """An EAGLE-3 head is no draft model, and a whole model is no head."""
    for index, variant in _speculative(experiment):
        facts = (
            catalog().models.get(variant.draft.model)
            if isinstance(variant, HubSpeculative)
            else None
        )
        if facts is None or variant.method == "eagle":
            continue
        wanted = "eagle3_head" if variant.method == "eagle3" else "causal_lm"
        if facts.kind != wanted:
            yield Problem(
                key=("variants", index, "draft", "model"),
                given=f"{_KIND_WORDS[facts.kind]} for method {variant.method}",
                allowed=_KIND_WORDS[wanted],
                reason="eagle3 reads the target's hidden states with a small head; a draft model "
                "is a whole model of its own",
            )


def _target_is_a_model(experiment: Experiment, path: Path) -> Iterator[Problem]:
    if isinstance(experiment.target, HubModel):
        facts = catalog().models.get(experiment.target.model)
        if facts is not None and facts.kind != "causal_lm":
            yield Problem(
                key=("target", "model"),
                given=f"{experiment.target.model}, {_KIND_WORDS[facts.kind]}",
                allowed=_KIND_WORDS["causal_lm"],
                reason="a speculation head cannot be served by itself",
            )


def _local_models_are_there(experiment: Experiment, path: Path) -> Iterator[Problem]:
    if not isinstance(experiment, LocalExperiment):
        return
    drafts = [
        (("variants", index, "draft", "path"), variant.draft)
        for index, variant in enumerate(experiment.variants)
        if isinstance(variant, LocalSpeculative)
    ]
    for key, model in [(("target", "path"), experiment.target), *drafts]:
        folder = resolve(path, model.path)
        if not (folder / "config.json").is_file():
            yield Problem(
                key=key,
                given=f'"{model.path}"',
                allowed="a checkpoint folder with config.json and tokenizer.json",
                reason=f"{folder} has no config.json",
            )


def _local_tokenizer_problem(
    key: tuple[str | int, ...], target: LocalModel, draft: LocalModel, path: Path
) -> Iterator[Problem]:
    files = [resolve(path, model.path) / "tokenizer.json" for model in (target, draft)]
    if all(f.is_file() for f in files) and files[0].read_bytes() != files[1].read_bytes():
        yield Problem(
            key=(*key, "path"),
            given=f'"{draft.path}", whose tokenizer.json differs from the target\'s',
            allowed="a draft with the target's tokenizer",
            reason="the target checks the draft's token ids: with another vocabulary they mean "
            "something else",
        )


def _slot_is_connected(experiment: Experiment, path: Path) -> Iterator[Problem]:
    if not isinstance(experiment, NeuronExperiment):
        return
    serving, instance = experiment.serving, accelerator()
    if serving.slot_devices not in instance.legal_slot_devices:
        yield Problem(
            key=("serving", "slot_devices"),
            given=str(serving.slot_devices),
            allowed=", ".join(map(str, instance.legal_slot_devices)),
            reason="only subsets of these sizes are connected in the node's torus",
        )
    if serving.lnc not in instance.legal_lnc:
        yield Problem(
            key=("serving", "lnc"),
            given=str(serving.lnc),
            allowed=" or ".join(map(str, instance.legal_lnc)),
            reason="a logical NeuronCore is one or two physical ones",
        )


def _tensor_parallel_fills_the_slot(experiment: Experiment, path: Path) -> Iterator[Problem]:
    if not isinstance(experiment, NeuronExperiment):
        return
    serving, instance = experiment.serving, accelerator()
    if serving.lnc not in instance.legal_lnc:
        return
    cores = instance.logical_cores(devices=serving.slot_devices, lnc=serving.lnc)
    if serving.tensor_parallel_size != cores:
        per_device = instance.logical_cores(devices=1, lnc=serving.lnc)
        yield Problem(
            key=("serving", "tensor_parallel_size"),
            given=str(serving.tensor_parallel_size),
            allowed=f"{cores} = slot_devices {serving.slot_devices} x {per_device} logical cores a "
            f"device at lnc {serving.lnc}",
            reason="cores of a slot that the model does not span are paid for and idle, and a "
            "model cannot span more than its slot",
        )


def _prompts_are_there(experiment: Experiment, path: Path) -> Iterator[Problem]:
    work = experiment.workload
    root = resolve(path, work.prompts_dir)
    if not root.is_dir():
        yield Problem(
            key=("workload", "prompts_dir"),
            given=f'"{work.prompts_dir}"',
            allowed="a folder with one folder a prompt class",
            reason=f"{root} is not a folder",
        )
        return
    for index, prompt_class in enumerate(work.classes):
        key = ("workload", "classes", index)
        if (root / prompt_class.name).is_dir():
            yield from _case_problems((*key, "cases"), root / prompt_class.name, prompt_class.cases)
        else:
            known = sorted(p.name for p in root.iterdir() if p.is_dir())
            yield Problem(
                key=(*key, "name"),
                given=f'"{prompt_class.name}"',
                allowed=", ".join(known) or "a folder name",
                reason=f"a prompt class is a folder in {work.prompts_dir}"
                + suggestion(prompt_class.name, known),
            )


def _case_problems(
    key: tuple[str | int, ...], folder: Path, cases: tuple[str, ...] | None
) -> Iterator[Problem]:
    known = sorted(p.stem for p in folder.glob(f"*{CASE_SUFFIX}"))
    if not known:
        yield Problem(
            key=key,
            given=f"the empty folder {folder.name}",
            allowed=f"a folder with at least one {CASE_SUFFIX} file",
            reason="each file is a case; a class without cases measures nothing",
        )
    for index, case in enumerate(cases or known):
        if not re.match(SET_NAME_PATTERN, case):
            yield Problem(
                key=(*key, index) if cases else key,
                given=f'"{case}"',
                allowed="lower-case letters, digits, hyphens and underscores",
                reason="a case's name is part of its result files' names",
            )
        elif case not in known:
            yield Problem(
                key=(*key, index) if cases else key,
                given=f'"{case}"',
                allowed=", ".join(known),
                reason=f"no file {case}{CASE_SUFFIX} in the folder {folder.name}"
                + suggestion(case, known),
            )
        else:
            yield from _content_problems((*key, index) if cases else key, folder, case)


def _content_problems(key: tuple[str | int, ...], folder: Path, case: str) -> Iterator[Problem]:
    try:
        load_case(folder / f"{case}{CASE_SUFFIX}", prompt_class=folder.name)
    except PromptSetError as error:
        yield Problem(
            key=key,
            given=f"the prompt file {case}{CASE_SUFFIX}",
            allowed="JSON Lines with id and prompt, or id and messages",
            reason=str(error),
        )


def _request_counts_agree(experiment: Experiment, path: Path) -> Iterator[Problem]:
    work = experiment.workload
    if work.min_requests > work.max_requests:
        yield Problem(
            key=("workload", "min_requests"),
            given=f"{work.min_requests} with max_requests {work.max_requests}",
            allowed=f"at most {work.max_requests}",
            reason="a run cannot need more requests than it may send",
        )
    if work.requests_per_round > work.max_requests:
        yield Problem(
            key=("workload", "requests_per_round"),
            given=f"{work.requests_per_round} with max_requests {work.max_requests}",
            allowed=f"at most {work.max_requests}",
            reason="one round would send more requests than the run may",
        )


def _classes_and_cases_once(experiment: Experiment, path: Path) -> Iterator[Problem]:
    counts = Counter(c.name for c in experiment.workload.classes)
    for index, prompt_class in enumerate(experiment.workload.classes):
        repeated = [c for c, n in Counter(prompt_class.cases or ()).items() if n > 1]
        if counts[prompt_class.name] > 1 or repeated:
            yield Problem(
                key=("workload", "classes", index),
                given=f'"{prompt_class.name}"'
                + (f" with {', '.join(repeated)} twice" if repeated else " twice"),
                allowed="each class once, with each case once",
                reason="its requests would count double in the class's figures",
            )


def _prompts_fit_a_config_map(experiment: Experiment, path: Path) -> Iterator[Problem]:
    if isinstance(experiment, LocalExperiment):
        return
    size = sum(file.stat().st_size for file in prompt_files(experiment, path))
    if size > MAX_PROMPT_BYTES:
        yield Problem(
            key=("workload", "classes"),
            given=f"{size:,} bytes of prompts",
            allowed=f"at most {MAX_PROMPT_BYTES:,} bytes in all classes together",
            reason="the prompts travel to the load generator in a ConfigMap inside the template; "
            "take a sample of your prompts",
        )


def prompt_files(experiment: Experiment, path: Path) -> Iterator[Path]:
    """The prompt files of an experiment, class by class, cases in name order unless given."""
    root = resolve(path, experiment.workload.prompts_dir)
    for prompt_class in experiment.workload.classes:
        folder = root / prompt_class.name
        stems = prompt_class.cases or sorted(p.stem for p in folder.glob(f"*{CASE_SUFFIX}"))
        files = (folder / f"{stem}{CASE_SUFFIX}" for stem in stems)
        yield from (file for file in files if file.is_file())


def _zone_is_in_the_region(experiment: Experiment, path: Path) -> Iterator[Problem]:
    if not isinstance(experiment, NeuronExperiment):
        return
    region, zone = experiment.aws.region, experiment.aws.availability_zone
    suffix = zone.removeprefix(region)
    if suffix == zone or len(suffix) != 1 or not suffix.isalpha():
        yield Problem(
            key=("aws", "availability_zone"),
            given=f'"{zone}"',
            allowed=f"a zone of {region}, e.g. {region}a",
            reason="the subnets of the accelerator nodes lie in one zone of aws.region",
        )


def _public_access_is_limited(experiment: Experiment, path: Path) -> Iterator[Problem]:
    if not isinstance(experiment, NeuronExperiment):
        return
    for index, cidr in enumerate(experiment.aws.public_access_cidrs):
        try:
            network = ipaddress.IPv4Network(cidr)
        except ValueError as error:
            reason = f"not an IPv4 range: {error}"
        else:
            reason = _unfit_range(network)
            if not reason:
                continue
        yield Problem(
            key=("aws", "public_access_cidrs", index),
            given=f'"{cidr}"',
            allowed="public IPv4 ranges of /8 or narrower: your own address and /32",
            reason=reason,
        )


def _unfit_range(network: ipaddress.IPv4Network) -> str:
    """Why EKS or common sense refuses a range; empty if neither does."""
    if network.prefixlen < 8:
        return "so wide a range opens the Kubernetes API to the internet"
    if not network.is_global:
        # EKS: "The following CIDRs are not allowed in publicAccessCidrs".
        return "EKS refuses private and reserved ranges; inside the VPC the API is reachable anyway"
    return ""


def _admin_arns(experiment: Experiment, path: Path) -> Iterator[Problem]:
    if not isinstance(experiment, NeuronExperiment):
        return
    for index, arn in enumerate(experiment.aws.admin_principal_arns):
        parts = arn.split(":")
        valid = len(parts) == 6 and parts[2] == "iam" and parts[5].startswith(("role/", "user/"))
        if not valid:
            yield Problem(
                key=("aws", "admin_principal_arns", index),
                given=f'"{arn}"',
                allowed="an IAM role or user ARN, e.g. arn:aws:iam::111122223333:role/Admin",
                reason="access entries name IAM roles or users; a session ARN (sts) is neither",
            )


def _hub_token_stays_secret(experiment: Experiment, path: Path) -> Iterator[Problem]:
    if not isinstance(experiment, NeuronExperiment):
        return
    if _HUB_TOKEN.fullmatch(experiment.aws.hub_token_secret or ""):
        yield Problem(
            key=("aws", "hub_token_secret"),
            given="what looks like a hub token, hf_... (not repeated here)",
            allowed="the NAME of a Secrets Manager secret, as in draftworth/hub",
            reason="a name is written into templates and logs; put the token into the secret, and "
            "revoke it if this file was shared",
        )


def _nodes_fit_the_plan(experiment: Experiment, path: Path) -> Iterator[Problem]:
    if not isinstance(experiment, NeuronExperiment):
        return
    instance = accelerator()
    if experiment.serving.slot_devices not in instance.legal_slot_devices:
        return
    # Legal slots divide the node, so whole nodes fill up without a gap.
    per_node = instance.devices // experiment.serving.slot_devices
    planned = -(-len(experiment.variants) // per_node)
    if planned > MAX_NODES:
        yield Problem(
            key=("variants",),
            given=f"{len(experiment.variants)} variants = {planned} nodes",
            allowed=f"at most {MAX_NODES * per_node} variants ({MAX_NODES} nodes)",
            reason="every variant holds a slot for the whole run; split the experiment",
        )


def _speculative(experiment: Experiment) -> Iterator[tuple[int, Speculative]]:
    for index, variant in enumerate(experiment.variants):
        if isinstance(variant, Speculative):
            yield index, variant


def _hub_models(experiment: Experiment) -> Iterator[tuple[tuple[str | int, ...], HubModel]]:
    if isinstance(experiment, NeuronExperiment):
        yield ("target",), experiment.target
        for index, variant in enumerate(experiment.variants):
            if isinstance(variant, HubSpeculative):
                yield ("variants", index, "draft"), variant.draft


RULES: tuple[Rule, ...] = (
    _exactly_one_baseline,
    _unique_variant_names,
    _methods_the_release_serves,
    _window_drafts_something,
    _window_fits_the_output,
    _distinct_variants,
    _lengths_fit,
    _greedy,
    _tokenizer_family_is_known,
    _draft_shares_the_tokenizer,
    _model_kinds,
    _target_is_a_model,
    _local_models_are_there,
    _slot_is_connected,
    _tensor_parallel_fills_the_slot,
    _prompts_are_there,
    _request_counts_agree,
    _classes_and_cases_once,
    _prompts_fit_a_config_map,
    _zone_is_in_the_region,
    _public_access_is_limited,
    _admin_arns,
    _hub_token_stays_secret,
    _nodes_fit_the_plan,
)
