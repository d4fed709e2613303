"""Training: optimizers, learning rates, moving averages, clipping, the global step. All are plain graph programs."""

from anabranch.train import clipping, decay, global_step, moving_averages, optimizer, optimizers, slots  # noqa: F401
