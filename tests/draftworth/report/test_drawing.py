"""Plots are the same, and nothing is printed, whatever a machine's settings for Matplotlib are."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.draftworth.report.plots import draw

DRAW = """
import sys
from tests.draftworth.report.plots import draw
sys.stdout.buffer.write(draw())
"""

# Environment variables, and whether the current folder has a file `matplotlibrc`.
SURROUNDINGS: dict[str, tuple[dict[str, str], bool]] = {
    "no such backend, no folder to write to, settings in the current folder": (
        {"MPLBACKEND": "nonsense", "MPLCONFIGDIR": "/proc/none", "HOME": "/proc/none"},
        True,
    ),
    "settings elsewhere": ({"MATPLOTLIBRC": "settings"}, False),
}


@pytest.mark.parametrize(("variables", "here"), SURROUNDINGS.values(), ids=SURROUNDINGS)
def test_a_plot_needs_nothing_of_its_surroundings(
    tmp_path: Path, variables: dict[str, str], here: bool
) -> None:
    (tmp_path / ("matplotlibrc" if here else "settings")).write_bytes(b"font.size: 40\n\xff\xfe")
    done = subprocess.run(
        [sys.executable, "-c", DRAW],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr.decode()) == (0, "")
    assert done.stdout == draw()
