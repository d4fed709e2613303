"""Matrices of checkpoints for other vocabularies, by the names of ``tensorflow.python.training.checkpoint_ops``."""

from anabranch.train.saving import vocabulary_changes

_load_and_remap_matrix = vocabulary_changes.load_and_remap_matrix
_load_and_remap_matrix_initializer = vocabulary_changes.load_and_remap_matrix_initializer
_load_embedding_initializer = vocabulary_changes.load_embedding_initializer
