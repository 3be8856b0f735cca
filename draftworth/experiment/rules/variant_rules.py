"""Rules of variants: exactly one baseline, how many there may be, names, methods, windows."""

from collections import Counter
from collections.abc import Iterator

from draftworth.errors import Problem
from draftworth.experiment import placement, variants
from draftworth.experiment.catalog import catalog
from draftworth.experiment.model import (
    Experiment,
    NeuronExperiment,
    placed_variants,
    variants_of,
)
from draftworth.experiment.naming import dns_label
from draftworth.experiment.rules.registry import neuron_rule, rule
from draftworth.records.results import AS_SHIPPED, CONTROL, MAX_VARIANTS
from draftworth.speculation import step_cost

# The most nodes of one experiment: the stack is not designed or tried for more.
MAX_NODES = 8


@rule("exactly-one-baseline")
def _exactly_one_baseline(experiment: Experiment) -> Iterator[Problem]:
    names = [variant.name for _, variant in variants_of(experiment, variants.Baseline)]
    if len(names) > 1:
        yield Problem(
            key=("variants",),
            actual=f"{len(names)} variants with method none ({', '.join(names)})",
            allowed="one variant with method none",
            reason="every speedup is a ratio to the one baseline",
        )


@rule("something-to-compare")
def _something_to_compare(experiment: Experiment) -> Iterator[Problem]:
    if experiment.search is None and len(experiment.served_variants) < 2:
        yield Problem(
            key=("variants",),
            actual="no variant beside the baseline, and no search",
            allowed="a variant with a method that drafts, a search, or baseline_as_shipped: true "
            "(on Neuron)",
            reason="an experiment compares ways to decode",
        )


@rule("not-too-many-variants")
def _not_too_many_variants(experiment: Experiment) -> Iterator[Problem]:
    number = len(experiment.served_variants) + experiment.control
    if number > MAX_VARIANTS:
        yield Problem(
            key=("variants",),
            actual=f"{number} variants" + ", the control among them" * experiment.control,
            allowed=f"at most {MAX_VARIANTS}",
            reason="the files of a run hold no more; split the experiment",
        )


@neuron_rule("nodes-fit-the-plan")
def _nodes_fit_the_plan(experiment: NeuronExperiment) -> Iterator[Problem]:
    if experiment.serving.slot_devices not in experiment.accelerator.legal_slot_devices:
        return
    placed = placement.place(experiment)
    nodes = placed.nodes
    if nodes > MAX_NODES:
        most = min(MAX_NODES * placed.slots_per_node, MAX_VARIANTS)
        yield Problem(
            key=("variants",),
            actual=f"{placed.held} variants = {nodes} nodes",
            allowed=f"at most {most} variants ({MAX_NODES} nodes)",
            reason="every variant holds a slot for the whole run; split the experiment",
        )


@rule("unique-variant-names")
def _unique_variant_names(experiment: Experiment) -> Iterator[Problem]:
    placed = [*placed_variants(experiment)]
    counts = Counter(dns_label(variant.name) for _, variant in placed)
    for place, variant in placed:
        if counts[dns_label(variant.name)] > 1:
            yield Problem(
                key=place.at("name"),
                actual=f'"{variant.name}"',
                allowed="names that stay unique when dots become hyphens",
                reason="a variant's name is the name of its Kubernetes service and of its metrics",
            )


_RESERVED = {
    AS_SHIPPED: "it is the name of the variant that `baseline_as_shipped: true` adds",
    CONTROL: "it is the name of the baseline's second server, which `control: true` measures",
}


@rule("reserved-name")
def _reserved_name(experiment: Experiment) -> Iterator[Problem]:
    for index, variant in enumerate(experiment.variants):
        if reason := _RESERVED.get(dns_label(variant.name)):
            yield Problem(
                key=("variants", index, "name"),
                actual=f'"{variant.name}"',
                allowed="another name",
                reason=reason,
            )


@rule("methods-the-release-serves")
def _methods_the_release_serves(experiment: Experiment) -> Iterator[Problem]:
    release = experiment.release_facts
    methods = {
        place.at("method"): v.method for place, v in variants_of(experiment, variants.Speculative)
    }
    if experiment.search:
        methods["search", "method"] = experiment.search.method
    for key, method in methods.items():
        unserved = catalog().unserved_methods.get(method)
        serving = {n: r for n, r in catalog().releases.items() if method in r.methods}
        able = [n for n, r in serving.items() if r.platform == release.platform] or [*serving]
        if unserved is not None and unserved.platform in (None, release.platform):
            yield variants.unserved_method(key, method, experiment.release)
        elif able and method not in release.methods:
            yield Problem(
                key=key,
                actual=f"{method} on release {experiment.release}",
                allowed=f"{variants.methods_on(experiment.release)}; {method} needs release "
                f"{' or '.join(able)}",
                reason=f"the image of {experiment.release} (vLLM "
                f"{release.vllm_version}) cannot serve this method",
            )


@rule("window-drafts-something")
def _window_drafts_something(experiment: Experiment) -> Iterator[Problem]:
    for place, variant in variants_of(experiment, variants.Speculative):
        facts = experiment.release_facts.methods.get(variant.method)
        if facts and variant.window < facts.min_window:
            yield Problem(
                key=place.at("window"),
                actual=str(variant.window),
                allowed=f"{facts.min_window} or more",
                reason=f"with this window {variant.method} on {experiment.release} yields at most "
                f"{facts.max_tokens_per_step(variant.window)} tokens per step: it speculates "
                "nothing",
            )


@rule("lookup-lengths-in-order")
def _lookup_lengths_in_order(experiment: Experiment) -> Iterator[Problem]:
    for place, variant in variants_of(experiment, variants.NgramSpeculative):
        if variant.prompt_lookup_min > variant.prompt_lookup_max:
            yield Problem(
                key=place.at("prompt_lookup_min"),
                actual=f"{variant.prompt_lookup_min} with prompt_lookup_max "
                f"{variant.prompt_lookup_max}",
                allowed=f"at most {variant.prompt_lookup_max}",
                reason="no number of tokens lies between them, so nothing could be looked up",
            )


@rule("window-is-that-of-the-draft")
def _window_is_that_of_the_draft(experiment: Experiment) -> Iterator[Problem]:
    for place, variant in variants_of(experiment, variants.HubSpeculative):
        trained = variant.draft.facts.window if variant.draft.facts else None
        if trained is not None and variant.window != trained:
            yield Problem(
                key=place.at("window"),
                actual=f"{variant.window} with {variant.draft.model}",
                allowed=str(trained),
                reason=f"{variant.method} drafts a whole block at once, and the draft was trained "
                f"for blocks of {trained + 1}: there is no window to search",
            )


@rule("every-token-accepted-would-pay")
def _every_token_accepted_would_pay(experiment: Experiment) -> Iterator[Problem]:
    for place, variant in variants_of(experiment, variants.Speculative):
        method = catalog().methods[variant.method]
        served = experiment.release_facts.methods.get(variant.method)
        if served is None or method.step_cost_per_draft is None:
            continue
        if variant.window < served.min_window:
            continue  # `_window_drafts_something` refuses this window
        most, each = served.max_tokens_per_step(variant.window), method.step_cost_per_draft[0]
        words = "no published draft costs less"
        if (size := _part_of_the_target(experiment, variant)) > each:
            each, words = size, "it reads all its weights, as the target does in a baseline step"
        if (cost := step_cost(variant.window, per_drafted=each)) >= most:
            yield Problem(
                key=place.at("window"),
                actual=str(variant.window),
                allowed="a smaller draft, or a window whose steps can yield more than they cost",
                reason=f"a step costs at least 1 + {variant.window} x {each:.2f} = {cost:.2f} "
                f"baseline steps ({words}), and yields at most {most} tokens: more "
                "expensive than the baseline even if every draft is accepted",
            )


def _part_of_the_target(experiment: Experiment, variant: variants.Speculative) -> float:
    """Return the size of the draft's checkpoint divided by the target's.

    The sizes are in the catalogue; 0 is returned if it lacks either.
    """
    models = (variant.hub_draft, experiment.target)
    draft, target = (model and model.facts and model.facts.checkpoint_gib for model in models)
    return draft / target if draft and target else 0.0


@rule("window-fits-the-output")
def _window_fits_the_output(experiment: Experiment) -> Iterator[Problem]:
    for place, variant in variants_of(experiment, variants.Speculative):
        if variant.window >= experiment.workload.output_tokens:
            yield Problem(
                key=place.at("window"),
                actual=f"{variant.window} with workload.output_tokens "
                f"{experiment.workload.output_tokens}",
                allowed=f"less than {experiment.workload.output_tokens}",
                reason="an output that ends within one step has no inter-token latency",
            )


@rule("distinct-variants")
def _distinct_variants(experiment: Experiment) -> Iterator[Problem]:
    seen: dict[str, str] = {}
    for place, variant in variants_of(experiment, variants.Speculative):
        if variant.decoding in seen:
            yield Problem(
                key=place.whole,
                actual=f'"{variant.name}", which decodes exactly as "{seen[variant.decoding]}"',
                allowed="variants that differ in method, draft or window",
                reason="the same variant twice takes a second slot and shows nothing new",
            )
        seen.setdefault(variant.decoding, variant.name)
