"""Assumptions in round numbers, with which a test can compute a plan's time line by hand."""

from draftworth.planning.assumptions import assumption_data, replaced
from tests.support.experiments import with_rounds

# One GiB per second, in Gbit/s.
GIB_PER_SECOND = 2**30 * 8 / 1e9


QWEN = with_rounds()
BY_HAND = replaced(
    assumption_data().assumptions,
    [
        "deploy_minutes=30",
        "redeploy_minutes=5",
        "stager_start_minutes=1",
        f"hub_gbit_per_s={GIB_PER_SECOND}",
        "scale_up_minutes=1",
        "node_start_minutes=5",
        "image_pull_minutes=4",
        "self_test_minutes=0",
        "compile_minutes=30",
        f"load_gbit_per_s={GIB_PER_SECOND}",
        "warm_up_minutes=1",
        "baseline_ms_per_token=50",
        "speculative_ms_per_token=25",
        "first_token_seconds=0",
        "block_overhead_seconds=0",
        "teardown_minutes=5",
        "budget_delay_minutes=0",
    ],
)
