"""Makes readings and outputs, with defaults for the fields that a test does not set."""

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
    """Return the reading of an output; `fields` replace the default values."""
    output = of or make_output()
    places = {name: getattr(output, name) for name in ("id", "prompt_class", "case", "prompt_id")}
    scores = {"log_likelihood": -1.0, "entropy": 1.0, "variance": 1.0}
    return Reading(**{**places, **scores, "hits": hits, **fields})


class HalfRight(Reader):
    """Reads nothing: of ten tokens the draft would have said all but the fifth."""

    def readings(self, model: Path, outputs: Sequence[Output], **_: Any) -> list[Reading]:
        assert model.is_dir()
        return [make_reading("1111011111", of=output) for output in outputs]
