"""The layers of ``tf.keras`` of version 1."""
