"""``tf.keras`` as programs of TensorFlow 1.x know it: layers on tensors of a graph, trained by sessions.

Keras 3 is eager or traced and its weights are values; a program of version 1 wants weights that are variables of its
graph under TensorFlow's names, ``model.output`` as a tensor that ``tf.gradients`` and ``Session.run`` take, and the
defaults and formulas of its time. So this is a layer set of its own on Anabranch's ops; ``docs/notes/0025-keras.md``
has the reasons. :mod:`~anabranch.keras.v1.names` says what each namespace holds.
"""
