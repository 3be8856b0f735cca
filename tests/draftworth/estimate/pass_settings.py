"""Settings of a forward pass over outputs, by default of the small draft model in the checkout."""

from pathlib import Path

from draftworth.records.readings import PassSettings
from tests.conftest import ROOT

TARGET, DRAFT = (ROOT / "rehearsal/tiny_pair" / name for name in ("target", "draft"))


def settings(folder: Path, model: Path = DRAFT, target: Path = TARGET) -> PassSettings:
    return PassSettings(
        model=str(model),
        target=str(target),
        folder=str(folder),
        precision="auto",
        temperature=1.0,
        enable_thinking=False,
        fixed_length=False,
    )
