"""Runs a command and says how much CPU time it takes, as a multiple of a reference loop.

    python -m tests.cost COMMAND...

The multiple hardly depends on the machine. The loop is written as the first program that anybody
writes: it stands outside a function, as a program of its own.
"""

import resource
import subprocess
import sys

LOOP = """
total = 0
for number in range(20_000_000):
    total += number
"""
# The tests keep two processors busy, and a processor is slower beside one that is busy.
LOOPS_AT_A_TIME = 2


def main() -> int:
    """Run the command, print its cost, and return its exit code."""
    before = loop_cpu_seconds()
    begin = cpu_seconds_of_children()
    exit_code = subprocess.run(sys.argv[1:], check=False).returncode
    spent = cpu_seconds_of_children() - begin
    loop = (before + loop_cpu_seconds()) / 2
    sys.stdout.write(
        f"The tests took {spent:.0f} CPU seconds, the reference loop {loop:.2f}: "
        f"a cost of {spent / loop:.0f}.\n"
    )
    return exit_code


def loop_cpu_seconds() -> float:
    """Return the CPU seconds of one reference loop at this moment."""
    begin = cpu_seconds_of_children()
    loops = [subprocess.Popen([sys.executable, "-c", LOOP]) for _ in range(LOOPS_AT_A_TIME)]
    for loop in loops:
        loop.wait()
    return (cpu_seconds_of_children() - begin) / LOOPS_AT_A_TIME


def cpu_seconds_of_children() -> float:
    """Return the CPU seconds of the child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main())
