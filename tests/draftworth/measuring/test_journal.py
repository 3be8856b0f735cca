"""The journal: for what the time of a run's pods was spent, and the folder with its entries."""

from dataclasses import replace
from pathlib import Path

import pytest

from draftworth.measuring import journal
from draftworth.measuring.result_files import FolderSink, SinkError
from draftworth.measuring.run_specification import job_run_id
from draftworth.records.codec import RecordError, dump_record, load_record
from draftworth.records.results import ServerStart
from tests.support.blocks import make_block


def entry(
    name: str, start: float, end: float, *blocks: str, reason: str = "", number: int = -1
) -> journal.Entry:
    """Return an entry; `name` is the pod's number and the entry's kind, such as `1 measured`.

    number: the entry's number in its pod; negative: `start` is its number.
    """
    attempt, kind = name.split()
    kinds: dict[str, journal.EntryKind] = {
        "started": "started",
        "waited": "waited",
        "measured": "measured",
        "lost": "lost",
        "ended": "ended",
    }
    return journal.Entry(
        attempt=int(attempt),
        number=number if number >= 0 else int(start),
        kind=kinds[kind],
        started_at_unix_s=start,
        ended_at_unix_s=end,
        blocks=blocks,
        reason=reason,
    )


ONE_POD = (
    entry("1 started", 0, 0),
    entry("1 waited", 1, 61),
    entry("1 measured", 62, 72, "0001-a"),
    entry("1 lost", 75, 80, "0002-b", reason="gone"),
    entry("1 waited", 81, 101),
    entry("1 measured", 102, 112, "0003-b"),
)


def test_a_runs_parts_add_up_to_its_time() -> None:
    time = journal.account(ONE_POD, ended_at_unix_s=120)
    assert (time.measuring_s, time.waiting_s, time.lost_s) == (20, 80, 5)
    assert time.idle_s == pytest.approx(120 - 20 - 80 - 5)


def test_an_interruption_by_servers_has_losses_and_reason() -> None:
    (lost,) = journal.interruptions(ONE_POD)
    assert (lost.kind, lost.at_unix_s, lost.lost_s) == ("servers", 80, 5)
    assert (lost.blocks, lost.reason) == (("0002-b",), "gone")
    assert journal.times_lost(ONE_POD, "b") == 1
    assert journal.times_lost(ONE_POD, "a") == 0


def test_a_pod_without_end_lost_its_last_work() -> None:
    entries = (*ONE_POD, entry("2 started", 200, 200, number=0), entry("2 measured", 210, 220))
    pod = journal.interruptions(entries)[-1]
    assert (pod.kind, pod.at_unix_s, pod.lost_s) == ("load generator", 112, 88)
    assert pod.reason == journal.UNRECORDED_END
    time = journal.account(entries, ended_at_unix_s=230)
    assert time.lost_s == 5 + 88
    assert time.measuring_s + time.waiting_s + time.lost_s + time.idle_s == pytest.approx(230)


def test_a_terminated_pods_cut_block_is_lost() -> None:
    """From second 112 until its end at 150, the first pod measured a block that was cut off."""
    ended = entry("1 ended", 150, 150, reason="drained")
    entries = (*ONE_POD, ended, entry("2 started", 200, 200, number=0))
    pod = journal.interruptions(entries)[-1]
    assert (pod.at_unix_s, pod.lost_s, pod.reason) == (150, 88, "drained")


def test_a_clock_set_back_makes_no_negative_time() -> None:
    entries = (entry("1 started", 100, 100), entry("1 measured", 110, 90), entry("2 started", 5, 5))
    time = journal.account(entries, ended_at_unix_s=50)
    assert min(time.measuring_s, time.waiting_s, time.lost_s, time.idle_s) >= 0


@pytest.mark.parametrize("hours", [0, -5])
def test_a_slow_clock_of_a_pod_shortens_nothing(hours: int) -> None:
    """The first pod runs for 30 s, the second for 20 s, after a gap of 100 s.

    If the second pod's clock is 5 hours behind, the gap looks negative and counts as 0.
    """
    behind = hours * 3600
    entries = (
        entry("1 started", 1000, 1000, number=0),
        entry("1 measured", 1000, 1030, number=1),
        entry("2 started", 1130 + behind, 1130 + behind, number=0),
        entry("2 measured", 1130 + behind, 1140 + behind, number=1),
    )
    gap = 0 if hours else 100

    assert journal.elapsed_seconds(entries, until_unix_s=1150 + behind) == 30 + gap + 20
    time = journal.account(entries, ended_at_unix_s=1150 + behind)
    assert (time.measuring_s, time.lost_s, time.idle_s) == (40, gap, 10)
    assert all(i.lost_s >= 0 for i in journal.interruptions(entries))


def test_an_entry_survives_the_round_trip() -> None:
    one = ONE_POD[3]
    assert load_record(journal.Entry, dump_record(one)) == one
    assert one.name == "journal/0001-0075-lost.json"
    with pytest.raises(RecordError, match="schema"):
        load_record(journal.Entry, dump_record(one).replace(b"journal/2", b"journal/9"))


def test_a_block_without_its_entry_is_measured_time(tmp_path: object) -> None:
    sink = FolderSink(tmp_path)  # type: ignore[arg-type]
    block = make_block(started_at_unix_s=50.0, ended_at_unix_s=60.0)
    sink.write("r/journal/0001-0000-started.json", dump_record(entry("1 started", 0, 0)))
    sink.write(f"r/blocks/{block.stem}.result.json", dump_record(block))

    history = journal.read_history(sink, "r")

    assert journal.account(history.entries, ended_at_unix_s=60).measuring_s == 10
    assert history.attempt == 2


def test_numbers_continue_after_every_name_in_use() -> None:
    taken = {
        "blocks/0003-x.result.json",
        "interrupted/0007-x.block.json",
        "journal/0009-0000-started.json",
        "run.json",
    }
    assert journal.History(names=frozenset(taken)).next_block == 8
    assert journal.History().next_block == 1


def test_a_run_belongs_to_its_pods_job() -> None:
    inside = {
        "DRAFTWORTH_JOB_NAME": "llmperf-qwen3-32b-0a1b2c3d",
        "DRAFTWORTH_JOB_UID": "6b1f5a8e-1111-2222-3333-444455556666",
    }
    assert job_run_id(inside) == "llmperf-qwen3-32b-0a1b2c3d-6b1f5a8e"
    assert job_run_id({}) is None
    assert job_run_id({**inside, "DRAFTWORTH_JOB_UID": ""}) is None


def test_a_servers_last_start_counts_in_all_pods() -> None:
    first, second = ServerStart(startup_s=900.0), ServerStart(startup_s=60.0)
    entries = [
        replace(entry("1 measured", 1, 2), starts={"baseline": first, "k7": first}),
        replace(entry("2 measured", 3, 4), starts={"k7": second}),
    ]
    assert journal.server_starts(entries) == {"baseline": first, "k7": second}


def test_sink_lists_whole_files_of_its_folder_only(tmp_path: Path) -> None:
    sink = FolderSink(tmp_path)
    sink.write("run/blocks/b.json", b"2")
    sink.write("run/a.json", b"1")
    sink.write("run-2/a.json", b"other")
    (tmp_path / "run" / ".c.json.partial").write_bytes(b"ha")

    assert sink.names("run") == ["run/a.json", "run/blocks/b.json"]
    assert sink.read("run/blocks/b.json") == b"2"


def test_a_name_that_is_taken_is_never_overwritten(tmp_path: Path) -> None:
    sink = FolderSink(tmp_path)
    sink.write("run/a.json", b"1")

    with pytest.raises(SinkError, match="File exists"):
        sink.write("run/a.json", b"2")

    assert (tmp_path / "run" / "a.json").read_bytes() == b"1"
    assert [p.name for p in (tmp_path / "run").iterdir()] == ["a.json"]


def test_a_missing_file_is_reported_by_its_path(tmp_path: Path) -> None:
    assert FolderSink(tmp_path / "nowhere").names("run") == []
    with pytest.raises(SinkError, match=r"a\.json: cannot be read: No such file"):
        FolderSink(tmp_path).read("a.json")
