"""The options that `make` passes to the commands that it calls."""

import shutil
import subprocess

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="there is no make here")


def called_by(target: str, *variables: str) -> str:
    """Return the commands of a target, which are printed and not run."""
    command = ["make", "--dry-run", target, *variables]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.parametrize("target", ["plan", "preflight", "stop", "logs", "leftovers"])
def test_a_command_gets_the_experiment_and_further_options(target: str) -> None:
    command = called_by(target, "EXPERIMENT=mine.yaml", "ARGS=--further option")
    assert f"draftworth {target} mine.yaml --further option" in command
    assert "--further" not in called_by(target)
