"""What bijectors check of their arguments and inputs with `validate_args`, in TensorFlow's words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anabranch as tf
from anabranch.compat import hook

b = tf.contrib.distributions.bijectors


def hidden(*values: float) -> tf.Tensor:
    return tf.placeholder_with_default(np.array(values, np.float32), None)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda check: b.AbsoluteValue(check).inverse(hidden(-1.0))[1], "Argument y was negative"),
        (
            lambda check: b.AbsoluteValue(check).inverse_log_det_jacobian(hidden(-1.0), event_ndims=0)[0],
            "Argument y was negative",
        ),
        (lambda check: b.Softplus(hidden(0.0), check).forward(hidden(1.0)), "hinge_softness must be non-zero"),
        (lambda check: b.Softsign(check).inverse(hidden(-1.0)), "must be greater than -1"),
        (lambda check: b.Softsign(check).inverse(hidden(1.0)), "must be less than 1"),
        (
            lambda check: b.Softsign(check).inverse_log_det_jacobian(hidden(1.5), event_ndims=0),
            "must be less than 1",
        ),
        (lambda check: b.Square(check).forward(hidden(-1.0)), "All elements must be non-negative"),
        (lambda check: b.Square(check).inverse(hidden(-1.0)), "All elements must be non-negative"),
        (lambda check: b.Square(check).forward_log_det_jacobian(hidden(-1.0), event_ndims=0), "must be non-negative"),
        (lambda check: b.AffineScalar(0.0, hidden(0.0), check).forward(hidden(1.0)), "Argument scale was zero"),
        (lambda check: b.Gumbel(0.0, hidden(-1.0), check).forward(hidden(1.0)), "Argument scale was not positive"),
        (lambda check: b.Gumbel(0.0, 1.0, check).inverse(hidden(2.0)), "must be less than or equal to 1"),
        (lambda check: b.Kumaraswamy(hidden(-1.0), 1.0, check).forward(hidden(0.5)), "Concentration parameter must be"),
        (lambda check: b.Kumaraswamy(1.0, 1.0, check).forward(hidden(-0.5)), "sample must be non-negative"),
        (lambda check: b.Kumaraswamy(1.0, 1.0, check).inverse(hidden(1.5)), "sample must be no larger than `1`"),
        (lambda check: b.Weibull(1.0, 1.0, check).inverse(hidden(1.5)), "must be less than or equal to 1"),
        (lambda check: b.SinhArcsinh(0.0, hidden(0.0), check).forward(hidden(1.0)), "tailweight was not positive"),
        (
            lambda check: b.Affine(scale_identity_multiplier=hidden(0.0)[0], validate_args=check).forward(hidden(1.0)),
            "identity_multiplier should be non-zero",
        ),
        (
            lambda check: b.Affine(scale_diag=hidden(1.0, 0.0), validate_args=check).forward(tf.ones([2])),
            "diagonal part must be non-zero",
        ),
        (
            lambda check: b.Affine(scale_tril=tf.diag(hidden(1.0, 0.0)), validate_args=check).forward(tf.ones([2])),
            "diagonal part must be non-zero",
        ),
    ],
)
def test_what_is_checked(make: Any, words: str) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        session.run(make(False))
        with pytest.raises(tf.errors.InvalidArgumentError, match=words):
            session.run(make(True))


def test_checked_bijectors_give_the_same() -> None:
    x = np.array([0.25, 0.75], np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        for kind, arguments in (
            (b.Softplus, [0.5]),
            (b.Softsign, []),
            (b.Square, []),
            (b.AffineScalar, [1.0, 2.0]),
            (b.Gumbel, [0.5, 2.0]),
            (b.Kumaraswamy, [2.0, 3.0]),
            (b.Weibull, [2.0, 3.0]),
            (b.SinhArcsinh, [0.5, 2.0]),
        ):
            plain, checked = (kind(*arguments, validate_args=check) for check in (False, True))
            for bijector in (plain, checked):
                y = bijector.forward(tf.identity(x))
                back = bijector.inverse(tf.identity(y))
                sums = bijector.forward_log_det_jacobian(
                    tf.identity(x), event_ndims=0
                ) + bijector.inverse_log_det_jacobian(tf.identity(y), event_ndims=0)
                back, zero = session.run([back, sums])
                np.testing.assert_allclose(back, x, rtol=1e-4)
                np.testing.assert_allclose(zero + np.zeros(2), 0, atol=1e-4)


def test_weights_of_no_factor() -> None:
    with tf.Graph().as_default(), pytest.raises(ValueError, match="scale_perturb_factor must be specified"):
        b.Affine(scale_diag=[1.0, 2.0], scale_perturb_diag=[1.0])


def test_modules_of_bijectors_have_bijectors_where_distributions_have_the_name() -> None:
    for module, name in (("sinh_arcsinh", "SinhArcsinh"), ("kumaraswamy", "Kumaraswamy")):
        assert hook.resolve(f"contrib.distributions.python.ops.bijectors.{module}", name) is getattr(b, name)
        assert hook.resolve(f"contrib.distributions.python.ops.{module}", name) is not getattr(b, name)
