"""`draftworth rehearse` runs a whole experiment on this machine.

It measures real vLLM servers on CPU with the client, files, publisher function and verdict of the
deployed app, and an embedded AWS. If the engine cannot be installed, it fails with a message that
names `compare`, which measures servers that run already.
"""

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from draftworth.cli import print_run
from draftworth.cli.arguments import check_api_key
from draftworth.cli.progress import RunProgress, shown_progress
from draftworth.decision.facts import facts_of
from draftworth.errors import DraftworthError, UserInputError
from draftworth.estimate.output_likelihoods import checks_by_target
from draftworth.estimate.predictions import predict
from draftworth.estimate.run_teacher_forcing import Reader
from draftworth.estimate.target_outputs import outputs_of_blocks
from draftworth.experiment.model import beside
from draftworth.measuring.result_files import FolderSink, Tee
from draftworth.measuring.runner import measure_here, new_run_id
from draftworth.measuring.server_lifecycle import Progress, ReadRunsOutputs, reads_nothing
from draftworth.planning.resolved import ResolvedLocal, ResolvedNeuron, load
from draftworth.records import codec, likelihoods, run_folder
from draftworth.records.readings import Reading
from draftworth.records.results import RUNS_FOLDER, BlockResult, RunResult
from draftworth.records.transcripts import Transcripts, read_transcripts
from draftworth.report.contents import document_of
from draftworth.report.sentences import headline
from pods.measuring.s3_sink import S3Sink
from rehearsal import install, publish_results, server_slots
from rehearsal.embedded_aws import RESULTS_BUCKET, embedded_aws
from rehearsal.prediction_checks import checks_of
from rehearsal.trained import fetching

_ENGINE_TAKES = "; the engine, which is not there yet, 3 GB and some minutes more"


def run(arguments: argparse.Namespace) -> int:
    """Rehearse and print the verdict; return 1 if the run is not complete or a check failed."""
    check_api_key()
    folder = FolderSink(arguments.out)
    # A search runs drafts on outputs. The scratch folder keeps what they predict, so that
    # `read_outputs` need not run them again after the search.
    with (
        tempfile.TemporaryDirectory(prefix="draftworth-") as scratch,
        shown_progress(with_time=True) as progress,
    ):
        if arguments.pair:
            arguments.experiment = _fetched(arguments, progress.line)
        experiment = _with_options(arguments, load(arguments.experiment))
        folder.check()
        rehearsal = _Rehearsal(
            arguments=arguments,
            experiment=experiment,
            folder=folder,
            readings=Path(scratch),
            run_progress=progress,
        )
        run_id = new_run_id(experiment.name)
        folder_of_run = arguments.out / run_id
        with print_run.answer_if_cut_off(arguments, folder_of_run):
            result = rehearsal.measure(run_id)
        predictions: tuple[likelihoods.Prediction, ...] = ()
        rehearsal.print_headline(run_folder.read_run(folder_of_run))
        try:
            predictions = rehearsal.read_outputs(run_id)
        except KeyboardInterrupt:
            progress.line("its outputs are not read: interrupted; the measured run is kept")
            raise
        finally:  # the run was measured, even if reading its outputs failed
            progress.end()
            completed = run_folder.read_run(folder_of_run)
            texts = read_transcripts(folder_of_run, completed.blocks)
            facts = facts_of(completed, texts)
            document = document_of(facts, predictions=predictions)
            print_run.print_answer(arguments, facts, document, [str(folder_of_run)])
        is_complete = result.status == "complete"
        return 0 if is_complete and rehearsal.is_as_predicted(completed, texts) else 1


@dataclass(frozen=True, kw_only=True)
class _Rehearsal:
    """One rehearsal of an experiment, with its command-line arguments and its folders.

    folder: writes the run's files on this machine.
    readings: a folder that keeps the models' readings (how well each predicts the outputs), so that
        no model runs over the same outputs twice.
    run_progress: prints lines and the progress of the run.
    """

    arguments: argparse.Namespace
    experiment: ResolvedLocal
    folder: FolderSink
    readings: Path
    run_progress: RunProgress

    @property
    def progress(self) -> Progress:
        return self.run_progress.line

    def measure(self, run_id: str) -> RunResult:
        arguments, experiment, progress = self.arguments, self.experiment, self.progress
        servers = server_slots.local_engines(experiment, arguments.engine, progress=progress)
        with embedded_aws() as emulator, servers as (spec, manager):
            bucket = S3Sink(emulator.s3, bucket=RESULTS_BUCKET, prefix=RUNS_FOLDER)
            result = measure_here(
                spec,
                run_id,
                Tee(self.folder, bucket),
                progress,
                advanced=self.run_progress.advanced,
                servers=manager,
                read_outputs=self._draft_reader(),
            )
            publish_results.publish(emulator, run_folder.read_run(arguments.out / run_id), progress)
        return result

    def print_headline(self, run: run_folder.Run) -> None:
        """Show a complete run's headline before its outputs are read, which may take minutes."""
        if run.result.status == "complete":
            self.progress(headline(facts_of(run, {})))
            self.progress(
                "the models read the outputs now, which may take minutes; then the report"
            )

    def read_outputs(self, run_id: str) -> tuple[likelihoods.Prediction, ...]:
        """Run the local models on the run's outputs; write the results into the run's folder.

        The target shows whether it would give these outputs; a draft shows what it would propose.
        Return the predictions; empty if the temperature is not 0, or the outputs cannot be read.
        """
        local, reader = self.experiment, self._reader()
        folder_of_run = self.arguments.out / run_id
        try:
            run = run_folder.read_run(folder_of_run)
            checks = checks_by_target(
                local, run, read_transcripts(folder_of_run, run.blocks), reader
            )
            likelihood_record = likelihoods.Likelihoods(run_id=run_id, likelihoods=tuple(checks))
            self.folder.write(
                f"{run_id}/{likelihoods.LIKELIHOODS_FILE}",
                codec.dump_record(likelihood_record, indent=2),
            )
            if local.spec.workload.temperature:
                return ()
            predicted = predict(local, folder_of_run, reader)
            prediction_record = likelihoods.Predictions(run_id=run_id, predictions=predicted)
            self.folder.write(
                f"{run_id}/{likelihoods.PREDICTIONS_FILE}",
                codec.dump_record(prediction_record, indent=2),
            )
        except DraftworthError as error:  # the measured run is valid without this
            self.progress(f"its outputs are not read: {error}")
            return ()
        return predicted

    def is_as_predicted(self, run: run_folder.Run, texts: Transcripts) -> bool:
        """Print the checks of a run with `--pair`, and return whether all hold.

        Without `--pair` nothing is checked, and the result is True.
        """
        if self.arguments.pair is None:
            return True
        checks = list(checks_of(self.experiment, run, texts, self._reader()))
        to = sys.stderr if self.arguments.json else sys.stdout
        print("", "Timings are of this CPU, and of no other device.", *checks, sep="\n", file=to)
        return all(check.holds for check in checks)

    def _draft_reader(self) -> ReadRunsOutputs:
        """Return a function that runs each draft of a search on the baseline's outputs.

        That function returns what each draft predicts (its readings). It returns nothing if outputs
        are not greedy, if a draft cannot run on a given text, or if loads change the prompts'
        length, because changed prompts are not stored.
        """
        local, search = self.experiment, self.experiment.search
        as_they_are = all(load.input_tokens is None for load in local.loads)
        if not (search and search.drafts_read_text and local.reads_outputs and as_they_are):
            return reads_nothing
        baseline = next(v.name for v in local.variants if v.is_baseline)
        drafts = dict.fromkeys(variant.draft for variant in local.variants if variant.draft)
        reader = self._reader()

        def read(run_id: str, blocks: Sequence[BlockResult]) -> Mapping[str, Sequence[Reading]]:
            try:
                texts = read_transcripts(self.arguments.out / run_id, tuple(blocks))
                outputs = outputs_of_blocks(blocks, texts, local.cases, variant=baseline)
                return {d: reader.readings(beside(local.path, d), outputs) for d in drafts}
            except DraftworthError as error:  # the search continues without the readings
                self.progress(f"the baseline's outputs are not read: {error}")
                return {}

        return read

    def _reader(self) -> Reader:
        path, spec = self.experiment.path, self.experiment.spec
        return Reader(
            python=install.install_engine(self.arguments.engine, progress=self.progress),
            target=beside(path, spec.target.path),
            folder=self.readings,
            enable_thinking=spec.workload.enable_thinking,
            precision=self.experiment.reading_precision,
        )


def _fetched(arguments: argparse.Namespace, progress: Progress) -> Path:
    """Print what `--pair`'s models need in GB and time; fetch them; return the experiment file."""
    pair = fetching.PAIRS[arguments.pair]
    engine = "" if (arguments.engine / install.STAMP_NAME).is_file() else _ENGINE_TAKES
    fetches = f"fetches {fetching.missing_gb(pair):.1f} GB, takes {pair.takes}{engine}"
    progress(f"{arguments.pair}: {fetches}. {pair.origin}.")
    python = install.install_engine(arguments.engine, progress=progress)
    fetching.prepare(pair, python, progress=progress)
    return fetching.ROOT / pair.experiment


def _with_options(
    arguments: argparse.Namespace, experiment: ResolvedNeuron | ResolvedLocal
) -> ResolvedLocal:
    if not isinstance(experiment, ResolvedLocal):
        raise UserInputError(
            f"--experiment: given {experiment.path} with release {experiment.spec.release}, which "
            "runs on AWS, allowed: an experiment with a local release, such as "
            "experiments/rehearsal.yaml; next: `draftworth plan` says what this one takes on AWS, "
            "and `draftworth compare` measures servers that run already"
        )
    spec, times = experiment.spec, arguments.repetitions
    if spec.search and (arguments.control or times is not None):
        raise UserInputError(
            f"--repetitions and --control: allowed: without a search ({experiment.path}); next: "
            "rehearse the winner in an experiment of its own"
        )
    if arguments.control:
        spec = spec.model_copy(update={"control": True})
    if times is not None:
        # These are requests of the whole run. They are multiplied by the number of repetitions, so
        # that each repetition has as many as the experiment file gives the run.
        per_run_keys = ("min_requests", "max_requests")
        counts = {name: getattr(spec.workload, name) * times for name in per_run_keys}
        work = spec.workload.model_copy(update=counts)
        spec = spec.model_copy(update={"repetitions": times, "workload": work})
    return replace(experiment, spec=spec)
