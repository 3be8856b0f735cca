"""What is measured is not instrumented: the CloudWatch chart's own logic with our settings.

The chart is a copy of the part that decides; the add-on of EKS has its logic in the same chart.
"""

import json
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from draftworth.experiment.add_on_settings import ADD_ON_SETTINGS
from tests.stacks.synthesis import synthesis
from tests.support.helm import RUNS_HERE, unpack_helm

pytestmark = [
    pytest.mark.synth,
    pytest.mark.skipif(not RUNS_HERE, reason="the layer's Helm is for Linux on x86_64"),
]

CHART = Path(__file__).with_name("cloudwatch_chart")
SETTINGS = ADD_ON_SETTINGS["amazon-cloudwatch-observability"]
# A configuration of the agent that collects Application Signals.
SIGNALS: Mapping[str, Any] = {
    "agent": {"config": {"logs": {"metrics_collected": {"application_signals": {}}}}}
}
OFF = {"monitorAllServices": False}

Instruments = Callable[[Mapping[str, Any]], bool]


@pytest.fixture(scope="module")
def instruments(tmp_path_factory: pytest.TempPathFactory) -> Instruments:
    """Return a function that says whether the chart instruments all pods with these values."""
    folder = tmp_path_factory.mktemp("helm")
    helm = unpack_helm(synthesis().folder, folder)
    values = folder / "values.json"

    def rendered(settings: Mapping[str, Any]) -> bool:
        values.write_text(json.dumps({"region": "us-east-2", **settings}))
        command = [helm, "template", "release", CHART, "--values", values]
        result = subprocess.run(
            [*map(str, command)],
            env={"HOME": str(folder)},
            capture_output=True,
            text=True,
            check=True,
        )
        _, text = result.stdout.split("auto-monitor-config: ")
        every_service: bool = json.loads(json.loads(text))["monitorAllServices"]
        return every_service

    return rendered


def test_our_settings_instrument_no_pod(instruments: Instruments) -> None:
    assert not instruments(SETTINGS)


@pytest.mark.parametrize("agent", [{}, SIGNALS], ids=["default", "signals"])
def test_other_agent_configurations_instrument_no_pod(
    agent: Mapping[str, Any], instruments: Instruments
) -> None:
    """The keys hold by themselves, and not because our agent's configuration has no signals."""
    keys = {key: value for key, value in SETTINGS.items() if key != "agent"}
    assert instruments(agent)
    assert not instruments({**keys, **agent})


@pytest.mark.parametrize("key", ["applicationSignals", "manager"])
def test_each_key_alone_is_enough(key: str, instruments: Instruments) -> None:
    assert not instruments({key: SETTINGS[key], **SIGNALS})


@pytest.mark.parametrize(
    "misspelled",
    [{"applicationSignal": {"enabled": False}}, {"manager": {"autoMonitor": OFF}}],
    ids=["top", "nested"],
)
def test_a_key_of_another_name_turns_nothing_off(
    misspelled: Mapping[str, Any], instruments: Instruments
) -> None:
    assert instruments(misspelled)
