"""Convolutions by oneDNN inside XLA's programs: values, derivatives, where they run, and what happens without it."""

from __future__ import annotations

import concurrent.futures
import json
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import anabranch as tf
from anabranch.ops.nn.windows import geometry, host_convolution
from anabranch.testing.kernels import run_op
from anabranch.xla import background, engine, single_op, stored_programs
from anabranch.xla.onednn import choice, convolutions, frames, handler, library, primitives
from anabranch.xla.onednn.primitives import FILTER, FORWARD, INPUT
from anabranch.xla.padding import masking

assert tf.Op  # loads all op families

_WHY_NOT = library.found()
needs_library = pytest.mark.skipif(isinstance(_WHY_NOT, str), reason=f"oneDNN is not there: {_WHY_NOT}")
TOLERANCE = {"float32": 3e-6, "bfloat16": 1.5e-2, "float16": 2e-3}
"""Largest error relative to the largest value."""


def draw(random, shape, dtype="float32"):
    return random.standard_normal(shape).astype(tf.as_dtype(dtype).as_numpy_dtype)


def error(found, expected):
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    assert found.shape == expected.shape
    return np.abs(found - expected).max() / max(np.abs(expected).max(), 1e-30)


def sampled(random):
    """A geometry, and the shapes of images, filter and output, channels last."""
    n = random.integers(1, 4)
    axes = []
    for _ in range(n):
        window, stride, dilation = random.integers(1, 5), random.integers(1, 4), random.integers(1, 3)
        size = int(random.integers((window - 1) * dilation + 1, 14))
        padding = random.choice(["SAME", "VALID", "EXPLICIT"])
        explicit = (int(random.integers(0, 3)), int(random.integers(0, 3)))
        axes.append(geometry.axis(size, int(window), int(stride), int(dilation), str(padding), explicit))
    groups = int(random.choice([1, 1, 2, 4]))
    inputs, outputs = groups * int(random.integers(1, 6)), groups * int(random.integers(1, 6))
    if random.random() < 0.2:  # depthwise
        groups, outputs = inputs, inputs * int(random.integers(1, 3))
    batch = int(random.integers(1, 5))
    shapes = (
        (batch, *(a.size for a in axes), inputs),
        (*(a.window for a in axes), inputs // groups, outputs),
        (batch, *(a.out for a in axes), outputs),
    )
    return convolutions.Geometry(tuple(axes), groups, bool(random.integers(2))), shapes


def computed(kind, x, f, g, given):
    """One of the three products of channels-last operands by the primitive."""
    first = given.channels_first
    x, g = (np.ascontiguousarray(np.moveaxis(value, -1, 1)) if first else value for value in (x, g))
    a, b = {FORWARD: (x, f), INPUT: (g, f), FILTER: (x, g)}[kind]
    made = np.asarray(engine.jax().jit(lambda a, b: convolutions.primitive(kind).bind(a, b, geometry=given))(a, b))
    return np.moveaxis(made, 1, -1) if first and kind != FILTER else made


def reference(kind, x, f, g, given):
    x, f, g = (value.astype(np.float64) for value in (x, f, g))
    if kind == FORWARD:
        return host_convolution.forward(x, f, given.axes)
    if kind == INPUT:
        return host_convolution.input_gradient(g, f, given.axes, x.shape[-1])
    return host_convolution.filter_gradient(x, g, given.axes, f.shape[-2])


def has_kernel(kind, shapes, given, dtype="float32"):
    x, f, g = shapes
    if given.channels_first:
        x, g = ((shape[0], shape[-1], *shape[1:-1]) for shape in (x, g))
    a, b = {FORWARD: (x, f), INPUT: (g, f), FILTER: (x, g)}[kind]
    return not isinstance(primitives.described(given.work(kind, a, b, dtype)), str)


# --------------------------------------------------------------------------------------------------------------- values
@needs_library
@pytest.mark.parametrize("seed", range(12))
def test_values_are_those_of_numpy_in_double_precision(seed):
    random = np.random.default_rng(seed)
    given, shapes = sampled(random)
    x, f, g = (draw(random, shape) for shape in shapes)
    for kind in (FORWARD, INPUT, FILTER):
        assert error(computed(kind, x, f, g, given), reference(kind, x, f, g, given)) < TOLERANCE["float32"], kind
        if kind != INPUT:  # of odd input gradients it has none but a slow one
            assert has_kernel(kind, shapes, given)


@needs_library
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_two_byte_floats_where_the_processor_has_them(dtype):
    random = np.random.default_rng(3)
    axes = (geometry.axis(12, 3, 1, 1, "SAME"),) * 2
    given = convolutions.Geometry(axes, 1, False)
    shapes = ((2, 12, 12, 16), (3, 3, 16, 32), (2, 12, 12, 32))
    x, f, g = (draw(random, shape, dtype) for shape in shapes)
    attrs = {"strides": [1, 1, 1, 1], "padding": "SAME"}
    found = run_op("Conv2D", x, f, tier="xla", **attrs)  # by oneDNN or not: the same values
    assert error(found, reference(FORWARD, x, f, g, given)) < TOLERANCE[dtype]
    kinds = [kind for kind in (FORWARD, INPUT, FILTER) if has_kernel(kind, shapes, given, dtype)]
    if not kinds:
        pytest.skip(f"oneDNN has no kernels for {dtype} on this processor")
    for kind in kinds:
        assert error(computed(kind, x, f, g, given), reference(kind, x, f, g, given)) < TOLERANCE[dtype], kind


@needs_library
@pytest.mark.parametrize("seed", range(100, 104))
def test_derivatives_of_any_order_are_those_of_lax(seed):
    jax = engine.jax()
    random = np.random.default_rng(seed)
    given, shapes = sampled(random)
    x, f, _ = (draw(random, shape) for shape in shapes)
    x = np.ascontiguousarray(np.moveaxis(x, -1, 1)) if given.channels_first else x

    def all_of(product):
        def total(x, f):
            return jax.numpy.sum(jax.numpy.sin(product(x, f)))

        first = jax.grad(total, (0, 1))
        second = jax.grad(lambda x, f: sum(jax.numpy.sum(value**2) for value in first(x, f)), (0, 1))
        forward = jax.jvp(product, (x, f), (x * 0.5, f * 0.25))[1]
        return [*jax.jit(first)(x, f), *jax.jit(second)(x, f), forward]

    ours = all_of(lambda x, f: convolutions.primitive(FORWARD).bind(x, f, geometry=given))
    theirs = all_of(lambda x, f: convolutions.by_lax(FORWARD, x, f, given))
    for one, other in zip(ours, theirs, strict=True):
        assert error(one, other) < 2e-5


@needs_library
def test_a_mapped_convolution():
    jax = engine.jax()
    random = np.random.default_rng(0)
    given = convolutions.Geometry((geometry.axis(6, 3, 1, 1, "SAME"),) * 2, 1, False)
    x, f = draw(random, (3, 2, 6, 6, 4)), draw(random, (3, 3, 4, 5))
    mapped = jax.vmap(lambda x, f: convolutions.primitive(FORWARD).bind(x, f, geometry=given), (0, None))(x, f)
    assert error(mapped, [host_convolution.forward(one, f, given.axes) for one in x]) < 1e-5


@needs_library
@pytest.mark.parametrize("seed", range(200, 212))
def test_pieces_have_the_values_of_the_whole(seed):
    if not handler.takes_pieces():
        pytest.skip("Python's handler takes no pieces")
    random = np.random.default_rng(seed)
    given, shapes = sampled(random)
    shapes = [(int(random.integers(5, 12)), *shape[1:]) if which != 1 else shape for which, shape in enumerate(shapes)]
    shapes[2] = (shapes[0][0], *shapes[2][1:])
    x, f, g = (draw(random, shape) for shape in shapes)
    number = int(random.integers(2, shapes[0][0] + 1))
    for kind in (FORWARD, INPUT, FILTER):
        if not has_kernel(kind, shapes, given):
            continue
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(choice, "pieces", lambda work: number)
            in_pieces, again = (computed(kind, x, f, g, given) for _ in range(2))
        assert np.array_equal(in_pieces, again)
        assert error(in_pieces, reference(kind, x, f, g, given)) < TOLERANCE["float32"], (kind, number)


@needs_library
def test_pieces_in_several_threads_at_a_time():
    if not handler.takes_pieces():
        pytest.skip("Python's handler takes no pieces")
    random = np.random.default_rng(9)
    given = convolutions.Geometry((geometry.axis(28, 3, 1, 1, "SAME"),) * 2, 1, False)
    x, f, g = (draw(random, s) for s in ((16, 28, 28, 32), (3, 3, 32, 32), (16, 28, 28, 32)))
    expected = {kind: computed(kind, x, f, g, given) for kind in (FORWARD, INPUT, FILTER)}

    def all_of(_):
        return all(np.array_equal(computed(kind, x, f, g, given), bits) for kind, bits in expected.items())

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        assert all(pool.map(all_of, range(24)))


@needs_library
def test_the_same_bits_each_time():
    random = np.random.default_rng(5)
    given = convolutions.Geometry((geometry.axis(28, 3, 1, 1, "SAME"),) * 2, 1, False)
    x, f, g = (draw(random, s) for s in ((64, 28, 28, 64), (3, 3, 64, 64), (64, 28, 28, 64)))
    work = given.work(FILTER, x.shape, g.shape, "float32")
    assert max(work.threads, work.pieces) > 1
    first, second = (computed(FILTER, x, f, g, given) for _ in range(2))
    assert np.array_equal(first, second)


@needs_library
def test_a_padded_batch():
    jax = engine.jax()
    random = np.random.default_rng(6)
    given = convolutions.Geometry((geometry.axis(4, 3, 1, 1, "SAME"),) * 2, 1, False)
    f = draw(random, (3, 3, 2, 3))

    def step(x):
        y = convolutions.primitive(FORWARD).bind(x, f, geometry=given)
        back = convolutions.primitive(INPUT).bind(y, f, geometry=given)
        return y, back, convolutions.primitive(FILTER).bind(x, y, geometry=given)

    sizes = masking.Sizes((8,))
    with engine.x64():
        like = [jax.ShapeDtypeStruct((n, 4, 4, 2), np.float32) for (n,) in sizes.points]
        traces = [jax.make_jaxpr(step)(one) for one in like]
        x = draw(random, (8, 4, 4, 2))
        x[5:] = np.nan
        masked = masking.Masked(sizes, (np.int32(5),), (4,))
        outputs = masked.evaluate([trace.jaxpr for trace in traces], [trace.consts for trace in traces], [x])
        expected = step(x[:5])
    for found, exact in zip(outputs, expected, strict=True):
        kept = found[:5] if found.shape[0] == 8 and found.ndim == 4 and exact.shape[0] == 5 else found
        assert error(kept, exact) < 1e-5


# ------------------------------------------------------------------------------------------------------------- programs
def network(images, labels):
    hidden = tf.nn.relu(tf.nn.conv2d(images, tf.get_variable("w1", [3, 3, 3, 16]), [1, 2, 2, 1], "SAME"))
    hidden = tf.nn.depthwise_conv2d(hidden, tf.get_variable("d", [3, 3, 16, 1]), [1, 1, 1, 1], "SAME")
    hidden = tf.nn.conv2d(hidden, tf.get_variable("w2", [3, 3, 16, 16]), [1, 1, 1, 1], "VALID")
    loss = tf.reduce_mean(tf.square(tf.reduce_mean(hidden, [1, 2, 3]) - labels))
    return loss, tf.train.GradientDescentOptimizer(0.5).minimize(loss)


def losses(tier, batch=8):
    random = np.random.RandomState(0)
    with tf.Graph().as_default():
        images, labels = tf.placeholder(tf.float32, [batch, 20, 20, 3]), tf.placeholder(tf.float32, [batch])
        fetches = network(images, labels)
        feeds = {images: random.standard_normal((batch, 20, 20, 3)), labels: random.standard_normal(batch)}
        with tf.Session(config=tf.SessionOptions(tier=tier)) as session:
            session.run(tf.global_variables_initializer())
            for variable in tf.trainable_variables():
                variable.load(random.standard_normal(variable.shape.as_list()) * 0.2, session)
            found = [session.run(fetches, feeds)[0] for _ in range(4)]
            return found, session.explain(fetches, feeds)


@pytest.fixture
def small_ones_pay(monkeypatch):
    """Also where there was no compiler for the handler in C."""
    monkeypatch.setattr(choice, "LEAST_FLOPS_FROM_PYTHON", choice.LEAST_FLOPS)


@needs_library
def test_a_training_step_and_what_explain_says(small_ones_pay):
    handler.of_process()
    compiled, told = losses("compiled")
    interpreted, _ = losses("interpreted")
    np.testing.assert_allclose(compiled, interpreted, rtol=2e-5)
    assert "convolutions by oneDNN 3." in told


@needs_library
@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
def test_in_loops_and_branches(data_format, small_ones_pay):
    random = np.random.RandomState(0)
    image, kernel = draw(random, (4, 12, 12, 8)), draw(random, (3, 3, 8, 8)) * 0.1
    image = np.moveaxis(image, 3, 1) if data_format == "NCHW" else image
    results = []
    for tier in ("compiled", "interpreted"):
        with tf.Graph().as_default():
            x, f, twice = tf.constant(image), tf.constant(kernel), tf.placeholder(tf.bool, [])

            def once(y, f=f):
                return tf.nn.conv2d(y, f, [1, 1, 1, 1], "SAME", data_format=data_format)

            looped = tf.while_loop(lambda i, y: i < 3, lambda i, y, once=once: (i + 1, once(y)), (0, x))[1]
            chosen = tf.cond(twice, lambda y=looped, once=once: once(once(y)), lambda y=looped, once=once: once(y))
            fetches = [chosen, *tf.gradients(tf.reduce_sum(chosen * chosen), [x, f])]
            with tf.Session(config=tf.SessionOptions(tier=tier)) as session:
                results.append(session.run(fetches, {twice: True}))
                told = session.explain(fetches, {twice: True})
        assert ("by oneDNN" in told) == (tier == "compiled")
    for one, other in zip(*results, strict=True):
        assert error(one, other) < 1e-5


@needs_library
def test_compiled_by_another_process():
    jax = engine.jax()
    random = np.random.default_rng(1)
    given = convolutions.Geometry((geometry.axis(9, 3, 1, 1, "SAME"),) * 2, 1, False)
    x, f = draw(random, (2, 9, 9, 5)), draw(random, (3, 3, 5, 7))
    lowered = jax.jit(lambda x, f: convolutions.primitive(FORWARD).bind(x, f, geometry=given)).lower(x, f)
    compiled, code = background.compiled_elsewhere(lowered)
    assert frames.TARGET.encode() in code
    assert error(compiled(x, f), host_convolution.forward(x, f, given.axes)) < 1e-5


@needs_library
def test_failures_become_errors_of_the_program():
    jax = engine.jax()
    handler.of_process.here()
    given = convolutions.Geometry((geometry.axis(9, 3, 1, 1, "SAME"),) * 2, 1, False)
    text = given.work(FORWARD, (1, 9, 9, 3), (3, 3, 3, 11), "float32").text()

    def call(x, f, scratch=1, text=text):
        results = [jax.ShapeDtypeStruct((1, 9, 9, 11), np.float32), jax.ShapeDtypeStruct((scratch,), np.uint8)]
        number = np.int64(handler.number_of(text) + 1)
        return jax.ffi.ffi_call(frames.TARGET, results)(x, f, number=number, scratch=np.int64(scratch), work=text)[0]

    x, f = np.ones((1, 9, 9, 3), np.float32), np.ones((3, 3, 3, 11), np.float32)
    with pytest.raises(jax.errors.JaxRuntimeError, match="bytes of scratch space are needed, 1 are there"):
        jax.jit(call)(x, f)


# ----------------------------------------------------------------------------------------------- processes of their own
SCRIPT = """
    import os, sys
    import numpy as np
    import anabranch as tf
    from anabranch.xla.onednn import handler
    if "python" in sys.argv:
        handler._native_is_there = lambda: False
    x = tf.placeholder(tf.float32, [4, 32, 32, 16])
    f = tf.Variable(np.random.RandomState(0).standard_normal((3, 3, 16, 32)).astype(np.float32))
    y = tf.reduce_sum(tf.nn.conv2d(x, f, [1, 1, 1, 1], "SAME") ** 2)
    fetches = [y, tf.train.GradientDescentOptimizer(1e-7).minimize(y)]
    session = tf.Session(config=tf.SessionOptions(tier="compiled"))
    def run():
        session.run(f.initializer)
        return [float(session.run(fetches, {x: np.ones((4, 32, 32, 16))})[0]) for _ in range(2)]
    if "fork" in sys.argv:
        child = os.fork()
        losses = run()
        if child:
            assert os.waitpid(child, 0)[1] == 0
    else:
        losses = run()
    told = [line.strip() for line in session.explain(fetches, {x: np.ones((4, 32, 32, 16))}).splitlines()]
    told = [line for line in told if "oneDNN" in line]
    print(losses, told, handler.of_process().native is not None, flush=True)
    if "fork" in sys.argv and not child:
        os._exit(0)
"""


def run_script(*arguments, **environment):
    command = [sys.executable, "-c", textwrap.dedent(SCRIPT), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, timeout=100)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@needs_library
@pytest.mark.multiprocess
def test_programs_on_disk_and_both_handlers(tmp_path):
    cache = {"ANABRANCH_CACHE": str(tmp_path)}
    (first,) = run_script(**cache)
    assert "2 convolutions by oneDNN" in first
    kept = {path.name: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    (second,) = run_script(**cache)
    assert second == first
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} == set(kept)  # nothing was compiled anew
    (by_python,) = run_script("python", **cache)
    assert "called from Python'] False" in by_python.replace('"', "'")
    losses, by_c = (json.loads(line.split("]")[0] + "]") for line in (by_python, first))
    np.testing.assert_allclose(losses, by_c, rtol=1e-6)  # gradients of filters are added up in other parts


@needs_library
@pytest.mark.multiprocess
def test_a_fork_before_anything_was_compiled():
    one, other = run_script("fork")
    assert one == other


# ---------------------------------------------------------------------------------------------------------- without it
@pytest.fixture
def without(monkeypatch):
    monkeypatch.setattr(library, "found", lambda: "a test does without")
    single_op._programs.clear()
    yield
    single_op._programs.clear()


def test_the_fallback(without):
    random = np.random.default_rng(2)
    axes = [geometry.axis(10, 3, 2, 1, "SAME")] * 2
    x, f = draw(random, (2, 10, 10, 4)), draw(random, (3, 3, 4, 8))
    found = run_op("Conv2D", x, f, tier="xla", strides=[1, 2, 2, 1], padding="SAME")
    assert error(found, host_convolution.forward(x, f, axes)) < 1e-5
    assert "oneDNN" not in losses("compiled", batch=6)[1]  # programs of the process are shared by structure


def test_names_on_disk_tell_the_library(without, monkeypatch, tmp_path):
    monkeypatch.setattr(stored_programs.disk_cache.of_process(), "why_off", None)
    plain = stored_programs.key(("a",), [], "cpu")
    assert plain is not None
    monkeypatch.setattr(library, "identity", lambda: (3, 2, 0, 2, []))
    assert stored_programs.key(("a",), [], "cpu") != plain


def test_a_primitive_without_a_kernel_means_what_lax_says(monkeypatch):
    given = convolutions.Geometry((geometry.axis(7, 3, 1, 2, "VALID"),) * 2, 1, False)
    random = np.random.default_rng(4)
    x, f, g = (draw(random, s) for s in ((2, 7, 7, 3), (3, 3, 3, 4), (2, 3, 3, 4)))
    operands = {FORWARD: (x, f), INPUT: (g, f), FILTER: (x, g)}
    for kind, (a, b) in operands.items():
        assert error(convolutions.by_lax(kind, a, b, given), reference(kind, x, f, g, given)) < 1e-5


@pytest.mark.parametrize("value", ["off", "0"])
def test_it_can_be_switched_off(monkeypatch, value):
    monkeypatch.setenv(library.CHOICE, value)
    assert library.found.__wrapped__() == f"{library.CHOICE}={value}"


@pytest.mark.skipif(sys.platform != "linux", reason="the library is used on Linux")
def test_a_library_that_was_named_and_is_of_no_use(monkeypatch, tmp_path):
    path = tmp_path / "libdnnl.so.3"
    path.write_text("not a library")
    monkeypatch.setenv(library.CHOICE, str(path))
    with pytest.raises(tf.errors.FailedPreconditionError, match="built for CPUs on OpenMP, TBB or without threads"):
        library.found.__wrapped__()


def test_small_convolutions_stay_with_xla():
    def work(kind, size, channels, window=3, **more):
        return primitives.Work(
            kind, "float32", 1, (size,) * 2, channels, (window,) * 2, (size,) * 2, channels,
            **{"strides": (1, 1), "dilations": (1, 1), "before": (1, 1), **more},
        )  # fmt: skip

    assert not choice.pays(work(FORWARD, 4, 2), native=True)
    assert choice.pays(work(FORWARD, 28, 8), native=True)
    assert not choice.pays(work(FORWARD, 28, 8), native=False)
    assert choice.pays(work(FORWARD, 56, 64), native=False)
    assert not choice.pays(work(INPUT, 56, 64, 1, strides=(2, 2)), native=True)
    assert choice.pays(work(INPUT, 56, 64, groups=64), native=True)
    assert choice.threads(work(FILTER, 56, 64), 8) == 1
    assert choice.threads(work(FORWARD, 56, 64), 8) == 8
    assert [choice.pieces(work(kind, 56, 64)._replace(batch=64)) for kind in (FORWARD, INPUT, FILTER)] == [16, 16, 4]
    assert choice.pieces(work(FORWARD, 56, 64)) == choice.pieces(work(FORWARD, 8, 8)._replace(batch=64)) == 1
    assert choice.pieces(work(FILTER, 2, 512)._replace(batch=64)) == 1  # adding up would take as long as the products
    assert choice.pieces(work(FILTER, 56, 64)._replace(batch=64, dtype="bfloat16")) == 1
