"""Importing this module makes ``import tensorflow`` mean Anabranch in this process.

>>> import anabranch.compat.tensorflow
>>> import tensorflow as tf
>>> tf.__version__
'1.15.0'

It raises ImportError if a TensorFlow is installed; ``anabranch.compat.hook.install(replace=True)`` insists.
"""

from anabranch.compat import hook

hook.install()
