"""Fills a folder with only those files of the project that a pod or Lambda function gets."""

import shutil
from pathlib import Path

from charts.shipped import ROOT, source_files


def lay_out(shipped: tuple[str, ...], root: Path) -> None:
    """Copy the files of `shipped`, a list in `charts.shipped`, into `root`."""
    for name in source_files(shipped):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, root / name)


def block(packages: tuple[str, ...], root: Path) -> None:
    """Make imports of these packages fail, because the image does not have them."""
    for name in packages:
        (root / f"{name}.py").write_text("raise RuntimeError(f'the pod has no {__name__}')\n")
