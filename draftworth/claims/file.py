"""The claims file: figures that somebody published, each with what it is about."""

from math import inf
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from draftworth.experiment import search, strict, variants
from draftworth.experiment.validation_errors import shape_problems
from draftworth.experiment.yaml_source import read_source
from draftworth.records.results import MAX_TEMPERATURE

Text = Annotated[str, Field(min_length=1, max_length=300)]
Ends = Annotated[tuple[strict.PositiveInt, ...], Field(min_length=2, max_length=2)]


class Conditions(strict.StrictModel):
    """What a claim is about; a condition that is left out may have any value."""

    target: Text | None = None
    """hub id of the target model"""
    release: Text | None = None
    """release of the catalogue, as in neuron-2.26.1"""
    temperature: Annotated[float, Field(ge=0, le=MAX_TEMPERATURE)] | None = None
    """0: greedy"""
    prompt_class: Text | None = None
    """class of the prompts, or `traffic mix`"""
    concurrency: strict.PositiveInt | None = None
    input_tokens: Ends | None = None
    """lowest and highest median of the prompts' lengths, as the server counts them"""
    output_tokens: Ends | None = None
    """lowest and highest median of the outputs' lengths"""
    variant: Text | None = None
    """the variant's name, which is all that a run of `measure` or `compare` says of it"""
    method: Text | None = None
    """how tokens are drafted; none: the baseline"""
    draft: Text | None = None
    """hub id of the draft"""
    window: variants.Window | None = None
    windows: search.Windows | None = None
    """of best_window: the windows that it is the best of"""


class Claim(Conditions):
    """One published figure; a condition of the claim replaces the file's with the same key."""

    claim: Text
    """what was published, in words"""
    source: Text
    """who published it, and where"""
    figure: Text
    """name of the figure in figures.csv, as in itl_speedup; names have their units"""
    against: Conditions | None = None
    """the claim is about the figure / the same figure under these other conditions"""
    relation: Literal["equal", "at_least", "at_most"] = "equal"
    """whether the figure equals the value, or the value is the lowest or highest promised"""
    value: strict.PositiveFloat
    """the published figure"""
    tolerance_percent: Annotated[float, Field(ge=0.1, le=50)]
    """how far a figure may be from the value; 20: by a factor of 1.2"""

    @property
    def ends(self) -> tuple[float, float]:
        """The lowest and the highest figure that agree with the claim."""
        factor = 1 + self.tolerance_percent / 100
        low, high = self.value / factor, self.value * factor
        return {"equal": (low, high), "at_least": (low, inf), "at_most": (0.0, high)}[self.relation]


class ClaimsFile(Conditions):
    """Figures that somebody published, and the conditions that they share."""

    claims: Annotated[tuple[Claim, ...], Field(min_length=1, max_length=100)]
    """the published figures"""


def conditions_of(*given: Conditions) -> dict[str, Any]:
    """Return the conditions of all `given` by key; if several have a key, the last one counts."""
    keys = Conditions.model_fields
    return {k: v for one in given for k, v in one if k in keys and v is not None}


def read_claims(path: Path) -> ClaimsFile:
    """Read and check a claims file; raise UserInputError with every problem found."""
    source = read_source(path, example="experiments/claims/published.yaml")
    try:
        return ClaimsFile.model_validate(source.data)
    except ValidationError as error:
        raise source.refused(shape_problems(error, source.data, ClaimsFile)) from error
