"""Shows prompt by prompt what a token costs: which prompts gain, and which lose."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from draftworth.analysis.prompt_costs import ExampleOutput, PromptCost
from draftworth.decision.facts import RunFacts
from draftworth.decision.prompt_counts import prompt_counts
from draftworth.decision.verdict import INDIFFERENCE, Comparison
from draftworth.errors import counted
from draftworth.report.document import Example, Section
from draftworth.report.drawing import Plot, legend, look, mark_equal_cost, short, themed
from draftworth.report.percent import direction
from draftworth.report.words import ABOUT

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TITLE = "Prompt by prompt"
# With more prompts than this, their names would overlap.
MOST_NAMES = 40
ROW_INCHES, LEAST_INCHES, UNNAMED_INCHES = 0.2, 2.6, 4.2


def by_prompt_sections(facts: RunFacts) -> Iterator[Section]:
    """Yield the section with each prompt's cost; none without a cost, or with a single prompt."""
    comparison, costs = facts.decision.comparison, facts.prompt_costs
    if comparison is None or len(costs) < 2:
        return
    plot = _plot(comparison, costs)
    yield Section(
        title=TITLE,
        paragraphs=(f"{plot.title}.", ABOUT["by_prompt"]),
        plots=(plot,),
        examples=tuple(
            _example(example, comparison.variant, is_first=example.of is costs[0])
            for example in facts.example_outputs
        ),
    )


def _plot(comparison: Comparison, costs: Sequence[PromptCost]) -> Plot:
    named = len(costs) <= MOST_NAMES
    height = max(LEAST_INCHES, 1.5 + ROW_INCHES * len(costs)) if named else UNNAMED_INCHES
    return Plot(
        name="cost-by-prompt",
        title=f"{short(comparison.variant)}: {_counts(costs)}",
        caption="Cost of a token, variant / baseline - 1, of each prompt over its rounds, the one "
        f"that gains most first; the band around 0 is no difference ({INDIFFERENCE:.0%}). "
        f"At {comparison.traffic.load.words}.",
        draw=lambda axes: _draw(axes, costs, named=named),
        height_inches=height,
    )


def _counts(costs: Sequence[PromptCost]) -> str:
    counts = prompt_counts(costs)
    parts = (counts.less, "less"), (counts.more, "more"), (counts.same, "the same")
    (first, how), *rest = ((count, how) for count, how in parts if count)
    of_all = f"{'all' if not rest else f'{first} of'} {counted(len(costs), 'prompt')}"
    return ", ".join([f"{of_all} cost {how} per token", *(f"{n} {how}" for n, how in rest)])


def _draw(axes: Axes, costs: Sequence[PromptCost], *, named: bool) -> None:
    mark_equal_cost(axes, "x")
    axes.set_xlabel("cost of a token, compared with the baseline (%)")
    classes = list(dict.fromkeys(cost.prompt_class for cost in costs))
    looks = [look(place + 1) | {"linestyle": ""} for place, _ in enumerate(classes)]
    for row, cost in enumerate(costs):
        percent = 100 * (cost.cost_ratio - 1)
        style = looks[classes.index(cost.prompt_class)]
        axes.plot([0, percent], [row, row], color=style["color"], linewidth=1, alpha=0.5)
        axes.plot([percent], [row], **style, markersize=5)
    rows = range(len(costs)) if named else ()
    axes.set_yticks(rows, [short(f"{costs[row].case}/{costs[row].prompt}") for row in rows])
    axes.set_ylim(len(costs), -1)
    axes.tick_params(axis="y", labelcolor=themed("text.color"), labelsize=9.5)
    axes.grid(visible=False, axis="y")
    legend(axes, ((short(name), style) for name, style in zip(classes, looks, strict=True)))


def _example(example: ExampleOutput, variant: str, *, is_first: bool) -> Example:
    ratio = example.of.cost_ratio
    gains = direction(ratio) == "less"
    place = "most" if is_first or not gains else "least"
    return Example(
        title=f"The prompt that {'gains' if gains else 'loses'} {place}: "
        f"{example.of.prompt_class}, {example.of.case}/{example.of.prompt}: a token costs "
        f"{abs(ratio - 1):.0%} {direction(ratio)} with {variant}. Its output:",
        text=example.text,
    )
