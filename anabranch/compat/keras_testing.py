"""``tensorflow.python.keras.keras_parameterized``: a test case of graphs whose methods take parameters."""

from __future__ import annotations

from absl.testing import parameterized

import anabranch as tf


class TestCase(tf.test.TestCase, parameterized.TestCase):
    """``tf.test.TestCase`` with the decorators of ``absl.testing.parameterized``."""

    def tearDown(self) -> None:
        """Forget what Keras has built."""
        tf.keras.backend.clear_session()
        super().tearDown()
