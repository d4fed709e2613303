"""Classes of `tf.feature_column` under the names of TensorFlow's two modules, with and without an underscore.

Columns of programs derive from `_DenseColumn` and `_CategoricalColumn`, and define what these names of TensorFlow's
say: `_transform_feature`, `_get_dense_tensor`, `_get_sparse_tensors`, `_variable_shape`, `_num_buckets`,
`_parse_example_spec`. Columns of ours count as instances of both forms.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from anabranch.feature_column import contract
from anabranch.feature_column.categorical import (
    HashedCategoricalColumn,
    IdentityCategoricalColumn,
    WeightedCategoricalColumn,
)
from anabranch.feature_column.contract import CategoricalColumn, DenseColumn, FeatureColumn, Transformed
from anabranch.feature_column.crossed import CrossedColumn
from anabranch.feature_column.embedding import EmbeddingColumn, IndicatorColumn, SharedEmbeddingColumn
from anabranch.feature_column.numeric import BucketizedColumn, NumericColumn
from anabranch.feature_column.sequence_columns import SequenceCategoricalColumn, SequenceNumericColumn
from anabranch.feature_column.vocabulary import VocabularyFileCategoricalColumn, VocabularyListCategoricalColumn

__all__ = ["SequenceNumericColumn"]


class _FeatureColumn(FeatureColumn):
    @property
    def parse_example_spec(self) -> dict[str, Any]:
        return self._parse_example_spec

    @property
    def scope_name(self) -> str:
        return self._var_scope_name

    @property
    def _var_scope_name(self) -> str:
        return self.name

    def transform(self, features: Transformed) -> Any:
        return self._transform_feature(features)


class _DenseColumn(_FeatureColumn, DenseColumn):
    @property
    def variable_shape(self) -> Any:
        return self._variable_shape

    def dense_tensor(self, features: Transformed, variables: contract.Variables) -> Any:
        return self._get_dense_tensor(features)


class _CategoricalColumn(_FeatureColumn, CategoricalColumn):
    IdWeightPair = contract.SparseInputs

    @property
    def num_buckets(self) -> int:
        return self._num_buckets

    def ids_and_weights(self, features: Transformed) -> contract.SparseInputs:
        return contract.SparseInputs(*self._get_sparse_tensors(features))


for _dense in (NumericColumn, BucketizedColumn, IndicatorColumn, EmbeddingColumn):
    _DenseColumn.register(_dense)
for _categorical in (
    BucketizedColumn,
    HashedCategoricalColumn,
    IdentityCategoricalColumn,
    WeightedCategoricalColumn,
    VocabularyListCategoricalColumn,
    VocabularyFileCategoricalColumn,
    CrossedColumn,
    SequenceCategoricalColumn,
):
    _CategoricalColumn.register(_categorical)
_FeatureColumn.register(SequenceNumericColumn)


def _transform_features(features: dict[Any, Any], feature_columns: Iterable[Any]) -> dict[Any, Any]:
    """The tensor of each column."""
    builder = Transformed(features)
    return {column: builder.get(column) for column in sorted(feature_columns, key=lambda column: column.name)}


_LazyBuilder = FeatureTransformationCache = Transformed
_NumericColumn = NumericColumn
_BucketizedColumn = BucketizedColumn
_HashedCategoricalColumn = HashedCategoricalColumn
_IdentityCategoricalColumn = IdentityCategoricalColumn
_WeightedCategoricalColumn = WeightedCategoricalColumn
_VocabularyListCategoricalColumn = VocabularyListCategoricalColumn
_VocabularyFileCategoricalColumn = VocabularyFileCategoricalColumn
_CrossedColumn = CrossedColumn
_IndicatorColumn = IndicatorColumn
_EmbeddingColumn = EmbeddingColumn
_SharedEmbeddingColumn = SharedEmbeddingColumn
_SequenceCategoricalColumn = SequenceCategoricalColumn
