"""Sequence models over lists: each against a loop in NumPy, with variables under the names that checkpoints have."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import anabranch as tf
from anabranch.contrib import legacy_seq2seq as s2s
from anabranch.contrib.legacy_seq2seq.models import copied_cell

BATCH, UNITS, SIZE, READ, WRITTEN = 3, 4, 2, 5, 6
RANDOM = np.random.RandomState(3)
ENCODER = RANDOM.randint(0, READ, (4, BATCH)).astype(np.int32)
DECODER = RANDOM.randint(0, WRITTEN, (3, BATCH)).astype(np.int32)
Values = dict[str, np.ndarray]


@pytest.fixture(autouse=True)
def graph() -> Any:
    with tf.Graph().as_default() as made:
        yield made


@pytest.fixture
def lists() -> tuple[list[Any], list[Any]]:
    return [tf.constant(row) for row in ENCODER], [tf.constant(row) for row in DECODER]


def scope(name: str | None = None) -> Any:
    """Where variables are made: float64, uniform."""
    start = tf.random_uniform_initializer(-0.7, 0.7, seed=5, dtype=tf.float64)
    return tf.variable_scope(name or tf.get_variable_scope(), dtype=tf.float64, initializer=start)


def cell() -> Any:
    return tf.nn.rnn_cell.BasicRNNCell(UNITS)


def run(tensors: Any, feeds: Any = None) -> tuple[Any, Values]:
    """Values of tensors, and of all variables by their names."""
    with tf.Session(config=tf.SessionOptions(precision="highest")) as session:
        session.run(tf.global_variables_initializer())
        variables = tf.global_variables()
        found, values = session.run([tensors, variables], feeds)
    return found, {variable.op.name: value for variable, value in zip(variables, values, strict=True)}


def rnn(values: Values, name: str, x: Any, h: Any) -> Any:
    """A step of the cell."""
    return np.tanh(np.hstack([x, h]) @ values[f"{name}/kernel"] + values[f"{name}/bias"])


def project(values: Values, name: str, *parts: Any) -> Any:
    return np.hstack(parts) @ values[f"{name}/kernel"] + values[f"{name}/bias"]


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def encode(values: Values, name: str, rows: Any = ENCODER) -> list[Any]:
    """Outputs of an encoder over symbols with an embedding."""
    h, outputs = np.zeros((BATCH, UNITS)), []
    for ids in rows:
        x = values[f"{name}/embedding_wrapper/embedding"][ids]
        h = rnn(values, f"{name}/embedding_wrapper/basic_rnn_cell", x, h)
        outputs.append(h)
    return outputs


def decode(values: Values, name: str, h: Any, fed_back: bool, rows: Any = DECODER) -> tuple[list[Any], Any]:
    """Logits and last state of a decoder over symbols that has a projection."""
    outputs: list[Any] = []
    for step, ids in enumerate(rows):
        if fed_back and step:
            ids = outputs[-1].argmax(1)
        wrapper = f"{name}/rnn_decoder/output_projection_wrapper"
        h = rnn(values, f"{wrapper}/basic_rnn_cell", values[f"{name}/embedding"][ids], h)
        outputs.append(project(values, wrapper, h))
    return outputs, h


def same(found: Any, expected: Any, rtol: float = 1e-9) -> None:
    outputs, state = found
    assert len(outputs) == len(expected[0])
    for one, other in zip(outputs, expected[0], strict=True):
        np.testing.assert_allclose(one, other, rtol=rtol, atol=1e-12)
    np.testing.assert_allclose(state, expected[1], rtol=rtol, atol=1e-12)


def test_rnn_decoder_and_its_loop_function() -> None:
    inputs = [tf.constant(RANDOM.randn(BATCH, UNITS)) for _ in range(3)]
    start = RANDOM.randn(BATCH, UNITS)
    seen = []

    def loop(prev: Any, step: int) -> Any:
        seen.append((step, tf.get_variable_scope().name, tf.get_variable_scope().reuse))
        return prev * 2.0

    with scope("net"):
        plain = s2s.rnn_decoder(inputs, tf.constant(start), cell())
        fed = s2s.rnn_decoder(inputs, tf.constant(start), cell(), loop_function=loop, scope="fed")
    assert seen == [(1, "net/fed/loop_function", True), (2, "net/fed/loop_function", True)]
    (one, other, given), values = run([plain, fed, inputs])
    h, steps = start, []
    for x in given:
        h = rnn(values, "net/rnn_decoder/basic_rnn_cell", x, h)
        steps.append(h)
    same(one, (steps, h))
    h, steps = start, []
    for step in range(3):
        h = rnn(values, "net/fed/basic_rnn_cell", steps[-1] * 2 if step else given[0], h)
        steps.append(h)
    same(other, (steps, h))


def test_basic_has_two_sets_of_weights_and_tied_one() -> None:
    inputs = [tf.constant(RANDOM.randn(BATCH, UNITS)) for _ in range(5)]
    with scope():
        basic = s2s.basic_rnn_seq2seq(inputs[:2], inputs[2:], cell(), dtype=tf.float64)
        tied = s2s.tied_rnn_seq2seq(inputs[:2], inputs[2:], cell(), dtype=tf.float64)
    (one, other, given), values = run([basic, tied, inputs])
    assert sorted(values) == [
        "basic_rnn_seq2seq/rnn/basic_rnn_cell/bias",
        "basic_rnn_seq2seq/rnn/basic_rnn_cell/kernel",
        "basic_rnn_seq2seq/rnn_decoder/basic_rnn_cell/bias",
        "basic_rnn_seq2seq/rnn_decoder/basic_rnn_cell/kernel",
        "combined_tied_rnn_seq2seq/tied_rnn_seq2seq/basic_rnn_cell/bias",
        "combined_tied_rnn_seq2seq/tied_rnn_seq2seq/basic_rnn_cell/kernel",
    ]
    for found, first, second in (
        (one, "basic_rnn_seq2seq/rnn", "basic_rnn_seq2seq/rnn_decoder"),
        (other, "combined_tied_rnn_seq2seq/tied_rnn_seq2seq", "combined_tied_rnn_seq2seq/tied_rnn_seq2seq"),
    ):
        h, steps = np.zeros((BATCH, UNITS)), []
        for step, x in enumerate(given):
            h = rnn(values, f"{first if step < 2 else second}/basic_rnn_cell", x, h)
            steps.append(h)
        same(found, (steps[2:], h))


@pytest.mark.parametrize("feed_previous", [False, True, "tensor"])
def test_embedding_rnn_seq2seq(lists: Any, feed_previous: Any) -> None:
    flag = tf.placeholder(tf.bool, []) if feed_previous == "tensor" else feed_previous
    with scope():
        made = s2s.embedding_rnn_seq2seq(*lists, cell(), READ, WRITTEN, SIZE, feed_previous=flag, dtype=tf.float64)
    for fed_back in (False, True) if feed_previous == "tensor" else (feed_previous,):
        found, values = run(made, {flag: fed_back} if feed_previous == "tensor" else None)
        last = encode(values, "embedding_rnn_seq2seq/rnn")[-1]
        same(found, decode(values, "embedding_rnn_seq2seq/embedding_rnn_decoder", last, fed_back))
    assert len(values) == 8


@pytest.mark.parametrize("feed_previous", [False, True, "tensor"])
def test_embedding_tied_rnn_seq2seq(lists: Any, feed_previous: Any) -> None:
    flag = tf.placeholder(tf.bool, []) if feed_previous == "tensor" else feed_previous
    with scope():
        made = s2s.embedding_tied_rnn_seq2seq(*lists, cell(), WRITTEN, SIZE, feed_previous=flag, dtype=tf.float64)
    name = "embedding_tied_rnn_seq2seq"
    wrapper = f"{name}/combined_tied_rnn_seq2seq/tied_rnn_seq2seq/output_projection_wrapper"
    for fed_back in (False, True) if feed_previous == "tensor" else (feed_previous,):
        found, values = run(made, {flag: fed_back} if feed_previous == "tensor" else None)
        h, outputs = np.zeros((BATCH, UNITS)), []
        for step, ids in enumerate([*ENCODER, *DECODER]):
            if fed_back and step > len(ENCODER):
                ids = outputs[-1].argmax(1)
            h = rnn(values, f"{wrapper}/basic_rnn_cell", values[f"{name}/embedding"][ids], h)
            outputs.append(project(values, wrapper, h))
        same(found, (outputs[len(ENCODER) :], h))
    assert len(values) == 5


def attend(values: Values, name: str, heads: int, states: Any, query: Any) -> list[Any]:
    """What the heads see: states ``[batch, steps, size]`` weighted."""
    seen = []
    for head in range(heads):
        keys = states @ values[f"{name}/AttnW_{head}"][0, 0]
        asked = project(values, f"{name}/Attention_{head}", query)[:, None]
        weights = softmax((values[f"{name}/AttnV_{head}"] * np.tanh(keys + asked)).sum(2))
        seen.append((weights[:, :, None] * states).sum(1))
    return seen


@pytest.mark.parametrize("continued", [False, True])
@pytest.mark.parametrize("heads", [1, 2])
def test_attention_decoder(heads: int, continued: bool) -> None:
    inputs = [tf.constant(RANDOM.randn(BATCH, SIZE)) for _ in range(3)]
    start, states = RANDOM.randn(BATCH, UNITS), RANDOM.randn(BATCH, 4, 5)
    with scope("net"):
        made = s2s.attention_decoder(
            inputs,
            tf.constant(start),
            tf.constant(states),
            cell(),
            output_size=7,
            num_heads=heads,
            initial_state_attention=continued,
        )
    (found, given), values = run([made, inputs])
    name = "net/attention_decoder"
    seen = attend(values, name, heads, states, start) if continued else [np.zeros((BATCH, 5))] * heads
    h, outputs = start, []
    for x in given:
        h = rnn(values, f"{name}/basic_rnn_cell", project(values, name, x, *seen), h)
        seen = attend(values, name, heads, states, h)
        outputs.append(project(values, f"{name}/AttnOutputProjection", h, *seen))
    same(found, (outputs, h), rtol=1e-4)  # weights are float32, whatever the dtype


def test_attention_over_a_state_of_parts_and_unknown_lengths() -> None:
    states = tf.placeholder(tf.float32, [None, None, 5])
    pair = tf.nn.rnn_cell.LSTMCell(UNITS)
    outputs, state = s2s.attention_decoder([tf.ones([BATCH, SIZE])], pair.zero_state(BATCH, tf.float32), states, pair)
    assert outputs[0].shape.as_list() == [BATCH, UNITS]
    assert tf.get_variable_scope().reuse is False
    assert {v.op.name: v.shape.as_list() for v in tf.global_variables()}["attention_decoder/Attention_0/kernel"] == [
        2 * UNITS,
        5,
    ]
    longer = np.ones((BATCH, 6, 5), np.float32)
    (one, _), _ = run([outputs[0], state.c], {states: longer})
    assert one.shape == (BATCH, UNITS)


@pytest.mark.parametrize("feed_previous", [False, True, "tensor"])
def test_embedding_attention_seq2seq(lists: Any, feed_previous: Any) -> None:
    flag = tf.placeholder(tf.bool, []) if feed_previous == "tensor" else feed_previous
    with scope():
        made = s2s.embedding_attention_seq2seq(
            *lists, cell(), READ, WRITTEN, SIZE, feed_previous=flag, dtype=tf.float64
        )
    name = "embedding_attention_seq2seq"
    decoder = f"{name}/embedding_attention_decoder"
    inner = f"{decoder}/attention_decoder"
    for fed_back in (False, True) if feed_previous == "tensor" else (feed_previous,):
        found, values = run(made, {flag: fed_back} if feed_previous == "tensor" else None)
        encoded = encode(values, f"{name}/rnn")
        states, h = np.stack(encoded, 1), encoded[-1]
        seen, outputs = [np.zeros((BATCH, UNITS))], []
        for step, ids in enumerate(DECODER):
            if fed_back and step:
                ids = outputs[-1].argmax(1)
            merged = project(values, inner, values[f"{decoder}/embedding"][ids], *seen)
            h = rnn(values, f"{inner}/output_projection_wrapper/basic_rnn_cell", merged, h)
            logits = project(values, f"{inner}/output_projection_wrapper", h)
            seen = attend(values, inner, 1, states, h)
            outputs.append(project(values, f"{inner}/AttnOutputProjection", logits, *seen))
        same(found, (outputs, h), rtol=1e-4)


def test_one_encoder_for_many_decoders(lists: Any) -> None:
    read, written = lists
    with scope():
        outputs, states = s2s.one2many_rnn_seq2seq(
            read,
            {"a": written, "b": written[:2]},
            cell(),
            {"a": cell(), "b": cell()},
            READ,
            {"a": WRITTEN, "b": 7},
            SIZE,
            dtype=tf.float64,
        )
    found, values = run([outputs, states])
    last = encode(values, "one2many_rnn_seq2seq/rnn")[-1]
    for key, rows in (("a", DECODER), ("b", DECODER[:2])):
        expected = decode(
            values, f"one2many_rnn_seq2seq/one2many_decoder_{key}/embedding_rnn_decoder", last, False, rows
        )
        same((found[0][key], found[1][key]), expected)


def test_gradients_of_symbols_fed_back_reach_the_embedding_unless_told() -> None:
    def gradient(update: bool, name: str) -> Any:
        ids = [tf.constant([0]), tf.constant([0])]
        with scope(name):
            state = tf.zeros([1, UNITS], tf.float64)
            outputs, _ = s2s.embedding_rnn_decoder(
                ids, state, cell(), UNITS, SIZE, feed_previous=True, update_embedding_for_previous=update
            )
        table = next(v for v in tf.global_variables() if v.op.name == f"{name}/embedding_rnn_decoder/embedding")
        return tf.convert_to_tensor(tf.gradients(outputs[1], table)[0]), outputs[0]

    with tf.variable_scope("", initializer=tf.constant_initializer(0.5)):
        both = [gradient(True, "yes"), gradient(False, "no")]
    ((yes, first), (no, _)), _ = run(both)
    chosen = int(first.argmax())
    assert np.abs(yes).sum() > np.abs(no).sum() or chosen == 0
    assert np.flatnonzero(np.abs(no).sum(1)).tolist() == [0]
    assert set(np.flatnonzero(np.abs(yes).sum(1))) == {0, chosen}


def cross_entropy(logits: Any, ids: Any) -> Any:
    return -np.log(softmax(logits))[np.arange(len(ids)), ids]


@pytest.mark.parametrize("across_time", [True, False])
def test_losses(across_time: bool) -> None:
    logits = RANDOM.randn(2, BATCH, WRITTEN)
    targets = DECODER[:2]
    weights = np.array([[1.0, 1.0, 0.5], [0.0, 1.0, 2.0]])
    given = [list(map(tf.constant, part)) for part in (logits, targets, weights)]
    tensors = [
        s2s.sequence_loss_by_example(*given, average_across_timesteps=across_time),
        s2s.sequence_loss(*given, average_across_timesteps=across_time),
        s2s.sequence_loss(*given, average_across_timesteps=across_time, average_across_batch=False),
    ]
    found, _ = run(tensors)
    total = sum(cross_entropy(*pair) * weight for pair, weight in zip(zip(logits, targets), weights, strict=True))  # noqa: B905
    each = total / weights.sum(0) if across_time else total
    for one, other in zip(found, [each, each.mean(), each.sum()], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10)


def test_a_loss_function_of_ones_own() -> None:
    given = [tf.constant([[1.0], [2.0]])], [tf.constant([3, 4])], [tf.constant([1.0, 2.0])]

    def loss(labels: Any, logits: Any) -> Any:
        return tf.cast(labels, tf.float32) * 10.0 + logits[:, 0]

    found, _ = run(s2s.sequence_loss_by_example(*given, softmax_loss_function=loss, average_across_timesteps=False))
    np.testing.assert_allclose(found, [31.0, 84.0])


@pytest.mark.parametrize("per_example", [True, False])
def test_buckets_share_one_cell(lists: Any, per_example: bool) -> None:
    read, written = lists
    shared = cell()  # the same object in each bucket, as programs of the time have it
    weights = [tf.ones([BATCH], tf.float64)] * 3

    def model(x: Any, y: Any) -> Any:
        return s2s.embedding_rnn_seq2seq(x, y, shared, READ, WRITTEN, SIZE, dtype=tf.float64)

    with scope():
        outputs, losses = s2s.model_with_buckets(
            read, written, written, weights, [(2, 1), (4, 3)], model, per_example_loss=per_example
        )
    (logits, found), values = run([outputs, losses])
    assert len(values) == 8
    name = "embedding_rnn_seq2seq"
    for made, loss, (x, y) in zip(logits, found, [(2, 1), (4, 3)], strict=True):
        last = encode(values, f"{name}/rnn", ENCODER[:x])[-1]
        expected, _ = decode(values, f"{name}/embedding_rnn_decoder", last, False, DECODER[:y])
        same((made, 0.0), (expected, 0.0))
        each = np.mean([cross_entropy(*pair) for pair in zip(expected, DECODER[:y], strict=True)], 0)
        np.testing.assert_allclose(loss, each if per_example else each.mean(), rtol=1e-9)


def test_a_copied_cell_has_no_variables_yet() -> None:
    stack = tf.nn.rnn_cell.MultiRNNCell([tf.nn.rnn_cell.DropoutWrapper(cell(), 0.5), cell()])
    with tf.variable_scope("one"):
        stack(tf.ones([1, 2]), stack.zero_state(1, tf.float32))
    copied = copied_cell(stack)
    assert (len(stack.weights), len(copied.weights)) == (4, 0)
    with tf.variable_scope("two"):
        copied(tf.ones([1, 3]), copied.zero_state(1, tf.float32))
    assert [v.op.name for v in copied.weights][:2] == [
        "two/multi_rnn_cell/cell_0/basic_rnn_cell/kernel",
        "two/multi_rnn_cell/cell_0/basic_rnn_cell/bias",
    ]
    assert stack.weights[0].op.name == "one/multi_rnn_cell/cell_0/basic_rnn_cell/kernel"


def test_names_from_before_one() -> None:
    given = [tf.constant([[1.0], [2.0]])], [tf.constant([3, 4])], [tf.constant([1.0, 2.0])]

    def old_loss(logits: Any, labels: Any) -> Any:
        return tf.cast(labels, tf.float32) * 10.0 + logits[:, 0]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        loss = tf.nn.seq2seq.sequence_loss_by_example(
            *given, average_across_timesteps=False, softmax_loss_function=old_loss
        )
        outputs, _ = tf.nn.seq2seq.rnn_decoder([tf.ones([1, 2])], tf.zeros([1, UNITS]), cell())
    found, _ = run([loss, outputs])
    np.testing.assert_allclose(found[0], [31.0, 84.0])
    assert found[1][0].shape == (1, UNITS)


def test_what_is_refused(lists: Any) -> None:
    read, written = lists
    with pytest.raises(ValueError, match="Must provide at least 1 input"):
        s2s.attention_decoder([], None, tf.ones([1, 2, 3]), cell())
    with pytest.raises(ValueError, match="use a non-attention decoder"):
        s2s.attention_decoder([tf.ones([1, 2])], None, tf.ones([1, 2, 3]), cell(), num_heads=0)
    with pytest.raises(ValueError, match=r"Shape\[2\] of attention_states must be known"):
        s2s.attention_decoder([tf.ones([1, 2])], None, tf.placeholder(tf.float32, [1, 2, None]), cell())
    with pytest.raises(ValueError, match="Could not infer input size"):
        s2s.attention_decoder(
            [tf.placeholder(tf.float32, [1, None])], tf.ones([1, UNITS]), tf.ones([1, 2, 3]), cell(), scope="x"
        )
    with pytest.raises(ValueError, match=r"an output projection .* of shape \(3,\)"):
        s2s.embedding_rnn_decoder(
            written, None, cell(), WRITTEN, SIZE, output_projection=(tf.ones([UNITS, WRITTEN]), tf.ones([3]))
        )
    with pytest.raises(ValueError, match="Lengths of logits, weights, and targets must be the same 1, 2, 0"):
        s2s.sequence_loss_by_example([1], [], [1, 2])
    with pytest.raises(ValueError, match=r"Length of weights \(1\) must be at least that of last bucket \(3\)"):
        s2s.model_with_buckets(read, written, written, [1.0], [(4, 3)], lambda x, y: (x, y))
