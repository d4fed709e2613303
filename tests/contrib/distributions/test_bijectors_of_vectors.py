"""Bijectors of vectors and matrices, and those that learn: values, inverses, and determinants by gradients."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf

B = tf.contrib.distributions.bijectors
TRIANGLE = np.array([[0.7, 0.0, 0.0], [0.6, 1.2, 0.0], [-0.8, 1.3, 0.4]])
LINEAR = np.triu(np.random.default_rng(0).standard_normal((3, 3)), 1)


@pytest.fixture
def session():
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


def jacobian(session, y, x):
    """The matrix of derivatives of the elements of ``y`` with respect to those of ``x``."""
    elements = tf.unstack(tf.reshape(y, [-1]))
    rows = [tf.gradients(element, x)[0] for element in elements]
    return np.stack([np.zeros(x.shape) if row is None else session.run(row) for row in rows]).reshape(len(rows), -1)


def two_scales(x):
    """A shift and a scale of element i that elements before i decide."""
    return tf.matmul(x[tf.newaxis], LINEAR)[0], 0.3 * tf.matmul(x[tf.newaxis], LINEAR)[0]


VECTORS = {
    "Affine": (lambda: B.Affine(), lambda x: x),
    "Affine, identity": (lambda: B.Affine(np.array([1.0, 2, 3]), np.float64(2)), lambda x: [1, 2, 3] + 2 * x),
    "Affine, diagonal": (lambda: B.Affine(scale_diag=np.array([1.0, -2, 3])), lambda x: x * [1, -2, 3]),
    "Affine, triangle": (lambda: B.Affine(scale_tril=TRIANGLE), lambda x: TRIANGLE @ x),
    "Affine, all": (
        lambda: B.Affine(
            scale_tril=TRIANGLE,
            scale_identity_multiplier=np.float64(0.5),
            scale_diag=np.array([1.0, 2, 3]),
            scale_perturb_factor=np.array([[0.1], [0.2], [0.3]]),
            scale_perturb_diag=np.array([2.0]),
        ),
        lambda x: (TRIANGLE + np.diag([1.5, 2.5, 3.5]) + 2 * np.outer([0.1, 0.2, 0.3], [0.1, 0.2, 0.3])) @ x,
    ),
    "Affine, perturbed identity": (
        lambda: B.Affine(scale_perturb_factor=np.array([[0.1], [0.2], [0.3]])),
        lambda x: x + np.array([0.1, 0.2, 0.3]) * (x @ [0.1, 0.2, 0.3]),
    ),
    "AffineLinearOperator": (
        lambda: B.AffineLinearOperator(np.ones(3), tf.linalg.LinearOperatorLowerTriangular(TRIANGLE)),
        lambda x: 1 + TRIANGLE @ x,
    ),
    "Ordered": (lambda: B.Ordered(), lambda x: np.concatenate([x[:1], np.log(np.diff(x))])),
    "Permute": (lambda: B.Permute([2, 0, 1]), lambda x: x[[2, 0, 1]]),
    "Gumbel": (lambda: B.Gumbel(np.float64(0.5), np.float64(2)), lambda x: np.exp(-np.exp(-(x - 0.5) / 2))),
    "Kumaraswamy": (
        lambda: B.Invert(B.Kumaraswamy(np.float64(2), np.float64(3))),
        lambda x: 1 - (1 - x**2) ** 3,
    ),
    "SinhArcsinh": (
        lambda: B.SinhArcsinh(np.float64(0.3), np.float64(1.5)),
        lambda x: np.sinh((np.arcsinh(x) + 0.3) * 1.5),
    ),
    "RealNVP": (
        lambda: B.RealNVP(1, lambda x, units: (tf.concat([x] * units, -1), tf.concat([0.5 * x, 0.3 * x], -1))),
        lambda x: np.array([x[0], x[1] * np.exp(0.5 * x[0]) + x[0], x[2] * np.exp(0.3 * x[0]) + x[0]]),
    ),
    "MaskedAutoregressiveFlow": (lambda: B.MaskedAutoregressiveFlow(two_scales), None),
    "MaskedAutoregressiveFlow, unrolled": (
        lambda: B.MaskedAutoregressiveFlow(lambda x: (two_scales(x)[0], None), unroll_loop=True),
        None,
    ),
    "Reshape": (lambda: B.Reshape([3, 1]), lambda x: x[:, None]),
    "FillTriangular": (
        lambda: B.Chain([B.Invert(B.FillTriangular()), B.TransformDiagonal(B.Exp()), B.FillTriangular()]),
        lambda x: np.array([np.exp(x[0]), x[1], np.exp(x[2])]),
    ),
}


@pytest.mark.parametrize("name", VECTORS)
def test_bijectors_of_vectors(session, name):
    make, function = VECTORS[name]
    bijector, x = make(), tf.constant(np.array([0.2, 0.5, 0.9]))
    y = bijector.forward(x)
    given = tf.identity(y)
    out = session.run(y)
    if function is not None:
        np.testing.assert_allclose(out, function(session.run(x)), 1e-8)
    np.testing.assert_allclose(session.run(bijector.inverse(given)), session.run(x), 1e-6)
    extra = max(1, bijector.forward_min_event_ndims)
    after = extra - bijector.forward_min_event_ndims + bijector.inverse_min_event_ndims
    determinant = np.linalg.slogdet(jacobian(session, y, x))[1]
    np.testing.assert_allclose(session.run(bijector.forward_log_det_jacobian(x, extra)), determinant, 1e-5, 1e-7)
    np.testing.assert_allclose(session.run(bijector.inverse_log_det_jacobian(given, after)), -determinant, 1e-5, 1e-7)
    assert bijector.forward_event_shape(x.shape).as_list() == list(out.shape)
    assert bijector.inverse_event_shape(out.shape).as_list() == [3]
    assert session.run(bijector.forward_event_shape_tensor([3])).tolist() == list(out.shape)
    assert session.run(bijector.inverse_event_shape_tensor(out.shape)).tolist() == [3]


def test_bijectors_of_triangles(session):
    numbers = tf.constant(np.array([0.5, -0.3, 0.9, 0.2, 1.1, -0.7]))
    scale = B.ScaleTriL(diag_shift=np.float64(1e-5))
    triangle = scale.forward(numbers)
    plain = session.run(tf.contrib.distributions.fill_triangular(numbers))
    known = plain - np.diag(np.diag(plain)) + np.diag(np.log1p(np.exp(np.diag(plain))) + 1e-5)
    np.testing.assert_allclose(session.run(triangle), known, 1e-9)
    assert (scale.name, scale.forward_min_event_ndims, scale.inverse_min_event_ndims) == ("scale_tril", 1, 2)
    entries = tf.contrib.distributions.fill_triangular_inverse(triangle)
    determinant = np.linalg.slogdet(jacobian(session, entries, numbers))[1]
    np.testing.assert_allclose(session.run(scale.forward_log_det_jacobian(numbers, 1)), determinant, 1e-6)
    np.testing.assert_allclose(
        session.run(scale.inverse_log_det_jacobian(tf.identity(triangle), 2)), -determinant, 1e-6
    )
    np.testing.assert_allclose(session.run(scale.inverse(tf.identity(triangle))), session.run(numbers), 1e-6)

    product = B.CholeskyOuterProduct()
    root = tf.contrib.distributions.fill_triangular(numbers + 1)
    square = product.forward(root)
    lower = tf.stack([square[i, j] for i in range(3) for j in range(i + 1)])
    determinant = np.linalg.slogdet(jacobian(session, lower, numbers))[1]
    np.testing.assert_allclose(session.run(product.forward_log_det_jacobian(root, 2)), determinant, 1e-6)
    np.testing.assert_allclose(session.run(product.inverse(square)), session.run(root), 1e-6)

    inverse = B.MatrixInverseTriL()
    np.testing.assert_allclose(session.run(inverse.forward(TRIANGLE)), np.linalg.inv(TRIANGLE), 1e-9, 1e-12)
    np.testing.assert_allclose(
        session.run(inverse.forward_log_det_jacobian(TRIANGLE, 2)), -6 * np.log(np.diag(TRIANGLE)).sum(), 1e-9
    )


def test_the_absolute_value_has_two_inverses(session):
    bijector = B.AbsoluteValue()
    assert [part.tolist() for part in session.run(bijector.inverse([1.0, 2.0]))] == [[-1, -2], [1, 2]]
    assert [part.tolist() for part in session.run(bijector.inverse_log_det_jacobian([1.0, 2.0], 1))] == [0, 0]
    with pytest.raises(NotImplementedError, match="non-injective"):
        bijector.forward_log_det_jacobian([1.0], 0)


@pytest.mark.parametrize(
    ("arguments", "mask"),
    [
        ((3, 4, None, False), [[1, 1, 1, 1], [0, 1, 1, 1], [0, 0, 1, 1]]),
        ((3, 4, 3, True), [[0, 1, 1, 1], [0, 0, 1, 1], [0, 0, 0, 1]]),
        ((4, 4, 2, True), [[0, 0, 1, 1], [0, 0, 1, 1], [0, 0, 0, 0], [0, 0, 0, 0]]),
        ((5, 7, 2, False), [[1] * 7, [1] * 7, [0, 0, 0, 1, 1, 1, 1], [0, 0, 0, 1, 1, 1, 1], [0] * 7]),
    ],
)
def test_masked_layers(session, arguments, mask):
    inputs, units, blocks, exclusive = arguments
    B.masked_dense(tf.ones([1, inputs]), units, blocks, exclusive, tf.ones_initializer(), name="masked")
    kernel = tf.trainable_variables()[0]
    session.run(tf.global_variables_initializer())
    assert kernel.name == "masked/kernel:0"
    assert session.run(kernel).tolist() == mask
    constrained = kernel.constraint(tf.fill([inputs, units], 2.0))
    assert session.run(constrained).tolist() == (2.0 * np.array(mask)).tolist()


def test_networks_of_flows(session):
    x = tf.constant(np.array([[0.2, 0.5, 0.9]]))
    flow = B.MaskedAutoregressiveFlow(B.masked_autoregressive_default_template([6, 6]))
    coupling = B.RealNVP(1, B.real_nvp_default_template([4]))
    for bijector in (flow, coupling):
        y = bijector.forward(x)
        back, determinant = bijector.inverse(tf.identity(y)), bijector.forward_log_det_jacobian(x, 1)
        session.run(tf.global_variables_initializer())
        np.testing.assert_allclose(session.run(back), session.run(x), 1e-6)
        matrix = jacobian(session, y, x)
        assert np.allclose(np.triu(matrix, 1), 0)
        np.testing.assert_allclose(session.run(determinant), [np.linalg.slogdet(matrix)[1]], 1e-6, 1e-9)
    assert [variable.name for variable in tf.trainable_variables()][-1] == "real_nvp_default_template/dense_1/bias:0"


def test_batch_normalisation_is_undone(session):
    batch = np.random.default_rng(1).standard_normal((20, 3)) * [1, 2, 3] + 5
    bijector = B.BatchNormalization(tf.layers.BatchNormalization(axis=-1, momentum=0.0))
    normal = bijector.inverse(tf.constant(batch))
    determinant = bijector.inverse_log_det_jacobian(tf.constant(batch), 1)
    session.run(tf.global_variables_initializer())
    whitened, value, _ = session.run([normal, determinant, tf.get_collection(tf.GraphKeys.UPDATE_OPS)])
    np.testing.assert_allclose(whitened.std(0), 1, 1e-3)
    np.testing.assert_allclose(value, -0.5 * np.log(batch.var(0) + 1e-3).sum(), 1e-6)
    session.run(bijector.batchnorm.updates)
    restored = B.BatchNormalization(bijector.batchnorm, training=False).forward(tf.constant(whitened))
    np.testing.assert_allclose(session.run(restored), batch, 1e-4)


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: B.Permute([0, 0, 1]), ValueError, "exactly one of each"),
        (lambda: B.Permute([0.0, 1.0]), TypeError, "should be `int`-like"),
        (lambda: B.Reshape([-1, -1]), ValueError, "At most one dimension can be unknown"),
        (lambda: B.Reshape([2, 2], [4]).forward(tf.ones([3])), ValueError, "does not match `event_shape_in`"),
        (lambda: B.RealNVP(0, two_scales), ValueError, "must be a positive integer"),
        (lambda: B.RealNVP(3, two_scales).forward(tf.ones([3])), ValueError, "smaller than the event size"),
        (lambda: B.AffineLinearOperator(scale=2.0), TypeError, "not an instance of tf.LinearOperator"),
        (lambda: B.FillTriangular().forward_event_shape([2]), ValueError, "not a triangular number"),
        (lambda: B.BatchNormalization(tf.layers.BatchNormalization(renorm=True)), ValueError, "renormalization"),
        (lambda: B.masked_dense(tf.ones([1, 4]), 2, 3), ValueError, "3 blocks of 4 inputs and 2 units"),
    ],
)
def test_what_does_not_fit_is_refused(session, make, error, text):
    with pytest.raises(error, match=text):
        make()
