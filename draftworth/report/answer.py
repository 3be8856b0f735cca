"""The answer of a run as a record for programs, which docs/json.md describes."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from draftworth.decision.judged_anew import ChosenValue
from draftworth.records.findings import ClaimFinding, Finding
from draftworth.records.judgement import Judgement
from draftworth.report.engine_loss_sentences import EngineLossFigures


@dataclass(frozen=True, kw_only=True)
class StepTokens:
    """Tokens per verification step at one load, of the variant that the decision is about.

    needed, needed_low, needed_high: tokens per step to break even in decoding, and the ends of its
        95% interval; None: not known.
    measured: tokens per step that were measured in the whole traffic; None: not counted.
    servers_differ: whether a step costs less than a baseline step, so that the servers differ in
        more than speculation.
    """

    load: str
    needed: float | None
    needed_low: float | None
    needed_high: float | None
    measured: float | None
    servers_differ: bool


@dataclass(frozen=True, kw_only=True)
class ServerFigures:
    """The medians of one variant's requests in one class at one load; None: not measured.

    output_throughput_token_per_s: the throughput of the whole server, which is no median.
    """

    prompt_class: str
    load: str
    variant: str
    requests: int
    inter_token_latency_ms: float | None
    ttft_ms: float | None
    end_to_end_latency_ms: float | None
    output_throughput_token_per_s: float | None


@dataclass(frozen=True, kw_only=True)
class ByClassCosts:
    """What the traffic mix costs if `variant` serves `classes` and the baseline the other classes.

    cost_ratio: the cost of a token of the mix if it is served so / if the baseline serves all, with
        the ends of its interval.
    alone: of variant and baseline, the one that serves the whole mix at the lower cost.
    ratio_to_alone: the cost of a token of the mix if it is served so / if `alone` serves all, with
        the ends of its interval.
    servers: serving by class needs two pools of servers, and each pool a whole number of them. If
        `alone` needs at least this many servers for the mix, both pools together need no more.
        None: it is not shown that serving by class saves anything.
    sentence: the figures in words.
    """

    variant: str
    load: str
    classes: tuple[str, ...]
    other_classes: tuple[str, ...]
    cost_ratio: float
    cost_ratio_low: float | None
    cost_ratio_high: float | None
    alone: str
    ratio_to_alone: float
    ratio_to_alone_low: float | None
    ratio_to_alone_high: float | None
    servers: int | None
    sentence: str


@dataclass(frozen=True, kw_only=True)
class EqualShare:
    """The share of a class in the output tokens at which variant and baseline cost the same.

    share, share_low, share_high: the share (0 to 1) and the ends of its interval; None: costs are
        equal at no share, or there is no interval.
    pays_above: whether a token costs less with the variant above that share; else it does below.
    sentence: all of this in words.
    """

    prompt_class: str
    share: float | None
    share_low: float | None
    share_high: float | None
    pays_above: bool
    sentence: str


@dataclass(frozen=True, kw_only=True)
class EqualPrice:
    """Up to which price of the variant's server a token costs less than with the baseline.

    price_ratio, price_ratio_low, price_ratio_high: the price of the variant's server / of the
        baseline's at which a token costs the same, and the ends of its interval; None: no interval.
    judged_price_ratio: the price ratio with which the run was judged.
    sentence: all of this in words.
    """

    price_ratio: float
    price_ratio_low: float | None
    price_ratio_high: float | None
    judged_price_ratio: float
    sentence: str


@dataclass(frozen=True, kw_only=True)
class AllTrafficFinding:
    """What all prompts of a log cost with a variant, of which the run measured a few.

    logged_prompts, measured_prompts: how many prompts the log has, and how many were measured.
    cost_ratio: the variant's cost of an output token / the baseline's, with the ends of its 95%
        interval. without_forecast_low, without_forecast_high: the ends that it would have without
        the forecast. None: no interval.
    sentence: all of this in words.
    """

    load: str
    variant: str
    judgement: Judgement
    logged_prompts: int
    measured_prompts: int
    cost_ratio: float
    cost_ratio_low: float | None
    cost_ratio_high: float | None
    without_forecast_low: float | None
    without_forecast_high: float | None
    sentence: str


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The answer of a run; `report --json` prints it.

    models: the names of the models in the requests, each once.
    reason: why the run failed; empty if it did not.
    serve: the variant or the baseline, if one of them is to serve all traffic; None: there is no
        decision, or no other variant was measured.
    serve_by_class: the variant or baseline that is to serve each prompt class, if the decision is
        to serve by class; else empty.
    decision: what to serve, in a sentence. headline: the verdict in a sentence, with its interval.
    missing: what is missing for a decision; empty if there is one.
    next_step: what to do to get a decision, or to confirm that of a search; else empty.
    cure: the same in a few words, if it removes a doubt that more requests would not; else empty.
    by_class: what serving by class would cost; None: it is not shown that the variant is cheaper in
        one class and more expensive in another.
    pays_while: at which shares of a class in the traffic a token costs less with the variant, for
        each class of which the report has a plot.
    pays_up_to_price: up to which price of the variant's server a token costs less with it; None:
        the verdict is not about the cost of a token.
    findings: the verdicts in each class and load, and in the traffic mix. figures: the medians of
        each server.
    identical_outputs: in how many of the `compared_outputs` pairs baseline and variant gave the
        same output; outputs are compared only if they are greedy.
    cached_shares: by variant, the share (0 to 1) of prompt tokens that came from its server's
        cache; variants are left out for which it is 0 or not known.
    tokens_per_step: one entry for each load; the entry of the decision's load is the first.
    engine_losses: what engines lose of the tokens per step that texts and drafts allow, the largest
        loss first; empty if neither `estimate` nor `compare` computed what they allow.
    notes: which candidates a search measured; up to which of several loads a variant is cheaper;
        why intervals are wider, if a verdict could end the run.
    attention: what to know before trusting the figures. claims: whether the run reproduces each
        published figure of a claims file; empty without a claims file.
    all_traffic: with `--traffic`, what all prompts of a log cost, for each variant and load.
    judged_with: weights, prices and limits that the run is judged with instead of its own.
    """

    schema: str = "draftworth.answer/1"
    run_id: str
    experiment: str
    models: tuple[str, ...] = ()
    status: str
    reason: str
    serve: str | None
    serve_by_class: Mapping[str, str] = field(default_factory=dict)
    decision: str
    missing: tuple[str, ...] = ()
    next_step: str = ""
    cure: str = ""
    by_class: ByClassCosts | None = None
    pays_while: tuple[EqualShare, ...] = ()
    pays_up_to_price: EqualPrice | None = None
    headline: str
    findings: tuple[Finding, ...]
    figures: tuple[ServerFigures, ...]
    requests: int
    failed: int
    excluded: int
    repetitions: int
    interruptions: int
    compared_outputs: int
    identical_outputs: int
    cached_shares: Mapping[str, float] = field(default_factory=dict)
    tokens_per_step: tuple[StepTokens, ...]
    engine_losses: tuple[EngineLossFigures, ...] = ()
    notes: tuple[str, ...]
    attention: tuple[str, ...]
    claims: tuple[ClaimFinding, ...] = ()
    all_traffic: tuple[AllTrafficFinding, ...] = ()
    judged_with: tuple[ChosenValue, ...] = ()
