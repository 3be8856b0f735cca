"""The self-test with a real library, processes and files, and each of its failures."""

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from draftworth.records.checkpoints import READY_MARKER, StoredFile
from draftworth.records.codec import dump_record
from draftworth.records.servers import LOAD_LIMIT_MINUTES, SELF_TEST_LIMIT_MINUTES, SelfTest
from draftworth.untrusted import MIB
from pods.compiled_graphs import self_test
from pods.compiled_graphs.self_test import READS_AT_ONCE, SelfTester
from tests.lambdas.capacity_controller.plans import TARGET, make_ready
from tests.support.neuron import FITTING_DRIVER, RUNTIME, compiled, put_node

DEVICES = 8
NEW_DRIVER = "2.29.0.0"


Examine = Callable[..., tuple[SelfTest, str]]


@pytest.fixture
def examine(tmp_path: Path, target: Path, monkeypatch: pytest.MonkeyPatch) -> Examine:
    """Run a pod's self-test on a node; return its record and its log."""
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "2")

    def on_node(**node: Any) -> tuple[SelfTest, str]:
        compiled("neuron.c")
        root = put_node(tmp_path / "node", **{"devices": DEVICES, **node})
        monkeypatch.setenv("LD_LIBRARY_PATH", str(root / "lib"))
        (tmp_path / "scratch").mkdir(exist_ok=True)
        lines: list[str] = []
        tester = SelfTester(
            devices=DEVICES,
            checkpoint=target,
            scratch=tmp_path / "scratch",
            root=root,
            say=lines.append,
        )
        return tester.run(), "\n".join(lines)

    return on_node


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """A checkpoint without the stager's marker."""
    folder = tmp_path / "target"
    folder.mkdir()
    (folder / "model-1.safetensors").write_bytes(b"1" * MIB)
    (folder / "config.json").write_bytes(b"{}")
    return folder


def put_marker(target: Path, size_bytes: int) -> None:
    file = StoredFile(path="model-1.safetensors", size_bytes=size_bytes, sha256="0" * 64)
    ready = replace(make_ready(TARGET), files=(file,))
    (target / READY_MARKER).write_bytes(dump_record(ready))


def test_a_good_slot_reports_what_it_has(examine: Examine, target: Path) -> None:
    put_marker(target, MIB)
    test, log = examine(first=8)
    assert (test.driver, test.runtime, test.failed) == (FITTING_DRIVER, RUNTIME, "")
    assert (test.devices, test.logical_cores) == (tuple(range(8, 16)), 32)
    assert min(test.init_s or 0, test.read_mib_per_s or 0, test.disk_gib or 0) > 0
    for words in (
        f"driver {FITTING_DRIVER}, runtime {RUNTIME}",
        "8 Neuron device(s), /dev/neuron{8,9,10,11,12,13,14,15}",
        "logical cores: 32",
        "free memory: not known",
        "passed after",
    ):
        assert words in log


def test_a_runtime_can_report_its_own_version(examine: Examine) -> None:
    test, _ = examine(driver=NEW_DRIVER, runtime="")
    assert (test.runtime, test.failed) == ("2.33.10.0", "")


@pytest.mark.parametrize(
    ("node", "environment", "reason"),
    [
        ({"devices": 0, "driver": ""}, {}, "no Neuron device, and its claim is for 8; the node ha"),
        ({"devices": 4}, {}, r"4 Neuron device\(s\), .*0,1,2,3}, and .* has driver 2.28.0.0"),
        ({"driver": NEW_DRIVER}, {}, "Neuron driver 2.29.0.0 needs Neuron runtime 2.33 or later"),
        ({}, {"STAND_IN_NRT_INIT": "4"}, "nrt_init returned 4, where 0 is success"),
        ({}, {"STAND_IN_NRT_INIT": "crash"}, "nrt_init ended its process with exit code -6"),
        ({}, {"STAND_IN_NRT_INIT": "hang"}, "nrt_init did not return within 1 s"),
    ],
)
def test_a_device_that_cannot_work_fails(
    node: dict[str, Any],
    environment: dict[str, str],
    reason: str,
    examine: Examine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if "hang" in environment.values():
        monkeypatch.setattr(self_test, "INIT_SECONDS", 1.0)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    test, log = examine(**node)
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(test.failed)
    assert "FAILED after" in log
    assert test.read_mib_per_s is None, "it ends at the first that fails"
    for value in {*environment.values()} - {"hang"}:
        assert f"NRT: stand-in: {value}" in log


def test_unknown_values_fail_nothing(examine: Examine, tmp_path: Path) -> None:
    """The driver has no version, and the runtime's file is no library."""
    (tmp_path / "node" / "lib").mkdir(parents=True)
    (tmp_path / "node" / "lib" / "libnrt.so.1").write_bytes(b"")
    test, log = examine(driver="", runtime="")
    assert (test.driver, test.runtime, test.init_s, test.failed) == ("", "", None, "")
    assert "library is not found" in log


@pytest.mark.parametrize("times", [1.0, 1e9])
def test_only_a_mount_too_slow_to_start_fails(times: float, examine: Examine, target: Path) -> None:
    size = MIB * READS_AT_ONCE * LOAD_LIMIT_MINUTES * times
    put_marker(target, int(size))
    test, _ = examine()
    assert ("even 4 reads at once need" in test.failed) == (times > 1)
    assert test.read_mib_per_s


def test_the_limits_exceed_driver_and_mount_recovery() -> None:
    """Neuron's driver waits 480 s for a reset, and the S3 client 30 s for a dead connection."""
    assert self_test.INIT_SECONDS > 480
    assert self_test.READ_SECONDS >= 2 * 30
    limits = (self_test.INIT_SECONDS, self_test.READ_SECONDS, 3 * self_test.GRACE_SECONDS)
    assert sum(limits) <= 60 * SELF_TEST_LIMIT_MINUTES


def test_a_read_that_hangs_is_not_waited_for(
    examine: Examine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(self_test, "READ_SECONDS", 1 - self_test.GRACE_SECONDS)
    hang = threading.Event()
    monkeypatch.setattr(self_test, "_file_sizes", lambda _: hang.wait())
    test, _ = examine()
    hang.set()
    assert "`read checkpoint` has not ended" in test.failed


def test_a_mount_that_is_gone_fails(examine: Examine, target: Path) -> None:
    put_marker(target, MIB)
    (target / "model-1.safetensors").unlink()
    test, _ = examine()
    assert "target: cannot be read: [Errno 2]" in test.failed
    (target / READY_MARKER).unlink()
    test, _ = examine()
    assert "target: cannot be read: it has no _READY.json and no file *.safe" in test.failed
