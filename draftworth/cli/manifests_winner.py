"""`draftworth manifests --winner` writes the winner of a run for other clusters."""

import argparse
import re

from charts.winner.measured_winner import MeasuredWinner, measured_winner
from charts.winner.winner_files import write_winner_files
from charts.winner.winner_objects import BUCKETS, export_of
from draftworth.cli.arguments import RUN_WORDS, local_run, run_list
from draftworth.cli.manifests_options import DEFAULT_NAMESPACE, refuse
from draftworth.cli.manifests_winner_next_steps import next_steps
from draftworth.errors import UserInputError
from draftworth.experiment.model import NeuronExperiment
from draftworth.experiment.rules.aws_rules import PINNED_IMAGE_WORDS, is_pinned_image
from draftworth.planning.resolved import ResolvedExperiment, ResolvedLocal, load
from draftworth.records.run_folder import read_run
from draftworth.records.transcripts import read_transcripts
from draftworth.untrusted import one_line

# Options that are allowed only with `--winner`.
WINNER_OPTIONS = ("namespace", "image")
_DNS_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


def write_winner(arguments: argparse.Namespace) -> str:
    """Write the files that serve a run's winner, and return the next steps as text.

    It raises UserInputError if an option is wrong, or the run is not of the given experiment.
    """
    experiment = load(arguments.experiment)
    namespace = _namespace(arguments.namespace)
    image = _image(experiment, arguments.image)
    bucket_names = {name: value for name in BUCKETS if (value := getattr(arguments, name))}
    if isinstance(experiment, ResolvedLocal):
        refuse(
            "a local experiment's winner",
            "allowed: on Neuron devices, because its checkpoints are on a claim of your own",
            **bucket_names,
        )
    measured = _measured(arguments.winner, experiment)
    export = export_of(
        experiment, measured, namespace=namespace, image=image, bucket_names=bucket_names
    )
    return next_steps(
        measured,
        export,
        files=write_winner_files(arguments.out, export, measured),
        has_namespace=namespace == DEFAULT_NAMESPACE,
    )


def _measured(run_at: str, experiment: ResolvedExperiment) -> MeasuredWinner:
    """Read the run in a folder or at an s3:// address, and find its winner in the experiment."""
    if run_list(run_at) is not None:
        raise UserInputError(
            f"--winner: given {run_at}, which names many runs, allowed: {RUN_WORDS}; next: "
            f"`draftworth report {run_at}` lists them"
        )
    with local_run(run_at) as folder:
        run = read_run(folder)
        transcripts = read_transcripts(folder, run.blocks)
    return measured_winner(run, transcripts, experiment)


def _namespace(chosen: str | None) -> str:
    namespace = chosen or DEFAULT_NAMESPACE
    if not _DNS_LABEL.fullmatch(namespace):
        raise UserInputError(
            f"--namespace: given {one_line(namespace)!r}, allowed: lower-case letters, digits and "
            "hyphens, at most 63, a letter or digit first and last; next: correct it, or leave it "
            f"out for {DEFAULT_NAMESPACE}"
        )
    return namespace


def _image(experiment: ResolvedExperiment, chosen: str | None) -> str:
    spec = experiment.spec
    if isinstance(spec, NeuronExperiment):
        if chosen:
            raise UserInputError(
                f"--image: given {one_line(chosen)}, allowed: not with release {spec.release}, "
                f"whose image was measured: {spec.image}; next: leave it out"
            )
        return spec.image
    if not chosen:
        raise UserInputError(
            f"--image: not given, allowed: an image with vLLM {spec.release_facts.vllm_version} "
            f"for CPU, because release {spec.release} runs on the machine itself and has no image; "
            "next: --image REPOSITORY:TAG. Only flags and environment are then what was measured"
        )
    if not is_pinned_image(chosen):
        raise UserInputError(
            f"--image: given {one_line(chosen)}; allowed: {PINNED_IMAGE_WORDS}, because under a "
            "tag that moves another engine is served than the one that was measured; next: give "
            "a tag that stays, or the digest that the registry shows"
        )
    return chosen
