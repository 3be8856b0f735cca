"""Decides by verdicts when a group (a prompt class at a load) needs no more rounds.

It needs none as soon as the verdict on each of its variants is decided, by the rule and with the
interval of the report. A run that looks at its verdicts after each round has many chances to be
wrong, so all its intervals are wider (`repeated_looks`). docs/decisions/0048-stop-when-decided.md
says what that saves and what it costs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from draftworth.analysis.summary import Group
from draftworth.decision.best_of_many import best_of_many, confidence_of_each
from draftworth.decision.verdict import Comparison
from draftworth.measuring.round_counts import ROUNDS_BEFORE_A_LOOK, RoundCounts
from draftworth.measuring.run_specification import RunSpec
from draftworth.measuring.stopping import StoppingRule
from draftworth.records.results import AS_SHIPPED
from draftworth.report.reason_sentences import reason_words


@dataclass(kw_only=True)
class Decided(StoppingRule):
    """Ends the rounds of a group when the verdicts on all of its variants are decided."""

    @classmethod
    def looks(cls, spec: RunSpec) -> int:
        return RoundCounts.of(spec).looks

    def is_reached(self, group: Group) -> bool:
        return all(c.judgement.is_decided for c in self._comparisons(group))

    def needs_no_more(self, group: Group, *, requests: int) -> bool:
        """Return whether a group needs no further rounds; is called once after each of its rounds.

        Before `ROUNDS_BEFORE_A_LOOK` rounds nothing is looked at. requests: how many requests of
        each case and variant the group has measured.
        """
        if requests < ROUNDS_BEFORE_A_LOOK * self.spec.sampling.requests_per_round:
            return False
        comparisons = [*self._comparisons(group)]
        undecided = [c for c in comparisons if not c.judgement.is_decided]
        if not undecided:
            verdicts = ", ".join(f"{c.variant}: {c.judgement}" for c in comparisons)
            self._say(group, f"the verdict is decided ({verdicts})", requests)
            return True
        ratios = [c.cost_ratio for c in undecided]
        if not self._are_at_their_best(group, ratios, requests=requests, target_width=0.0):
            return False
        self._say(group, "more rounds would hardly narrow what is undecided", requests)
        return True

    def report_missing(self, group: Group) -> None:
        """Report why the verdicts of a group are not decided."""
        for c in self._comparisons(group):
            if not c.judgement.is_decided:
                self.progress(f"{group.label}: {c.variant} is not decided: {reason_words(c)}")

    def _comparisons(self, group: Group) -> Iterator[Comparison]:
        """Yield the comparisons of the variants that may be served, as the decision judges them.

        The decision is about the best of all variants and loads.
        """
        spec, looks = self.spec, self.looks(self.spec)
        names = [e.variant for e in spec.variants if e.variant not in (spec.baseline, AS_SHIPPED)]
        for variant in names:
            confidence = confidence_of_each(1, looks=looks)
            comparison = self._compared(group, variant, confidence=confidence)
            yield best_of_many(comparison, len(names) * len(spec.loads), looks=looks)
