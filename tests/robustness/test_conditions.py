"""Conditions whose locks Ctrl-C leaves as the block around them expects, whenever it comes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from anabranch.core import conditions

ROOT = Path(__file__).resolve().parents[2]
FLOOD = """
import random, signal, sys, threading, time
from anabranch.core import conditions

signal.signal(signal.SIGINT, signal.default_int_handler)
main, over, armed = threading.main_thread().ident, [], []

def interrupt():
    moments = random.Random(1)
    while not over:
        time.sleep(moments.uniform(0.0, 0.0004))
        if armed:
            armed.clear()
            signal.pthread_kill(main, signal.SIGINT)

def notify(condition):
    while not over:
        with condition:
            condition.notify_all()
        time.sleep(0.0001)

counts = [0, 0]
made = [conditions.Condition(), conditions.Condition(threading.Lock())]
if sys.argv[1] == "wait":
    for condition in made:
        threading.Thread(target=notify, args=[condition]).start()
threading.Thread(target=interrupt).start()
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end or (min(counts) <= 20 and time.monotonic() < end + 60):  # a loaded machine takes longer
    for kind, condition in enumerate(made):
        try:
            armed.append(1)
            while True:
                with condition:
                    if sys.argv[1] == "wait":
                        condition.wait(0.0002)
        except KeyboardInterrupt:
            counts[kind] += 1
        taken = threading.Thread(target=lambda: condition.__enter__() and condition.__exit__(None, None, None))
        taken.daemon = True
        taken.start()
        taken.join(30)
        if taken.is_alive():
            print(kind, "is locked after", counts)
            over.append(1)
            sys.exit(1)
over.append(1)
print(min(counts) > 20)
"""


@pytest.mark.multiprocess
@pytest.mark.parametrize("way", ["enter", "wait"])
@pytest.mark.parametrize("seconds", ["1.5", pytest.param("6", marks=pytest.mark.slow)])
def test_interrupts_leave_a_lock_free(way, seconds):
    run = subprocess.run(
        [sys.executable, "-c", FLOOD, way, seconds],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=100,
        check=False,
    )
    assert (run.stdout, run.returncode) == ("True\n", 0), run.stderr


@pytest.mark.parametrize("lock", [threading.Lock, threading.RLock])
def test_waits_end_by_notice_and_by_time(lock):
    condition = conditions.Condition(lock())
    with condition:
        assert condition.wait(0.01) is False

    def notify():
        with condition:
            condition.notify()

    with condition:
        thread = threading.Thread(target=notify)
        thread.start()
        assert condition.wait(60) is True
    thread.join()
    assert not condition._waiters
    with pytest.raises(RuntimeError, match="whose lock is not held"):
        condition.wait()


def test_events():
    event = conditions.Event()
    assert event.wait(0.01) is False
    threading.Timer(0.05, event.set).start()
    assert event.wait(60) is True


def test_conditions_of_the_package_are_these():
    made = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in (ROOT / "anabranch").rglob("*.py")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if "= threading.Condition(" in line or "= threading.Event(" in line
    ]
    assert made == [], "conditions.Condition() and conditions.Event(): Ctrl-C leaves threading's locked"
