"""Random programs of reads, writes, checks and control edges: both tiers do what a small model of the rules says.

The model below walks the graph op by op in plain Python. It knows the rules of `docs/notes/0005-transactions.md` (order
of effects, which version a read sees, transparent reads, a failed step changes nothing) and nothing of plans.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import anabranch as tf

ROWS = 3
OWNED = {
    "Assign": lambda old, value: value.copy(),
    "AssignVariableOp": lambda old, value: value.copy(),
    "AssignAdd": lambda old, value: old + value,
    "AssignAddVariableOp": lambda old, value: old + value,
    "AssignSub": lambda old, value: old - value,
    "AssignSubVariableOp": lambda old, value: old - value,
}
SCATTER = {"ScatterAdd": True, "ScatterUpdate": False, "ResourceScatterAdd": True, "ResourceScatterUpdate": False}


class Failed(Exception):
    """A check of the model failed."""


class Model:
    """The state of a session, and what a step does to it."""

    def __init__(self):
        self.state = {}

    def run(self, fetches, feeds):
        self.feeds = feeds
        needed = set()
        stack = [f if isinstance(f, tf.Operation) else f.op for f in fetches]
        while stack:
            op = stack.pop()
            if op not in needed:
                needed.add(op)
                stack += self.parents(op)
        order = sorted(needed, key=lambda op: op._id)
        self.env, self.reach, self.chain = {}, {}, {}
        for op in order:
            reach = set()
            for parent in self.parents(op):
                reach |= self.reach.get(parent, set()) | {parent}
            self.reach[op] = reach
            self.execute(op)
        values = []
        for fetch in fetches:
            if isinstance(fetch, tf.Operation):
                values.append(None)
            elif fetch in feeds:
                values.append(feeds[fetch])
            elif fetch.dtype._is_ref_dtype:
                values.append(self.latest(self.maker(fetch)))
            else:
                values.append(self.env[fetch])
        for maker, writes in self.chain.items():
            self.state[maker] = writes[-1][1]
        return values

    def transparent(self, op):
        return op.type == "Identity" and op.inputs[0].dtype._is_ref_dtype and not op.control_inputs

    def parents(self, op):
        found = list(op.control_inputs)
        for tensor in op.inputs:
            if tensor not in self.feeds:
                source = tensor.op
                found.append(source.inputs[0].op if self.transparent(source) else source)
        return found

    def maker(self, tensor):
        op = tensor.op
        while op.type not in ("VariableV2", "VarHandleOp"):
            op = op.inputs[0].op
        return op

    def latest(self, maker):
        return self.chain[maker][-1][1] if maker in self.chain else self.state[maker]

    def read(self, maker, op):
        for writer, value in reversed(self.chain.get(maker, [])):
            if writer in self.reach[op]:
                return value
        return self.state[maker]

    def value(self, tensor, op):
        if tensor in self.feeds:
            return self.feeds[tensor]
        if self.transparent(tensor.op):
            tensor = tensor.op.inputs[0]
        if tensor.dtype._is_ref_dtype:
            return self.read(self.maker(tensor), op)
        return self.env[tensor]

    def execute(self, op):
        kind = op.type
        if kind in ("VariableV2", "VarHandleOp", "NoOp", "Placeholder"):
            return
        if kind == "Const":
            self.env[op.outputs[0]] = np.asarray(op._attrs["value"])
            return
        if kind == "ReadVariableOp":
            self.env[op.outputs[0]] = self.read(self.maker(op.inputs[0]), op)
            return
        if kind in OWNED or kind in SCATTER:
            maker = self.maker(op.inputs[0])
            old = self.latest(maker)
            operands = [self.value(tensor, op) for tensor in list(op.inputs)[1:]]
            if kind in OWNED:
                new = OWNED[kind](old, operands[0])
            else:
                new = old.copy()
                if any(not 0 <= index < ROWS for index in operands[0]):
                    raise Failed("not in \\[0, ")
                for index, update in zip(operands[0], operands[1], strict=True):
                    new[index] = new[index] + update if SCATTER[kind] else update
            self.chain.setdefault(maker, []).append((op, new))
            return
        inputs = [self.value(tensor, op) for tensor in op.inputs]
        if kind == "Assert":
            if not inputs[0]:
                raise Failed(inputs[1].item().decode())
        elif kind == "Identity":
            self.env[op.outputs[0]] = inputs[0]
        elif kind in ("Add", "AddV2"):
            self.env[op.outputs[0]] = inputs[0] + inputs[1]
        elif kind == "Mul":
            self.env[op.outputs[0]] = inputs[0] * inputs[1]
        elif kind == "Rank":
            self.env[op.outputs[0]] = inputs[0].ndim
        elif kind == "Range":
            self.env[op.outputs[0]] = np.arange(*inputs)
        elif kind == "Max":
            self.env[op.outputs[0]] = inputs[0].max()
        elif kind == "Less":
            self.env[op.outputs[0]] = inputs[0] < inputs[1]
        else:
            raise AssertionError(f"the model does not know {kind}")


class Program:
    """A random graph: variables, values and effects, and what may be fetched."""

    def __init__(self, draw):
        self.x = tf.placeholder(tf.int32, [ROWS], name="x")
        self.rows = tf.placeholder(tf.int32, [2], name="rows")
        self.limit = tf.placeholder(tf.int32, [], name="limit")
        self.variables = [
            tf.Variable(np.arange(ROWS, dtype=np.int32) + i, use_resource=draw(st.booleans()), name=f"v{i}")
            for i in range(draw(st.integers(1, 3)))
        ]
        self.values = [self.x]
        self.effects = []
        for number in range(draw(st.integers(3, 12))):
            anchors = self.effects + [value.op for value in self.values[1:]]
            under = draw(st.lists(st.sampled_from(anchors), max_size=2, unique=True)) if anchors else []
            with tf.control_dependencies(under):
                self.add(draw, number)

    def add(self, draw, number):
        variable = draw(st.sampled_from(self.variables))
        value = draw(st.sampled_from([*self.values, *self.variables]))
        kind = draw(
            st.sampled_from(["read", "value", "sum", "product", "assign", "add", "sub", "rows", "set", "check"])
        )
        if kind == "read":
            self.values.append(variable.read_value())
        elif kind == "value":
            self.values.append(tf.identity(variable.value()))
        elif kind == "sum":
            self.values.append(value + variable)
        elif kind == "product":
            self.values.append(value * 2)
        elif kind == "check":
            self.effects.append(tf.Assert(tf.reduce_max(value) < self.limit, [f"check {number}."]))
        else:
            if kind == "assign":
                write = variable.assign(value)
            elif kind == "add":
                write = variable.assign_add(value)
            elif kind == "sub":
                write = variable.assign_sub(value)
            else:
                change = tf.scatter_add if kind == "rows" else tf.scatter_update
                write = change(variable, self.rows, [number + 1, number + 1])
            self.effects.append(write.op if hasattr(write, "op") else write)
            if draw(st.booleans()) and not isinstance(write, tf.Operation):
                self.values.append(tf.identity(write))


def check_program(data):
    with tf.Graph().as_default():
        program = Program(data.draw)
        init = tf.global_variables_initializer()
        sessions = [tf.Session(config=tf.SessionOptions(tier=tier)) for tier in ("interpreted", "compiled")]
        model = Model()
        everything = [*program.values[1:], *program.effects]
        plain = [v for v in program.variables if v.dtype._is_ref_dtype]
        candidates = [data.draw(st.lists(st.sampled_from(everything), min_size=1, max_size=5, unique=True))]
        candidates.append(everything + [v._variable for v in plain])
        reads = [v.read_value() for v in program.variables]
        try:
            for session in sessions:
                session.run(init)
            for variable in program.variables:
                model.state[model_maker(variable)] = sessions[0].run(variable.read_value())
            for _ in range(data.draw(st.integers(2, 4))):
                fetches = data.draw(st.sampled_from(candidates))
                feeds = {
                    program.x: np.array(
                        data.draw(st.lists(st.integers(-3, 9), min_size=ROWS, max_size=ROWS)), np.int32
                    ),
                    program.rows: np.array(
                        data.draw(st.sampled_from([(0, 2), (1, 1), (2, 0), (0, 3), (-1, 0)])), np.int32
                    ),
                    program.limit: np.int32(data.draw(st.sampled_from([10**6, 12, 6]))),
                }
                try:
                    expected = model.run(fetches, feeds)
                except Failed as problem:
                    expected = None
                    for session in sessions:
                        with pytest.raises(tf.errors.InvalidArgumentError, match=str(problem)):
                            session.run(fetches, feeds)
                if expected is not None:
                    for session in sessions:
                        for got, wanted in zip(session.run(fetches, feeds), expected, strict=True):
                            np.testing.assert_array_equal(got, wanted)
                for session in sessions:
                    for variable, got in zip(program.variables, session.run(reads), strict=True):
                        np.testing.assert_array_equal(got, model.state[model_maker(variable)])
        finally:
            for session in sessions:
                session.close()


def model_maker(variable):
    return Model().maker(variable.handle if variable.dtype.base_dtype == variable.dtype else variable._variable)


@settings(
    max_examples=20,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],  # each example compiles: shrinking would take minutes
    suppress_health_check=list(HealthCheck),
)
@given(st.data())
def test_both_tiers_do_what_the_rules_say(data):
    check_program(data)
