"""What a pass over the baseline's outputs predicted, beside what the run measured."""

from __future__ import annotations

from collections.abc import Sequence

from draftworth.records.likelihoods import Prediction
from draftworth.report.document import Section, table
from draftworth.report.words import ABOUT


def predicted_sections(predictions: Sequence[Prediction]) -> tuple[Section, ...]:
    """A section, or nothing where nothing was predicted."""
    rows = (
        (
            *(p.prompt_class, p.variant, str(p.requests)),
            *(f"{p.predicted:.3f}", f"{p.measured:.3f}", f"{p.difference:+.2%}"),
            f"{p.same_sequence} of {p.shown}",
        )
        for p in predictions
    )
    headings = (
        *("class", "variant", "requests", "tokens a step, predicted", "measured", "difference"),
        "each step as predicted",
    )
    tables = table(headings, rows, names=2)
    if not tables:
        return ()
    title = "Predicted without a server"
    return (Section(title=title, paragraphs=(ABOUT["predicted"],), tables=tables, brief=True),)
