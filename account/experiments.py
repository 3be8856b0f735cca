"""The experiment that a command of this package asks about: one that runs in an AWS account."""

from __future__ import annotations

from pathlib import Path

from draftbench.errors import UserInputError
from draftbench.experiment import NeuronExperiment
from draftbench.loading import load_experiment


def load_account_experiment(path: Path) -> NeuronExperiment:
    """Read and check an experiment file.

    Raises:
        UserInputError: the file is wrong, or its experiment is a local one.
    """
    experiment = load_experiment(path)
    if not isinstance(experiment, NeuronExperiment):
        raise UserInputError(
            f"{path}: release\n"
            f"    given:   {experiment.release}, which runs on this machine\n"
            "    allowed: a release for Neuron devices, as in experiments/qwen3-32b.yaml\n"
            "    because: a local experiment has nothing in an AWS account; `make rehearse` runs it"
        )
    return experiment
