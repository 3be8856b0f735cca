"""What to serve after a run: the decision, what is missing for one, and what to do next."""

from dataclasses import dataclass
from enum import Enum, auto

from draftworth.analysis.sensitivity import CostByPrice, CostByShare
from draftworth.analysis.shortfall import Shortfall
from draftworth.decision.by_class import ByClass
from draftworth.decision.rates import RateComparison
from draftworth.decision.verdict import Comparison


class Missing(Enum):
    """What is missing for a decision on what to serve."""

    COMPLETE_RUN = auto()
    ANOTHER_SERVER = auto()
    """Only one server was measured, so there is nothing to compare it with."""
    VARIANT = auto()
    """No variant was measured beside the baseline; in a search, the best candidate was not."""
    VERDICT = auto()
    """The comparison that may be the best is inconclusive."""
    COLD_PROMPTS = auto()
    """A server had prompts in its prefix cache, and the run is about prompts that are new to it."""
    WARM_SERVERS = auto()
    """A server still warmed up in the first rounds after its start."""
    COUNTED_TOKENS = auto()
    """In some class, no prompt's tokens are counted by both servers, so no token has a cost."""
    EQUAL_WORK = auto()
    """The servers do not do the same work: other counts, models or outputs, or a cache."""
    ANSWERS = auto()
    """Many requests failed, or more of one server than of the other."""
    FREE_CLIENT = auto()
    """The client waited for a core, so the times of many requests cannot be trusted."""
    LIMITS = auto()
    """Requests arrive at rates, and the experiment limits no latency."""
    LONGER_WARMUP = auto()
    """Blocks at a rate begin with too few warm-up requests to show that the limits are kept."""
    HIGHER_RATES = auto()
    """Variants and baseline keep the latency limits at every measured rate."""
    LOWER_RATES = auto()
    """Variants and baseline break the latency limits already at the lowest measured rate."""
    OTHER_RATES = auto()
    """The measured rates do not show which server takes the higher rate per dollar."""


class NextStep(Enum):
    """What to do next, to get a decision or, after a search, to confirm it."""

    MEASURE_AGAIN = auto()
    MEASURE_A_VARIANT = auto()
    """Measure a speculative variant beside a baseline."""
    MEASURE_MORE = auto()
    """Measure more requests, or leave out the variant that is undecided."""
    MEASURE_COLD = auto()
    """Measure without a prefix cache, or say that the traffic has prompts that repeat."""
    MEASURE_SALTED = auto()
    """Measure vLLM servers with a salt for each request, so that their caches have none of it."""
    MEASURE_WARM_SERVERS = auto()
    """Measure servers that have run for a while, or warm them up for longer."""
    COUNT_TOKENS = auto()
    """Let the servers say how many tokens their answers have."""
    MAKE_WORK_EQUAL = auto()
    """Remove what the servers do differently besides speculation."""
    LET_REQUESTS_SUCCEED = auto()
    """Remove what makes requests fail, or give them more time."""
    FREE_THE_CLIENT = auto()
    """Give the client a core of its own."""
    SET_LIMITS = auto()
    """Say which latencies the service has to keep, or measure at a load that has a cost."""
    WARM_UP_LONGER = auto()
    """Measure the same rates with more warm-up requests, or lower rates."""
    MEASURE_HIGHER_RATES = auto()
    MEASURE_LOWER_RATES = auto()
    MEASURE_RATES_BETWEEN = auto()
    """Measure between the highest rate that keeps the limits and the lowest that breaks them."""
    SEARCH_AGAIN = auto()
    """Correct what prevented the search from measuring a candidate."""
    TRY_OTHER_DRAFTS = auto()
    """Predict for other drafts, because those that were measured do not pay."""
    CONFIRM_BEST = auto()
    """Measure the search's best candidate against the baseline in an experiment of its own."""

    @property
    def removes_a_doubt(self) -> bool:
        """Whether this removes what more requests would not: a doubt about the figures."""
        return self in _REMOVE_DOUBTS


_REMOVE_DOUBTS = frozenset(
    {
        NextStep.MEASURE_COLD,
        NextStep.MEASURE_SALTED,
        NextStep.MEASURE_WARM_SERVERS,
        NextStep.COUNT_TOKENS,
        NextStep.MAKE_WORK_EQUAL,
        NextStep.LET_REQUESTS_SUCCEED,
        NextStep.FREE_THE_CLIENT,
    }
)


@dataclass(frozen=True, kw_only=True)
class MoreNeeded:
    """How much more to measure in a class until its cost ratio's interval is narrow enough.

    The experiment says how narrow. comparison: the variant compared with the baseline in the class.
    """

    comparison: Comparison
    shortfall: Shortfall


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What to serve after a run, why, and what is missing where there is no decision.

    baseline: the name of the baseline.
    serve: the name of the variant or the baseline, if one of them is to serve all traffic; None:
        neither is shown to be the one to keep.
    by_class: what it costs if the variant serves some classes and the baseline the others; None: no
        class is shown to be cheaper with the variant while another is shown not to be.
    comparison: the comparison that decided or, without a decision, the one that comes nearest;
        None: there is none.
    is_widened: whether the interval of `comparison`, or those behind `rates`, were made wider,
        because the best of several is chosen.
    choices: the comparisons that `comparison` was chosen from, in order of preference.
    rates: for each variant, the highest request rates that it and the baseline can take within the
        latency limits; empty if costs decide.
    is_speculation: False if the variant of `comparison` accepts no drafts, so that speculation
        cannot be why its cost differs.
    classes: the comparisons of each class, of the variant and at the load of `comparison`.
    by_share, by_price: the cost ratio of `comparison` as a function of each class's share of the
        traffic, and of the ratio of prices; empty and None without a cost per token. Their
        intervals are as wide as that of `comparison`.
    missing: what is not known that a decision needs; empty if there is a decision.
    next_step: what to do next; None: nothing is missing, and there was no search.
    more: how much more to measure in each class, if what is missing is a verdict.
    """

    baseline: str
    serve: str | None
    by_class: ByClass | None = None
    comparison: Comparison | None = None
    is_widened: bool = False
    choices: tuple[Comparison, ...] = ()
    rates: tuple[RateComparison, ...] = ()
    is_speculation: bool = True
    classes: tuple[Comparison, ...] = ()
    by_share: tuple[CostByShare, ...] = ()
    by_price: CostByPrice | None = None
    missing: tuple[Missing, ...] = ()
    next_step: NextStep | None = None
    more: tuple[MoreNeeded, ...] = ()

    @property
    def serves_by_class(self) -> bool:
        """Whether the variant is to serve some prompt classes, and the baseline the others."""
        return not self.missing and self.by_class is not None and self.by_class.is_shown_to_save

    @property
    def pays_while(self) -> tuple[CostByShare, ...]:
        """For each class, the cost ratio as a function of the class's share of the traffic.

        Empty if the verdict is not about the cost of a token: if latency limits decide, or if it is
        inconclusive.
        """
        return self.by_share if self._is_on_cost else ()

    @property
    def pays_up_to_price(self) -> CostByPrice | None:
        """The cost ratio as a function of the ratio of the servers' prices.

        None if the verdict is not about the cost of a token: if latency limits decide, or if it is
        inconclusive.
        """
        return self.by_price if self._is_on_cost else None

    @property
    def _is_on_cost(self) -> bool:
        return self.comparison is not None and self.comparison.judgement.is_on_cost

    @property
    def is_made(self) -> bool:
        return not self.missing

    @property
    def winner(self) -> str | None:
        """The name of the variant to serve all classes or some, or the baseline's name.

        None if there is no decision.
        """
        if self.serves_by_class and self.by_class:
            return self.by_class.comparison.variant
        return self.serve

    @property
    def serves_variant(self) -> bool:
        """Whether the decision is to serve all classes, or some, by a variant."""
        return self.winner not in (None, self.baseline)

    @property
    def serves_baseline(self) -> bool:
        """Whether the decision is to serve all classes by the baseline."""
        return self.is_made and not self.serves_variant
