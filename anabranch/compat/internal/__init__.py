"""Internal modules of TensorFlow that libraries import from, where no module of ours has their functions already.

:mod:`anabranch.compat.internals` says which module of TensorFlow finds its names where.
"""
