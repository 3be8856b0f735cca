"""A folder with what travels to a pod or function, and nothing else of the project."""

import shutil
from pathlib import Path

from charts.shipped import ROOT, source_files


def lay_out(shipped: tuple[str, ...], root: Path) -> None:
    """Copy the files of a list of `charts.shipped` below `root`."""
    for name in source_files(shipped):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, root / name)


def block(packages: tuple[str, ...], root: Path) -> None:
    """Make programs fail that import one of these, which the image has not."""
    for name in packages:
        (root / f"{name}.py").write_text("raise RuntimeError(f'the pod has no {__name__}')\n")
