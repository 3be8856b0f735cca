"""What a canary found."""

from draftworth.records.codec import dump_record, load_record
from draftworth.records.deployment import CanaryReport, canary_key


def test_a_report_reads_back_as_it_was_written() -> None:
    report = CanaryReport(
        job_name="llmperf-q-1a2b3c4d",
        variant="k7",
        ok=False,
        text="the mounted target has no config.json",
        last_lines=("canary: /models/target is empty",),
        reported_at_unix_s=1_790_000_000.5,
    )
    assert load_record(CanaryReport, dump_record(report)) == report


def test_each_job_and_variant_has_a_key_of_its_own() -> None:
    assert canary_key("llmperf-q-1a2b3c4d", "k7") == "control/canary/llmperf-q-1a2b3c4d/k7.json"
