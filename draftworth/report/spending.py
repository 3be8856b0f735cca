"""Shows how a run's time and money were spent, and what interruptions cost."""

from datetime import UTC, datetime

from draftworth.analysis.costs import run_parts, total
from draftworth.errors import counted
from draftworth.records.results import Interruption, RunResult, ServerStart
from draftworth.records.servers import SelfTest
from draftworth.report import words
from draftworth.report.document import Section, table
from draftworth.report.words import ABOUT, MISSING

PART_NAMES = {
    "measuring": "measuring (with warm-ups)",
    "waiting": "waiting for servers (image pull, load, compile)",
    "lost": "lost to interruptions",
    "idle": "idle between blocks",
}

# What a server's self-test measured: headings of the last columns of the self-tests' table.
_MEASURED = ("nrt_init s", "read MiB/s", "free memory GiB", "free disk GiB", "self-test s")


def spending_section(run: RunResult) -> Section:
    """Return the section on what a run's time and money were spent on.

    It also lists the run's interruptions, the starts of its servers, and the servers' devices.
    """
    parts = run_parts(run)
    everything = total(parts)
    paid = ""
    if run.price:
        hourly = f"{run.price.usd_per_node_hour:.2f} USD per hour"
        servers = "its servers" if run.of_own_servers else counted(run.price.nodes, "node")
        paid = f" on {servers} at {hourly}: {everything.usd:.2f} USD"
    sentences = [f"The run took {everything.seconds / 60:.1f} min{paid}."]
    if run.interruptions:
        lost = "nothing of what was lost is in any figure"
        sentences.append(f"Interrupted {interruption_words(run)}; {lost}.")
    if run.price:
        sentences.append(ABOUT["costs"])
    rows = (
        (
            PART_NAMES.get(part.name, part.name),
            words.number(part.seconds / 60),
            words.share(part.seconds / everything.seconds if everything.seconds else None),
            words.number(part.usd, digits=2),
        )
        for part in (*parts, everything)
    )
    return Section(
        title="Time and cost of the run",
        paragraphs=tuple(sentences),
        tables=(
            *table(
                ("the run's time went into", "minutes", "share", "USD"),
                rows,
                names=1,
                title="Where the time went",
            ),
            *table(
                ("interrupted", "what was lost", "blocks", "why", "minutes lost"),
                (_interruption_cells(interruption) for interruption in run.interruptions),
                names=4,
                title="Interruptions",
            ),
            *table(
                ("server of", "start min", "graphs", "compiling min", "weights s", "weights GiB"),
                (_start_cells(name, start) for name, start in run.server_starts.items()),
                names=1,
                title="Starts of the servers",
            ),
            *table(
                ("devices of", "/dev/neuron", "driver", "runtime", "cores", *_MEASURED),
                (_test_cells(name, test) for name, test in run.self_tests.items()),
                names=4,
                title="Self-tests of the devices",
            ),
        ),
    )


def _start_cells(variant: str, start: ServerStart) -> tuple[str, ...]:
    startup, compiling = (s and s / 60 for s in (start.startup_s, start.compilation_s))
    gib = start.load_bytes and start.load_bytes / 2**30
    graphs = words.number(start.graphs, digits=0)
    weights = words.number(start.load_s), words.number(gib)
    return variant, words.number(startup), graphs, words.number(compiling), *weights


def _test_cells(server: str, test: SelfTest) -> tuple[str, ...]:
    devices = " ".join(map(str, test.devices))
    measured = (test.init_s, test.read_mib_per_s, test.memory_gib, test.disk_gib, test.seconds)
    return (
        *(server, devices or MISSING, test.driver or MISSING, test.runtime or MISSING),
        words.number(test.logical_cores, digits=0),
        *map(words.number, measured),
    )


def interruption_words(run: RunResult) -> str:
    """Say how often a run was interrupted: `3 times (servers 2, load generator 1)`, or `none`."""
    kinds = [interruption.kind for interruption in run.interruptions]
    if not kinds:
        return "none"
    times = "once" if len(kinds) == 1 else f"{len(kinds)} times"
    return f"{times} ({', '.join(f'{k} {kinds.count(k)}' for k in dict.fromkeys(kinds))})"


def _interruption_cells(interruption: Interruption) -> tuple[str, ...]:
    moment = datetime.fromtimestamp(interruption.at_unix_s, UTC)
    return (
        f"{moment:%Y-%m-%d %H:%M:%S} UTC",
        interruption.kind,
        ", ".join(interruption.blocks) or MISSING,
        interruption.reason,
        words.number(interruption.lost_s / 60),
    )
