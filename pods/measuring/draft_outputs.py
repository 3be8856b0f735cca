"""What a search's drafts say of the baseline's outputs: asked for once, taken when it is there.

The outputs go into the run's folder, where a Job beside this one finds them, reads them with each
draft and puts down what it read (`pods/draft_reader`). Nobody waits for it: accelerator nodes would
be paid for meanwhile, and a search without readings goes by what its servers do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, groupby, islice, zip_longest
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory

from draftworth.analysis.answered_prompts import outputs_of_blocks
from draftworth.errors import DraftworthError
from draftworth.measuring.result_files import SinkError, Store
from draftworth.measuring.run_specification import RunSpec
from draftworth.measuring.runner import ReadRunsOutputs, reads_nothing
from draftworth.records.codec import RecordError, dump_record, load_record
from draftworth.records.readings import (
    OUTPUTS_FILE,
    OUTPUTS_LIMIT_BYTES,
    READINGS_FILE,
    READINGS_LIMIT_BYTES,
    DraftReadings,
    Output,
    Reading,
)
from draftworth.records.results import BLOCKS_FOLDER, TRANSCRIPT_SUFFIX, BlockResult
from draftworth.records.search import drafts_can_tell
from draftworth.records.transcripts import FILE_LIMIT_BYTES, read_transcripts

Readings = Mapping[str, Sequence[Reading]]

# The tokens that a step yields are known to a few percent by then, and a draft of 2e9 parameters
# reads so many in minutes on four vCPUs.
MOST_OUTPUTS_A_CLASS = 64
_PARALLEL_FILES = 8


def draft_outputs(spec: RunSpec, store: Store, log: Callable[[str], None]) -> ReadRunsOutputs:
    """Who asks the drafts, where they can tell anything (`drafts_can_tell`)."""
    if spec.search and drafts_can_tell(spec.search, spec.loads, spec.shape.temperature):
        return DraftOutputs(spec, store, log)
    return reads_nothing


@dataclass
class DraftOutputs:
    """Asked before each decision of a search; a failure is a line in the log and ends nothing."""

    spec: RunSpec
    store: Store
    log: Callable[[str], None]
    _readings: Readings | None = field(default=None, init=False)

    def __call__(self, run_id: str, blocks: Sequence[BlockResult]) -> Readings:
        """The readings by draft; nothing before they are there, or where they cannot be used."""
        if self._readings is not None:
            return self._readings
        try:
            folder = f"{run_id}/{Path(OUTPUTS_FILE).parent}"
            names = self.store.names(folder)
            if f"{run_id}/{READINGS_FILE}" in names:
                self._readings = self._taken(run_id)
                return self._readings
            if f"{run_id}/{OUTPUTS_FILE}" not in names:
                self._put_down(run_id, blocks)
        except DraftworthError as error:
            self.log(f"the drafts do not read the baseline's outputs yet: {error}")
        return {}

    def _taken(self, run_id: str) -> Readings:
        data = self.store.read(f"{run_id}/{READINGS_FILE}", limit_bytes=READINGS_LIMIT_BYTES)
        try:
            found = load_record(DraftReadings, data)
        except RecordError as error:
            self.log(f"{READINGS_FILE}: no readings of this version, none are used: {error}")
            return {}
        if found.run_id != run_id:
            self.log(f"{READINGS_FILE}: given readings of another run, none are used")
            return {}
        self.log(f"readings of {', '.join(found.drafts) or 'no draft'} are there")
        return found.drafts

    def _put_down(self, run_id: str, blocks: Sequence[BlockResult]) -> None:
        baseline = [b for b in blocks if b.variant == self.spec.baseline]
        with TemporaryDirectory(prefix="draftworth-") as folder:
            self._copy_transcripts(run_id, baseline, Path(folder))
            transcripts = read_transcripts(Path(folder), tuple(baseline))
        found = outputs_of_blocks(
            baseline, transcripts, self.spec.cases, variant=self.spec.baseline
        )
        outputs = [*_first_of_each_class(found)]
        data = b"".join(map(dump_record, outputs))
        if not outputs or len(data) > OUTPUTS_LIMIT_BYTES:
            raise DraftworthError(
                f"{len(outputs)} outputs of {len(data):,} bytes, allowed: one or more, and at most "
                f"{OUTPUTS_LIMIT_BYTES:,} bytes"
            )
        self.store.write(f"{run_id}/{OUTPUTS_FILE}", data)
        self.log(
            f"{len(outputs)} of the baseline's {len(found)} outputs are there for the drafts to "
            f"read, at most {MOST_OUTPUTS_A_CLASS} of a class"
        )

    def _copy_transcripts(self, run_id: str, blocks: Iterable[BlockResult], folder: Path) -> None:
        """Those that are written; one that could not be yet has no outputs."""
        (folder / BLOCKS_FOLDER).mkdir()

        def copy(block: BlockResult) -> None:
            name = f"{BLOCKS_FOLDER}/{block.stem}{TRANSCRIPT_SUFFIX}"
            with suppress(SinkError):
                data = self.store.read(f"{run_id}/{name}", limit_bytes=FILE_LIMIT_BYTES)
                (folder / name).write_bytes(data)

        with ThreadPoolExecutor(_PARALLEL_FILES) as pool:
            list(pool.map(copy, blocks))


def _first_of_each_class(outputs: Iterable[Output]) -> Iterator[Output]:
    """Of every case in turn, the first to be measured first."""
    places = attrgetter("prompt_class"), attrgetter("case")
    by_place = sorted(outputs, key=lambda output: tuple(part(output) for part in places))
    for _, of_class in groupby(by_place, key=places[0]):
        cases = [[*of_case] for _, of_case in groupby(of_class, key=places[1])]
        turns = chain.from_iterable(zip_longest(*cases))
        yield from islice(filter(None, turns), MOST_OUTPUTS_A_CLASS)
