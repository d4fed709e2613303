"""Races, interrupts, failing devices, forks and odd feeds: what is left behind is always a state between steps."""

from __future__ import annotations

import gc
import os
import signal
import textwrap
import threading
import weakref

import numpy as np
import pytest
import warm_python

import anabranch as tf
import anabranch.session
from anabranch.core.graph.build import build
from anabranch.xla import program
from anabranch.xla.executables import Executable
from tests.running_steps import until


def compiled(**options):
    return tf.Session(config=tf.SessionOptions(tier="compiled", **options))


def program_items(session):
    return [item for plan, _ in session._worker._plans.values() for segment in plan.segments for item in segment.items]


def test_an_op_with_one_fed_output_still_makes_the_others(session):
    first, second = tf.split(tf.constant([1.0, 2.0]), 2)
    got = session.run([first + second, first, second], {first: [10.0]})
    assert [value.item() for value in got] == [12.0, 10.0, 2.0]


def test_a_write_whose_output_is_fed_happens(session):
    v = tf.Variable(1.0)
    session.run(v.initializer)
    write = v.assign_add(5.0)
    later = v.assign_add(2.0)
    with tf.control_dependencies([write]):
        seen = tf.identity(later) + 0.0
    assert session.run([write.op, seen], {write: 100.0})[1] == 8.0


def test_two_names_of_one_variable_are_one_variable(session):
    a = build("VariableV2", shape=(), dtype=tf.float32, shared_name="w", name="a")
    b = build("VariableV2", shape=(), dtype=tf.float32, shared_name="w", name="b")
    session.run(tf.assign(a, 1.0).op)
    add = tf.assign_add(a, 1.0)
    for expected in (2.0, 3.0, 4.0):
        assert session.run([b, add.op, a])[::2] == [expected, expected]


def test_two_variables_that_were_assigned_one_value_do_not_share_a_buffer(session):
    x = tf.placeholder(tf.float32, [5000])
    a, b = tf.Variable(np.zeros(5000, np.float32)), tf.Variable(np.zeros(5000, np.float32))
    value = x * 2.0
    both, add = tf.group(a.assign(value), b.assign(value)), a.assign_add(value)
    session.run(tf.global_variables_initializer())
    for _ in range(2):
        session.run(both, {x: np.ones(5000)})
    for _ in range(3):
        session.run(add.op, {x: np.ones(5000)})
    assert (session.run(a)[0], session.run(b)[0]) == (8.0, 2.0)


def test_the_first_runs_of_a_plan_may_come_together(tier):
    for _ in range(5):
        with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier=tier)) as session:
            v = tf.Variable(0.0)
            session.run(v.initializer)
            add = v.assign_add(1.0)
            out = add + 0.0
            barrier = threading.Barrier(4)
            found = []

            def work(session=session, out=out, barrier=barrier, found=found):
                barrier.wait(60)
                found.append(float(session.run(out)))

            threads = [threading.Thread(target=work) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
            assert sorted(found) == [1.0, 2.0, 3.0, 4.0]


def test_plans_may_be_cut_by_several_threads_at_once():
    with compiled() as session:
        x, n = tf.placeholder(tf.float32, [None]), tf.placeholder(tf.int32, [])
        y = tf.reduce_sum(tf.reshape(x, tf.stack([n + 0, -1])), 0)
        barrier = threading.Barrier(4)
        found = []

        def work():
            barrier.wait(60)
            found.append(session.run(y, {x: np.ones(6), n: 3}).tolist())

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert found == [[3.0, 3.0]] * 4


@pytest.mark.parametrize("isolation", ["serializable", "read_committed"])
def test_readers_and_writers_of_other_variables_survive_donation(tier, isolation):
    """Steps read what others replace, and give away, at the same time: nobody meets a buffer that is gone."""
    with tf.Session(config=tf.SessionOptions(tier=tier, isolation=isolation)) as session:
        a = tf.Variable(np.zeros(3000, np.float32))
        b = tf.Variable(np.zeros(3000, np.float32))
        total = tf.Variable(np.zeros(3000, np.float32))
        session.run(tf.global_variables_initializer())
        both = tf.group(a.assign_add(np.ones(3000, np.float32)), b.assign_add(np.ones(3000, np.float32)))
        differ = tf.reduce_max(tf.abs(a.value() - b.value()))
        collect = total.assign_add(a.value() - b.value())
        problems = []

        def work(fetch):
            try:
                for _ in range(80):
                    got = session.run(fetch)
                    if got is not None and np.max(got) != 0:
                        problems.append(got)
            except Exception as problem:
                problems.append(problem)

        threads = [threading.Thread(target=work, args=(fetch,)) for fetch in (both, both, differ, collect.op, differ)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(100)
        assert not problems
        assert session.run(a)[0] == 160.0


class _Broken:
    """An executable that destroys what it is given and fails, as a device without memory does."""

    def __init__(self, problem):
        self.problem = problem

    def __call__(self, donated, arguments, constants, rng):
        for value in donated:
            value.delete()
        raise self.problem


class XlaRuntimeError(RuntimeError):
    """Has the name by which failures of the device are known."""


@pytest.mark.parametrize("recoverable", [False, True])
def test_a_failure_in_the_device_loses_only_what_was_given_away(recoverable):
    with compiled(recoverable=recoverable) as session:
        v, other = tf.Variable(np.ones(4, np.float32), name="mine"), tf.Variable(3.0)
        session.run(tf.global_variables_initializer())
        add = v.assign_add(np.ones(4, np.float32))
        for _ in range(3):
            session.run(add.op)
        (item,) = [item for item in program_items(session) if item.program.group.writes.get(add.op)]
        broken = Executable(_Broken(XlaRuntimeError("RESOURCE_EXHAUSTED: out of memory")), item.cached[1].facts)
        item.cached = (item.cached[0], broken)
        for _, runner in session._worker._plans.values():
            runner._fast = None
        with pytest.raises(tf.errors.ResourceExhaustedError, match="failed in the device"):
            session.run(add.op)
        if recoverable:
            assert session.run(v)[0] == 4.0
        else:
            with pytest.raises(tf.errors.AbortedError, match=r"'mine', whose buffer was lost(.|\n)*recoverable=True"):
                session.run(v)
        assert session.run(other) == 3.0
        session.run(v.initializer)
        assert session.run(v)[0] == 1.0


@pytest.fixture
def interrupts():
    """Ctrl-C raises KeyboardInterrupt, also where the tests run in the background, which starts programs deaf to it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.skipif(not hasattr(signal, "raise_signal"), reason="needs signals")
@pytest.mark.usefixtures("interrupts")
def test_an_interrupt_during_a_program_loses_nothing():
    """Ctrl-C while a program that owns variables runs: the step is done or not, the session lives on."""
    with compiled() as session:
        v = tf.Variable(np.zeros(4, np.float32))
        session.run(v.initializer)
        add = v.assign_add(np.ones(4, np.float32))
        for _ in range(2):  # the first run, which compiles, is on a thread of its own
            session.run(add.op)
        (item,) = [item for item in program_items(session) if item.program.group.writes.get(add.op)]
        real = item.cached[1].function

        def interrupted(*arguments):
            results = real(*arguments)
            signal.raise_signal(signal.SIGINT)
            return results

        for _, runner in session._worker._plans.values():
            runner._fast = None
        item.cached = (item.cached[0], Executable(interrupted, item.cached[1].facts))
        before = signal.getsignal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt, match=r"^$"):
            session.run(add.op)
        assert signal.getsignal(signal.SIGINT) is before
        assert session.run(v)[0] == 3.0


@pytest.mark.skipif(not hasattr(signal, "raise_signal"), reason="needs signals")
@pytest.mark.usefixtures("interrupts")
def test_handlers_of_others_stay_in_force():
    """Between steps SIGINT goes to whoever asked for it, and the last session leaves what it found."""
    seen = []
    with compiled() as session:
        v = tf.Variable(np.zeros(4, np.float32))
        session.run(v.initializer)
        add = v.assign_add(np.ones(4, np.float32)).op
        session.run(add)
        with pytest.raises(KeyboardInterrupt, match=r"^$"):
            signal.raise_signal(signal.SIGINT)
        replaced = signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
        session.run(add)
        signal.raise_signal(signal.SIGINT)
        assert seen == [signal.SIGINT]
        signal.signal(signal.SIGINT, replaced)
        session.run(add)
        with pytest.raises(KeyboardInterrupt, match=r"^$"):
            signal.raise_signal(signal.SIGINT)
        assert session.run(v)[0] == 3.0
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        session.run(add)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        signal.signal(signal.SIGINT, signal.default_int_handler)
        session.run(add)
    left = [session for session in anabranch.session._sessions if not session._closed]
    assert left or signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_values_beyond_the_limit_of_variants_are_interpreted_and_known_ones_are_not():
    with compiled() as session:
        x, n = tf.placeholder(tf.float32, [None]), tf.placeholder(tf.int32, [])
        y = tf.reduce_sum(tf.reshape(x, tf.stack([n + 0, -1])) * 2.0, 1)
        for size in [size for size in range(1, 36) if 840 % size == 0]:  # 18 of them
            assert session.run(y, {x: np.ones(840), n: size}).shape == (size,)
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"[Rr]eshape"):
            session.run(y, {x: np.ones(840), n: 11 * 13})
        assert session.run(y, {x: np.ones(840), n: 2}).tolist() == [840.0, 840.0]


def test_what_cannot_be_traced_is_traced_once(monkeypatch):
    """Shapes that do not fit show while tracing; the interpreter says so, and further runs do not trace again."""
    traced = []
    lowered = program.Program._lowered

    def counting(self, *arguments, **options):
        traced.append(len(self.group.ops))
        return lowered(self, *arguments, **options)

    monkeypatch.setattr(program.Program, "_lowered", counting)
    with compiled() as session:
        x, y = tf.placeholder(tf.float32, [None, None]), tf.placeholder(tf.float32, [None, None])
        product = tf.matmul(x, y) + 1.0
        for _ in range(3):
            with pytest.raises(tf.errors.InvalidArgumentError, match="MatMul"):
                session.run(product, {x: np.ones((2, 3)), y: np.ones((2, 3))})
        assert len(traced) == 1
        assert session.run(product, {x: np.ones((2, 3)), y: np.ones((3, 2))}).shape == (2, 2)
        assert len(traced) == 2


def test_the_plan_used_last_stays():
    with compiled(plan_cache_size=3) as session:
        x = tf.placeholder(tf.float32)
        hot = x + 1.0
        others = [x * float(i) for i in range(6)]
        session.run(hot, {x: 1.0})
        first = next(iter(session._worker._plans.values()))[0]
        for other in others:
            session.run(other, {x: 1.0})
            session.run(hot, {x: 1.0})
        assert first.runs == 7
        assert len(session._worker._plans) == 3


def test_graphs_and_sessions_are_freed(tier):
    def work():
        with tf.Graph().as_default() as graph, tf.Session(config=tf.SessionOptions(tier=tier)) as session:
            v = tf.Variable(np.eye(3, dtype=np.float32))
            x = tf.placeholder(tf.float32, [3, 3])
            product = tf.matmul(x, v)
            check = tf.Assert(tf.reduce_sum(product) < 100.0, [product])
            session.run(v.initializer)
            for _ in range(2):
                session.run([v.assign_sub(product).op, check], {x: np.ones((3, 3))})
            with pytest.raises(tf.errors.InvalidArgumentError, match="assert"):
                session.run(check, {x: np.full((3, 3), -1e9)} | {check.inputs[0]: False})
            return weakref.ref(graph), weakref.ref(session)

    references = work()
    # The thread of a step tells that it is done before it lets go of it.
    until(lambda: gc.collect() is not None and all(reference() is None for reference in references))


def run_script(text, **environment):
    done = warm_python.run(textwrap.dedent(text), env=os.environ | environment, warnings_are="ignore")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.multiprocess
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_builds_and_interprets_but_does_not_run_programs():
    told = run_script(
        """
        import os, sys
        import anabranch as tf
        x = tf.placeholder(tf.float32)
        y = x * 2.0
        with tf.Session(config=tf.SessionOptions(tier="compiled")) as session:
            session.run(y, {x: 1.0})
            session.run(y, {x: 1.0})
            child = os.fork()
            if child == 0:
                try:
                    session.run(y, {x: 1.0})
                except tf.errors.FailedPreconditionError as problem:
                    print("refused", "spawn" in str(problem))
                try:
                    session.run(x + 5.0, {x: 1.0})
                except tf.errors.FailedPreconditionError as problem:
                    print("refused", "spawn" in str(problem))
                with tf.Session(config=tf.SessionOptions(tier="interpreted")) as other:
                    print(other.run(y + 1.0, {x: 1.0}))
                sys.stdout.flush()
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
        """
    )
    assert told.split() == ["refused", "True", "refused", "True", "3.0"]


@pytest.mark.multiprocess
def test_two_devices():
    told = run_script(
        """
        import numpy as np
        import anabranch as tf
        with tf.device("/cpu:1"):
            v = tf.Variable(np.ones(3, np.float32))
            add = v.assign_add(np.ones(3, np.float32))
        with tf.device("/cpu:0"):
            w = tf.Variable(np.zeros(3, np.float32))
            total = w.assign_add(v.value() * 2.0)
        x = tf.placeholder(tf.float32, [])
        with tf.control_dependencies([tf.Assert(x > 0, [x])]):
            checked = v.assign_add(tf.fill([3], x))
        with tf.Session(config=tf.SessionOptions(tier="compiled")) as session:
            session.run(tf.global_variables_initializer())
            for _ in range(3):
                session.run(add.op)
                session.run(total.op)
            try:
                session.run([checked.op, total.op], {x: -1.0})
            except tf.errors.InvalidArgumentError as problem:
                print("refused")
            print(session.run(v)[0], session.run(w)[0])
            print("CPU:1" in session.explain(add.op), session.run(w.assign(v.value()))[0])
            session.run([add.op, total.op])
            print(session.run(v)[0])
        """,
        XLA_FLAGS="--xla_force_host_platform_device_count=2",
    )
    assert told.split("\n") == ["refused", "4.0 18.0", "True 4.0", "5.0"]
