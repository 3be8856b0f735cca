"""Fills a folder with only those files of the project that a pod or Lambda function gets."""

import shutil
from importlib.util import cache_from_source
from pathlib import Path

from charts.shipped import ROOT, source_files


def lay_out(shipped: tuple[str, ...], root: Path) -> None:
    """Copy the files of `shipped`, a list in `charts.shipped`, into `root`."""
    for name in source_files(shipped):
        copy_with_bytecode(ROOT / name, root / name)


def copy_with_bytecode(file: Path, copy: Path) -> None:
    """Copy a file and its time and, if it is a module that was compiled, the module's bytecode.

    Python then uses the bytecode, which saves half of the time of a program that starts.
    """
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(file, copy)
    bytecode = Path(cache_from_source(str(file)))
    if file.suffix == ".py" and bytecode.exists():
        of_copy = Path(cache_from_source(str(copy)))
        of_copy.parent.mkdir(exist_ok=True)
        shutil.copy(bytecode, of_copy)


def block(packages: tuple[str, ...], root: Path) -> None:
    """Make imports of these packages fail, because the image does not have them."""
    for name in packages:
        (root / f"{name}.py").write_text("raise RuntimeError(f'the pod has no {__name__}')\n")
