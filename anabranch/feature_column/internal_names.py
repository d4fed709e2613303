"""Classes of `tf.feature_column` under the names of TensorFlow's two modules, with and without an underscore."""

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
_FeatureColumn = FeatureColumn
_DenseColumn = DenseColumn
_CategoricalColumn = CategoricalColumn
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
