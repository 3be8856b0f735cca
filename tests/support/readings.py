"""Makes outputs, and readings of how well a model predicts their tokens, with default values."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from draftworth.estimate.run_teacher_forcing import Reader
from draftworth.records.readings import Output, Reading


def make_output(**fields: Any) -> Output:
    with_defaults = {
        "id": "o0",
        "prompt_class": "chat",
        "case": "case",
        "prompt_id": "p0",
        **fields,
    }
    return Output(**{"asked": {"prompt": "x"}, "text": "y", **with_defaults})


def make_reading(hits: str, *, of: Output | None = None, **fields: Any) -> Reading:
    """Return a reading of the output `of`; `fields` replace the default values.

    hits: for each output token after the first, `1` if the model would have chosen it, else `0`.
    """
    output = of or make_output()
    places = {name: getattr(output, name) for name in ("id", "prompt_class", "case", "prompt_id")}
    scores = {"log_likelihood": -1.0, "entropy": 1.0, "variance": 1.0}
    return Reading(**{**places, **scores, "hits": hits, **fields})


class HalfRight(Reader):
    """A Reader that runs no model: in its readings, each draft predicts all but the fifth token."""

    def readings(self, model: Path, outputs: Sequence[Output], **_: Any) -> list[Reading]:
        assert model.is_dir()
        return [make_reading("1111011111", of=output) for output in outputs]
