"""Public matrix products: which op they build, arguments, names, errors, gradients with unknown shapes."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.graph.build import build
from anabranch.testing import check_gradients
from anabranch.testing.kernels import TIERS, run_op


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def run(fetches, feeds=None):
    with tf.Session() as session:
        return session.run(fetches, feeds)


def sample(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


@pytest.mark.parametrize(
    ("a", "b", "options", "wanted"),
    [
        ((2, 3), (3, 4), {}, ("MatMul", {"transpose_a": False, "transpose_b": False})),
        ((3, 2), (3, 4), {"transpose_a": True}, ("MatMul", {"transpose_a": True})),
        (
            (3, 2),
            (4, 3),
            {"adjoint_a": True, "transpose_b": True},
            ("MatMul", {"transpose_a": True, "transpose_b": True}),
        ),
        ((5, 2, 3), (5, 3, 4), {}, ("BatchMatMulV2", {"adj_x": False, "adj_y": False})),
        ((5, 3, 2), (3, 4), {"transpose_a": True}, ("BatchMatMulV2", {"adj_x": True, "adj_y": False})),
        (None, (3, 4), {}, ("BatchMatMulV2", {})),
        ((2, 3), (3, 4), {"a_is_sparse": True}, ("SparseMatMul", {"a_is_sparse": True, "b_is_sparse": False})),
    ],
)
def test_which_op(a, b, options, wanted):
    product = tf.matmul(tf.placeholder(tf.float32, a), tf.placeholder(tf.float32, b), **options)
    assert product.op.type == wanted[0]
    assert product.op.name == "MatMul"
    assert {key: product.op.get_attr(key) for key in wanted[1]} == wanted[1]


def test_hints_of_sparsity_change_nothing():
    a, b = sample(2, 3).astype(np.float32), sample(3, 4).astype(np.float32)
    found = run(
        [
            tf.matmul(a, b),
            tf.matmul(a, b, a_is_sparse=True),
            tf.matmul(a.astype(np.float64), b.astype(np.float64), b_is_sparse=True),
        ]
    )
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6)
    assert found[2].dtype == np.float64
    half = tf.constant(a, tf.bfloat16)
    assert tf.matmul(half, half, transpose_b=True, a_is_sparse=True).dtype == tf.bfloat16
    assert tf.matmul(half, tf.constant(b)).op.type == "SparseMatMul"


def test_complex_transposes_and_adjoints():
    a = sample(2, 3) + 1j * sample(2, 3, seed=1)
    stack = np.stack([a, 2 * a])
    found = run(
        [
            tf.matmul(a, a, adjoint_b=True),
            tf.matmul(a, a, transpose_b=True),
            tf.matmul(stack, stack, adjoint_a=True),
            tf.matmul(stack, stack, transpose_a=True),
            tf.linalg.matvec(a, a[0], adjoint_a=False),
        ]
    )
    turned = stack.swapaxes(-1, -2)
    for one, other in zip(
        found, [a @ a.conj().T, a @ a.T, turned.conj() @ stack, turned @ stack, a @ a[0]], strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_constants_take_the_other_type_and_a_name_below_the_op():
    product = tf.matmul(tf.constant([[1.0]], tf.float64), [[2.0]])
    assert product.dtype == tf.float64
    assert tf.matmul([[1.0]], [[2.0]], name="product").op.inputs[1].name == "product/b:0"


def test_errors_of_construction():
    x = tf.zeros([2, 3])
    with pytest.raises(
        ValueError, match=r"(?s)Dimensions must be equal, but are 3 and 2.*\[2,3\] and \[2,3\].*transpose_b=True"
    ):
        tf.matmul(x, x)
    with pytest.raises(ValueError, match=r"Only one of transpose_a and adjoint_a can be True"):
        tf.matmul(x, x, transpose_a=True, adjoint_a=True)
    with pytest.raises(ValueError, match=r"(?s)Dimensions must be equal, but are 3 and 4"):
        tf.matmul(tf.zeros([5, 2, 3]), tf.zeros([5, 4, 2]))
    with pytest.raises(ValueError, match=r"(?s)shapes \[2\] and \[3\].*broadcast"):
        tf.matmul(tf.zeros([2, 1, 1]), tf.zeros([3, 1, 1]))
    with pytest.raises(TypeError, match=r"(?s)float64.*float32"):
        tf.matmul(tf.zeros([1, 1]), tf.zeros([1, 1], tf.float64))


def test_errors_of_a_step():
    a, b = tf.placeholder(tf.float32, [None, None]), tf.placeholder(tf.float32, [None, None])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"(3 and 2|In\[0\]: \[2,3\], In\[1\]: \[2,3\])"):
        run(tf.matmul(a, b), {a: np.zeros((2, 3)), b: np.zeros((2, 3))})


@pytest.mark.parametrize("tier", TIERS)
def test_kernels_refuse_shapes(tier):
    x = np.zeros((2, 3), np.float32)
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"Matrix size-incompatible: In\[0\]: \[2,3\], In\[1\]: \[2,3\]"
    ):
        run_op("MatMul", x, x, tier=tier)
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"In\[1\] is not a matrix. Instead it has shape \[1,2,3\]"
    ):
        run_op("MatMul", x, x[None], tier=tier)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"compatible batch dimensions: \[2,3,1\] vs. \[3,1,2\]"):
        run_op("BatchMatMulV2", np.zeros((2, 3, 1), np.float32), np.zeros((3, 1, 2), np.float32), tier=tier)


@pytest.mark.parametrize("tier", TIERS)
def test_halves_accumulate_in_single_precision(tier):
    ones = np.ones((1, 4096), np.float16)
    assert run_op("MatMul", ones, ones, transpose_b=True, tier=tier)[0, 0] == 4096
    assert run_op("Einsum", ones, ones, equation="ij,kj->ik", N=2, tier=tier)[0, 0] == 4096


def test_gradients_of_unknown_batches():
    a, b = sample(2, 1, 3, 2), sample(4, 2, 3, seed=1)
    x, y = tf.placeholder(tf.float64), tf.placeholder(tf.float64)
    found = tf.gradients(tf.matmul(x, y) ** 2, [x, y])
    fixed = tf.constant(a), tf.constant(b)
    wanted = tf.gradients(tf.matmul(*fixed) ** 2, list(fixed))
    got, expected = run([found, wanted], {x: a, y: b})
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize("batch", [(2,), (4, 2), (0,)])
def test_the_gradient_of_one_matrix_for_all_slices_is_one_product(adjoint, batch):
    a, b = sample(*batch, 5, 3), sample(*((4, 3) if adjoint else (3, 4)), seed=1)
    x, y = tf.placeholder(tf.float64, [*[None] * len(batch), None, 3]), tf.placeholder(tf.float64, b.shape)
    product = tf.matmul(x, y, adjoint_b=adjoint)
    slopes = tf.gradients(product**2, [x, y])
    assert slopes[1].op.type == "MatMul"
    found = run(slopes, {x: a, y: b})
    upstream = 2 * a @ (b.T if adjoint else b)
    np.testing.assert_allclose(found[0], upstream @ (b if adjoint else b.T), rtol=1e-12)
    of_y = np.einsum("...ij,...ik->...jk", a, upstream).sum(tuple(range(len(batch))))
    np.testing.assert_allclose(found[1], of_y.T if adjoint else of_y, rtol=1e-12)


@pytest.mark.parametrize(
    ("a", "b", "axes"),
    [
        ((2, 3, 4), (4, 3, 5), [[1, 2], [1, 0]]),
        ((2, 3, 4), (4, 5), 1),
        ((2, 3), (2, 3), 2),
        ((2,), (3,), 0),
        ((3, 2), (3,), ([0], [0])),
        ((2, 3, 4), (3, 2), [(-2, 0), (0, -1)]),
        ((2, 3), (3,), [1, 0]),
    ],
)
@pytest.mark.parametrize("known", [True, False])
def test_tensordot(a, b, axes, known):
    left, right = sample(*a), sample(*b, seed=1)
    shapes = (a, b) if known else ([None] * len(a), [None] * len(b))
    x, y = (tf.placeholder(tf.float64, shape) for shape in shapes)
    product = tf.tensordot(x, y, axes)
    wanted = np.tensordot(left, right, axes)
    np.testing.assert_allclose(run(product, {x: left, y: right}), wanted, rtol=1e-12)
    assert len(product._shape) == wanted.ndim
    if known:
        assert product._shape == wanted.shape


def test_tensordot_errors():
    x = tf.zeros([2, 3])
    with pytest.raises(ValueError, match=r"(?s)'axes' must be an integer or have length 2"):
        tf.tensordot(x, x, [[0], [0], [1]])
    with pytest.raises(ValueError, match=r"(?s)Different number of contraction axes.*1 dimensions of a and 2 of b"):
        tf.tensordot(x, x, [[0], [0, 1]])
    with pytest.raises(IndexError, match=r"(?s)dimension 2 of a, which has rank 2.*\[-2, 2\)"):
        tf.tensordot(x, x, [[2], [0]])
    with pytest.raises(ValueError, match=r"(?s)axes=3 for ranks 2 and 2"):
        tf.tensordot(x, x, 3)
    axes = tf.placeholder(tf.int32)
    with tf.Session() as session:
        assert session.run(tf.tensordot(x, x, axes), {axes: [[0], [0]]}).shape == (3, 3)
        for given in (1, [1], [[0, 1]], [0, 1], [[0], [7]]):
            with pytest.raises(tf.errors.InvalidArgumentError, match=r"Tensordot|tensordot"):
                session.run(tf.tensordot(x, x, axes), {axes: given})


@pytest.mark.parametrize("axes", [0, 1, 2, [[1], [0]], [[-1, 0], [1, 0]], np.array([[2], [0]])])
def test_tensordot_of_unknown_ranks_and_axes(axes):
    rng = np.random.RandomState(0)
    a, b = rng.rand(3, 4, 4), rng.rand(4, 4, 3)
    if np.ndim(axes) and np.shape(axes)[1] == 2:
        a = rng.rand(4, 2, 4)
    x, y = tf.placeholder(tf.float64), tf.placeholder(tf.float64)
    ends = tf.placeholder(tf.int32, np.shape(axes))
    with tf.Session() as session:
        expected = np.tensordot(a, b, np.asarray(axes).tolist())
        np.testing.assert_allclose(session.run(tf.tensordot(x, y, axes), {x: a, y: b}), expected)
        np.testing.assert_allclose(session.run(tf.tensordot(x, y, ends), {x: a, y: b, ends: axes}), expected)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk", [(2, 3), (3, 4)]), ("ij,jk->ki", [(2, 3), (3, 4)]), ("ba", [(2, 3)]), ("ii", [(3, 3)]),
        ("ij,jk,kl", [(2, 3), (3, 4), (4, 5)]), ("i,i,i->i", [(3,), (3,), (3,)]), ("a,b,c->abc", [(2,), (3,), (4,)]),
        ("bij,bjk,k->bi", [(2, 3, 4), (2, 4, 5), (5,)]), ("ij,jk,kl,lm->im", [(2, 3), (3, 2), (2, 3), (3, 2)]),
        ("... i j , ... j k -> ... i k", [(5, 2, 3), (5, 3, 4)]), ("...ij,jk,...k->...i", [(5, 2, 3), (3, 4), (5, 4)]),
    ],
)  # fmt: skip
def test_einsum(equation, shapes):
    arrays = [sample(*shape, seed=i) for i, shape in enumerate(shapes)]
    found = tf.einsum(equation, *arrays)
    wanted = np.einsum(equation.replace(" ", ""), *arrays)
    assert found._shape == wanted.shape
    np.testing.assert_allclose(run(found), wanted, rtol=1e-10)
    assert all(op.get_attr("N") <= 2 for op in found.graph.get_operations() if op.type == "Einsum")


def test_einsum_of_unknown_shapes():
    arrays = [sample(2, 3), sample(3, 4, seed=1), sample(4, seed=2)]
    xs = [tf.placeholder(tf.float64, shape) for shape in ([None, None], None, [None])]
    found = tf.einsum("ij,jk,k->i", *xs, name="chain")
    gradients = tf.gradients(found, xs)
    got = run([found, *gradients], dict(zip(xs, arrays, strict=True)))
    np.testing.assert_allclose(got[0], arrays[0] @ arrays[1] @ arrays[2], rtol=1e-12)
    np.testing.assert_allclose(got[2], np.outer(arrays[0].sum(0), arrays[2]), rtol=1e-12)
    assert found.op.name.startswith("chain/")


def test_einsum_gradient_of_three():
    check_gradients(lambda a, b, c: tf.einsum("ij,jk,ik->i", a, b, c), [sample(2, 3), sample(3, 4), sample(2, 4)])


@pytest.mark.parametrize(
    ("equation", "text"),
    [
        ("ij,jk->iz", "label 'z' which is not present in the input"),
        ("ij->i", r"Got 2 inputs for equation .ij->i., expecting 1"),
        ("i.j,jk->ik", r"letters and at most one '\.\.\.'"),
        ("ijk,jk->ik", r"(?s)operand 0 of shape \[2,3\] for 'ijk'.*rank 3"),
        ("ij,ik->jk", r"(?s)Dimensions must be equal, but are 2 and 3.*label 'i'"),
        ("ij->jk->ik", "Expecting exactly one '->'"),
    ],
)
def test_einsum_errors(equation, text):
    with pytest.raises(ValueError, match=text):
        tf.einsum(equation, tf.zeros([2, 3]), tf.zeros([3, 4]))


def test_einsum_keywords():
    with pytest.raises(TypeError, match=r"(?s)invalid keyword arguments.*axis"):
        tf.einsum("i->i", tf.zeros([2]), axis=1)
    assert tf.einsum("i->i", tf.zeros([2]), optimize="optimal", name="same")._shape == (2,)


@pytest.mark.parametrize("tier", TIERS)
def test_einsum_kernel_refuses_shapes(tier):
    x = np.zeros((2, 3), np.float32)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Expected input of rank 1 for the labels i, got rank 2"):
        run_op("Einsum", x, equation="i->i", N=1, tier=tier)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Dimensions must be equal, but are 3 and 2"):
        run_op("Einsum", x, x, equation="ij,jk->ik", N=2, tier=tier)


@pytest.mark.parametrize("shape", [(128, 30, 10), (1, 5, 7), (0, 3, 4), (5, 0, 4), (3, 4, 0)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("tier", TIERS)
def test_products_that_begin_with_a_transposed_matrix(shape, dtype, tier):
    inner, rows, columns = shape
    a, b = sample(inner, rows).astype(dtype), sample(inner, columns, seed=1).astype(dtype)
    found = run_op("MatMul", a, b, transpose_a=True, tier=tier)
    np.testing.assert_allclose(found, a.T @ b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("left", "right", "options"),
    [
        ((300, 4, 4), (300, 4, 4), {}),
        ((20, 30, 4, 4), (30, 4, 5), {}),
        ((300, 7, 1, 3, 4), (1, 7, 2, 3, 5), {"adjoint_a": True}),
        ((300, 5, 16), (300, 64, 16), {"transpose_b": True}),
        ((300, 1, 2), (300, 2, 2), {}),
        ((2, 300, 3, 1), (1, 1, 1, 3), {}),
        ((3000, 3), (3, 3), {}),
        ((2048, 5), (16, 5), {"transpose_b": True}),
        ((1, 2100), (1, 2), {"adjoint_a": True}),
    ],
)
def test_many_small_matrices_and_tall_ones_of_few_columns(left, right, options):
    random = np.random.RandomState(0)
    a, b = (random.standard_normal(shape).astype(np.float32) for shape in (left, right))
    given = [tf.placeholder(tf.float32, left), tf.placeholder(tf.float32, right)]
    product = tf.matmul(*given, **options)
    slopes = tf.gradients(product, given, tf.cos(product))
    found = {}
    for tier in ("interpreted", "compiled"):
        with tf.Session(config=tf.SessionOptions(tier=tier)) as session:
            found[tier] = session.run([product, *slopes], dict(zip(given, (a, b), strict=True)))
    wide = [x.astype(np.float64) for x in (a, b)]
    wide = [np.swapaxes(wide[0], -1, -2) if "adjoint_a" in options else wide[0], wide[1]]
    wide[1] = np.swapaxes(wide[1], -1, -2) if options.get("transpose_b") else wide[1]
    np.testing.assert_allclose(found["compiled"][0], wide[0] @ wide[1], rtol=1e-4, atol=1e-5)
    for one, other in zip(found["compiled"], found["interpreted"], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3)
    a.flat[0], b.flat[1] = np.nan, np.inf
    with tf.Session(config=tf.SessionOptions(tier="compiled")) as session, np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(
            np.isfinite(session.run(product, dict(zip(given, (a, b), strict=True)))),
            np.isfinite(
                (np.swapaxes(a, -1, -2) if "adjoint_a" in options else a)
                @ (np.swapaxes(b, -1, -2) if options.get("transpose_b") else b)
            ),
        )


@pytest.mark.parametrize(
    ("shapes", "adjoints", "expected"),
    [
        ((None, [4, 1]), (False, False), [None, 1]),
        ((None, [5, 4, 1]), (False, True), [5, None, 4]),
        (([5, 4, 1], None), (False, False), [5, 4, None]),
        (([5, 4, 1], None), (True, False), [5, 1, None]),
        ((None, None), (False, False), None),
    ],
)
def test_operands_of_a_product_of_equal_batches_are_of_one_rank(shapes, adjoints, expected):
    """What TensorFlow 1.15.5 infers."""
    with tf.Graph().as_default():
        x, y = (tf.placeholder(tf.float32, shape) for shape in shapes)
        found = build("BatchMatMul", x, y, adj_x=adjoints[0], adj_y=adjoints[1]).shape
        assert (None if found.ndims is None else found.as_list()) == expected
