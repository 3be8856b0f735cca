"""Notes on the AWS account, the servers, the models and the price of an experiment on AWS."""

from collections.abc import Iterator
from datetime import date, timedelta

from draftworth.errors import counted
from draftworth.experiment.catalog import catalog
from draftworth.experiment.model import NeuronExperiment, variants_of
from draftworth.experiment.node_images import DriverAndRuntime
from draftworth.experiment.variants import HubSpeculative
from draftworth.planning.assumptions import assumption_data
from draftworth.planning.notes.note import Note
from draftworth.planning.prices import PRICE_RENEWAL, price_doubt
from draftworth.planning.resolved import ResolvedNeuron
from draftworth.records.results import AS_SHIPPED

# How long before it ends the end of standard support is noted: of 1.35 from January 2027 on.
_SUPPORT_NOTICE = timedelta(days=85)


def aws_notes(experiment: ResolvedNeuron, today: date) -> Iterator[Note]:
    """Yield the notes on the AWS settings of an experiment.

    today: the date in UTC, by which a price may be too old, or a version's support near its end.
    """
    spec = experiment.spec
    yield from _region_is_new(spec)
    yield from _value_is_an_example(spec)
    yield from _driver_does_not_fit(spec)
    yield from _standard_support_ends(spec, today)
    yield from _nodes_are_on_hold(spec)
    yield from _no_administrator(spec)
    yield from _api_is_private(spec)
    yield from _hub_token_is_missing(spec)
    for _, variant in variants_of(spec, HubSpeculative):
        yield from _draft_window_is_not_known(variant)
        yield from _draft_may_be_refused(spec, variant)
        yield from _heads_may_be_refused(spec, variant)
    yield from _baseline_as_shipped_takes_a_slot(experiment)
    yield from _baseline_as_shipped_is_the_baseline(spec)
    yield from _model_is_not_pinned(spec)
    yield from _stop_needs_a_price(spec)
    yield from _price_is_doubtful(experiment, today)


def _region_is_new(spec: NeuronExperiment) -> Iterator[Note]:
    if spec.aws.region not in spec.accelerator.seen_in:
        yield Note(
            "region-is-new",
            f"aws.region {spec.aws.region}: {spec.instance_type} has been seen in "
            f"{' and '.join(spec.accelerator.seen_in)}, not there; next: `draftworth preflight "
            "EXPERIMENT --find`, which asks every region",
        )


def _value_is_an_example(spec: NeuronExperiment) -> Iterator[Note]:
    for value in spec.aws.example_values():
        yield Note(
            "value-is-an-example",
            f"{value} is an example, which no account has: put your own in its place",
        )


def _driver_does_not_fit(spec: NeuronExperiment) -> Iterator[Note]:
    driver = DriverAndRuntime.of(spec)
    if driver.why_unfit:
        kubernetes = spec.aws.kubernetes_version
        none = f"one with an older driver (none of Kubernetes {kubernetes} is known)"
        fitting = next(driver.fitting_releases(kubernetes), none)
        yield Note(
            "driver-does-not-fit",
            f"aws.pins.node_release {driver.node_release or 'is left out'}: {driver.why_unfit}, so "
            f"no server starts; pin {fitting}",
        )


def _standard_support_ends(spec: NeuronExperiment, today: date) -> Iterator[Note]:
    version, versions = spec.aws.kubernetes_version, catalog().kubernetes_versions
    ends = versions[version].standard_support_ends
    if ends is None or today < ends - _SUPPORT_NOTICE:
        return
    later = [name for name in versions if name > version]
    prices = assumption_data().prices
    yield Note(
        "standard-support-ends",
        f"aws.kubernetes_version {version}: standard support "
        f"{'ends' if today < ends else 'ended'} on {ends.isoformat()}, from when on EKS charges "
        f"{prices['EKS control plane in extended support'].usd:.2f} USD an hour for a cluster in "
        f"place of {prices['EKS control plane'].usd:.2f}; next: have none from that day on, or set "
        f"{' or '.join(later)}",
    )


def _nodes_are_on_hold(spec: NeuronExperiment) -> Iterator[Note]:
    if spec.aws.hold:
        yield Note(
            "nodes-are-on-hold",
            "aws.hold is true: no accelerator node starts, but cluster and CPU nodes cost "
            f"{assumption_data().standing_usd_per_hour:.2f} USD per hour, and no deadline ends "
            "them; when all is well, deploy without it, or destroy",
        )


def _no_administrator(spec: NeuronExperiment) -> Iterator[Note]:
    if not spec.aws.admin_principal_arns:
        yield Note(
            "no-administrator",
            "aws.admin_principal_arns is empty: kubectl is refused; `draftworth logs` needs none",
        )


def _api_is_private(spec: NeuronExperiment) -> Iterator[Note]:
    if not spec.aws.public_access_cidrs:
        yield Note(
            "api-is-private",
            "aws.public_access_cidrs is empty: the Kubernetes API is private to the VPC",
        )


def _hub_token_is_missing(spec: NeuronExperiment) -> Iterator[Note]:
    if spec.aws.hub_token_secret is None:
        for model in spec.gated_models:
            yield Note(
                "hub-token-is-missing",
                f"{model} is gated and aws.hub_token_secret names no secret: staging it fails, and "
                "no accelerator node starts",
            )


def _draft_window_is_not_known(variant: HubSpeculative) -> Iterator[Note]:
    if catalog().methods[variant.method].fixed_window and variant.draft.facts is None:
        yield Note(
            "draft-window-is-not-known",
            f"the catalogue does not know {variant.draft.model}: its window must be the block size "
            f"that it was trained for less 1, and the file says {variant.window}",
        )


def _draft_may_be_refused(spec: NeuronExperiment, variant: HubSpeculative) -> Iterator[Note]:
    release, draft = spec.release_facts, variant.draft
    draft_must = release.methods[variant.method].draft_must
    is_served = draft.facts is not None and release.dialect in draft.facts.served_by
    if draft_must and not is_served:
        is_doubtful = draft.facts is not None and release.dialect in draft.facts.doubtful_on
        yield Note(
            "draft-may-be-refused",
            f"{variant.method} on {spec.release}: the draft must {draft_must}; {draft.model} "
            f"{'likely does not' if is_doubtful else 'is not known to'}: read its model card "
            "before nodes are paid for",
        )


def _heads_may_be_refused(spec: NeuronExperiment, variant: HubSpeculative) -> Iterator[Note]:
    target = spec.target
    because = target.facts and target.facts.heads_doubtful_on.get(spec.release_facts.dialect)
    if because:
        yield Note(
            "heads-may-be-refused",
            f"{variant.method} on {spec.release} is likely refused for {target.model}: {because}; "
            "next: measure the baseline alone there, and compare it with a run on another release "
            "(docs/elsewhere.md, The newest stack)",
        )


def _baseline_as_shipped_takes_a_slot(experiment: ResolvedNeuron) -> Iterator[Note]:
    if experiment.spec.baseline_as_shipped:
        placement = experiment.placement
        slot = placement.slots[-1]
        yield Note(
            "baseline-as-shipped-takes-a-slot",
            f"baseline_as_shipped adds {AS_SHIPPED} on a slot of its own: "
            f"{counted(slot.devices, 'device')}, {placement.node_share(slot):.1%} of a node; "
            "verdicts compare with the baseline, and the report shows both",
        )


def _baseline_as_shipped_is_the_baseline(spec: NeuronExperiment) -> Iterator[Note]:
    if spec.baseline_as_shipped and not spec.release_facts.depends_on_speculation:
        yield Note(
            "baseline-as-shipped-is-the-baseline",
            f"on {spec.release} nothing is known that the engine does differently without "
            f"speculation: {AS_SHIPPED} is the baseline once more",
        )


def _model_is_not_pinned(spec: NeuronExperiment) -> Iterator[Note]:
    for model in spec.unpinned_models:
        yield Note(
            "model-is-not-pinned",
            f"{model} is not pinned to a commit: a branch or tag may move; give a commit",
        )


def _stop_needs_a_price(spec: NeuronExperiment) -> Iterator[Note]:
    if spec.search is None or spec.aws.price is not None:
        return
    stop = spec.search.stop
    by_cost = {"last_start_usd": stop.last_start_usd, "tokens_per_day": stop.tokens_per_day}
    keys = [f"search.stop.{name}" for name, value in by_cost.items() if value is not None]
    if keys:
        yield Note(
            "stop-needs-a-price",
            f"{' and '.join(keys)}: without aws.price the cost of a candidate is not known, so no "
            "search ends by it; next: give aws.price",
        )


def _price_is_doubtful(experiment: ResolvedNeuron, today: date) -> Iterator[Note]:
    price, doubt = experiment.spec.aws.price, price_doubt(experiment, today)
    if price is not None and doubt:
        yield Note(
            "price-is-doubtful",
            f"aws.price is of {price.as_of.isoformat()}, which is {doubt}: {PRICE_RENEWAL}",
        )
