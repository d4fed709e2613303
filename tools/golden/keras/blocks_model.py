"""The model of `write_weights.py`, for TensorFlow 1.15 and for the tests that read what it has written."""


def blocks(tf):
    """A subclassed model with layers as an attribute, in a list that is filled later, and in a dict."""

    class Blocks(tf.keras.Model):
        """Layers as an attribute, in a list that is filled later, and in a dict."""

        def __init__(self):
            super().__init__()
            self.first = tf.keras.layers.Dense(3, activation="tanh")
            self.blocks = []
            for _ in range(2):
                self.blocks.append(tf.keras.layers.Dense(2))
            self.heads = {"out": tf.keras.layers.Dense(1)}

        def call(self, x):
            """Apply them one after another."""
            x = self.first(x)
            for block in self.blocks:
                x = block(x)
            return self.heads["out"](x)

    return Blocks()
