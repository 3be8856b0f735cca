"""Variants: one baseline, names and decodings that differ, windows that speculate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from draftworth.errors import Problem
from draftworth.experiment.catalog import catalog
from draftworth.experiment.methods import methods_on, unserved_method
from draftworth.experiment.model import Experiment, variants_of
from draftworth.experiment.naming import dns_label
from draftworth.experiment.variants import Baseline, HubSpeculative, Speculative
from draftworth.records.results import AS_SHIPPED, CONTROL


def _exactly_one_baseline(experiment: Experiment) -> Iterator[Problem]:
    names = [variant.name for _, variant in variants_of(experiment, Baseline)]
    if len(names) != 1:
        yield Problem(
            key=("variants",),
            given=f"{len(names)} variants with method none"
            + (f" ({', '.join(names)})" if names else ""),
            allowed="exactly one variant with method none",
            reason="every speedup is a ratio to the one baseline",
        )


def _unique_variant_names(experiment: Experiment) -> Iterator[Problem]:
    counts = Counter(dns_label(v.name) for v in experiment.variants)
    for index, variant in enumerate(experiment.variants):
        if counts[dns_label(variant.name)] > 1:
            yield Problem(
                key=("variants", index, "name"),
                given=f'"{variant.name}"',
                allowed="names that stay unique when dots become hyphens",
                reason="a variant's name is the name of its Kubernetes service and of its metrics",
            )


_RESERVED = {
    AS_SHIPPED: "reports call the variant so that `baseline_as_shipped: true` adds",
    CONTROL: "reports call the baseline's second server so that `control: true` measures",
}


def _reserved_name(experiment: Experiment) -> Iterator[Problem]:
    for index, variant in enumerate(experiment.variants):
        if reason := _RESERVED.get(dns_label(variant.name)):
            yield Problem(
                key=("variants", index, "name"),
                given=f'"{variant.name}"',
                allowed="another name",
                reason=reason,
            )


def _methods_the_release_serves(experiment: Experiment) -> Iterator[Problem]:
    release = experiment.release_facts
    for key, variant in variants_of(experiment, Speculative):
        unserved = catalog().unserved_methods.get(variant.method)
        if unserved is not None and unserved.platform == release.platform:
            yield unserved_method((*key, "method"), variant.method, experiment.release)
        elif variant.method not in release.methods:
            able = [n for n, r in catalog().releases.items() if variant.method in r.methods]
            yield Problem(
                key=(*key, "method"),
                given=f"{variant.method} on release {experiment.release}",
                allowed=f"{methods_on(experiment.release)}; {variant.method} needs release "
                f"{' or '.join(able)}",
                reason=f"the image of {experiment.release} (vLLM "
                f"{release.vllm_version}) cannot serve this method",
            )


def _window_drafts_something(experiment: Experiment) -> Iterator[Problem]:
    for key, variant in variants_of(experiment, Speculative):
        facts = experiment.release_facts.methods.get(variant.method)
        if facts and variant.window < facts.min_window:
            yield Problem(
                key=(*key, "window"),
                given=str(variant.window),
                allowed=f"{facts.min_window} or more",
                reason=f"with this window {variant.method} on {experiment.release} yields at most "
                f"{facts.max_tokens_per_step(variant.window)} tokens a step: it speculates nothing",
            )


def _window_is_that_of_the_draft(experiment: Experiment) -> Iterator[Problem]:
    for key, variant in variants_of(experiment, HubSpeculative):
        trained = variant.draft.facts.window if variant.draft.facts else None
        if trained is not None and variant.window != trained:
            yield Problem(
                key=(*key, "window"),
                given=f"{variant.window} with {variant.draft.model}",
                allowed=str(trained),
                reason=f"{variant.method} drafts a whole block at once, and the draft was trained "
                f"for blocks of {trained + 1}: there is no window to search",
            )


def _window_fits_the_output(experiment: Experiment) -> Iterator[Problem]:
    for key, variant in variants_of(experiment, Speculative):
        if variant.window >= experiment.workload.output_tokens:
            yield Problem(
                key=(*key, "window"),
                given=f"{variant.window} with workload.output_tokens "
                f"{experiment.workload.output_tokens}",
                allowed=f"less than {experiment.workload.output_tokens}",
                reason="an output that ends within one step has no inter-token latency",
            )


def _distinct_variants(experiment: Experiment) -> Iterator[Problem]:
    seen: dict[str, str] = {}
    for key, variant in variants_of(experiment, Speculative):
        identity = variant.model_dump_json(exclude={"name"})
        if identity in seen:
            yield Problem(
                key=key,
                given=f'"{variant.name}", which decodes exactly as "{seen[identity]}"',
                allowed="variants that differ in method, draft or window",
                reason="the same variant twice costs a second slot and answers nothing",
            )
        seen.setdefault(identity, variant.name)


COMMON = (
    _exactly_one_baseline,
    _unique_variant_names,
    _reserved_name,
    _methods_the_release_serves,
    _window_drafts_something,
    _window_is_that_of_the_draft,
    _window_fits_the_output,
    _distinct_variants,
)
