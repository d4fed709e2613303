"""``tf.contrib.learn.preprocessing``: documents as rows of word numbers, for programs that train on text.

Plain Python and NumPy, outside the graph. A vocabulary that one program saved (pickled) another one restores.
"""

from __future__ import annotations

import collections
import pickle
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract import api
from anabranch.core.contract.api import public
from anabranch.platform import files

_WORDS = re.compile(r"[A-Z]{2,}(?![a-z])|[A-Z][a-z]+(?=[A-Z])|[\'\w\-]+", re.UNICODE)


@public("contrib.learn.preprocessing.tokenizer")
def tokenizer(iterator: Iterable[str]) -> Iterator[list[str]]:
    """The words of each text: runs of letters, digits, hyphens and apostrophes; ``CamelCase`` is two words."""
    for text in iterator:
        yield _WORDS.findall(text)


@public("contrib.learn.preprocessing.CategoricalVocabulary")
class CategoricalVocabulary:
    """Words and their numbers, in the order in which they were seen; 0 is the unknown word.

    Args:
        unknown_token: the word of number 0.
        support_reverse: keep the words by number too.
    """

    def __init__(self, unknown_token: str = "<UNK>", support_reverse: bool = True) -> None:
        self._unknown_token = unknown_token
        self._mapping: dict[Any, int] = {unknown_token: 0}
        self._support_reverse = support_reverse
        self._reverse_mapping = [unknown_token] if support_reverse else []
        self._freq: collections.defaultdict[Any, int] = collections.defaultdict(int)
        self._freeze = False

    def __len__(self) -> int:
        return len(self._mapping)

    def freeze(self, freeze: bool = True) -> None:
        """From now on, or no longer, words that are not there are the unknown word."""
        self._freeze = freeze

    def get(self, category: Any) -> int:
        """The number of a word, a new one if it is not there and the vocabulary is not frozen."""
        if category not in self._mapping:
            if self._freeze:
                return 0
            self._mapping[category] = len(self._mapping)
            if self._support_reverse:
                self._reverse_mapping.append(category)
        return self._mapping[category]

    def add(self, category: Any, count: int = 1) -> None:
        """Count a word, which gets a number; unknown words of a frozen vocabulary are not counted."""
        number = self.get(category)
        if number > 0:
            self._freq[category] += count

    def trim(self, min_frequency: int, max_frequency: int = -1) -> None:
        """Keep words seen more than ``min_frequency`` and less than ``max_frequency`` times, the frequent first."""
        frequent = sorted(self._freq.items(), key=lambda pair: pair[0])
        frequent.sort(key=lambda pair: pair[1], reverse=True)
        self._mapping = {self._unknown_token: 0}
        self._reverse_mapping = [self._unknown_token] if self._support_reverse else []
        self._freq = collections.defaultdict(int)
        for category, count in frequent:
            if count <= min_frequency or 0 < max_frequency <= count:
                continue
            self._mapping[category] = len(self._mapping)
            self._freq[category] = count
            if self._support_reverse:
                self._reverse_mapping.append(category)

    def reverse(self, class_id: int) -> Any:
        """The word of a number."""
        if not self._support_reverse:
            raise ValueError(
                errors.message(
                    "a vocabulary without words by number",
                    "a vocabulary that keeps its words",
                    "CategoricalVocabulary(support_reverse=True)",
                )
            )
        return self._reverse_mapping[class_id]


class _Documents:
    """What the processors of documents share: saving and restoring."""

    def save(self, filename: str) -> None:
        """Write the processor to a file."""
        with files.GFile(filename, "wb") as file:
            file.write(pickle.dumps(self))

    @classmethod
    def restore(cls, filename: str) -> Any:
        """Read a processor that :meth:`save` wrote. The file is a pickle: read none that you do not trust."""
        with files.GFile(filename, "rb") as file:
            return pickle.loads(file.read())

    def fit(self, raw_documents: Iterable[Any], unused_y: Any = None) -> Any:
        """Learn nothing more than its settings."""
        return self

    def transform(self, raw_documents: Iterable[Any]) -> Iterator[np.ndarray]:
        """A row of numbers for each document."""
        raise NotImplementedError

    def fit_transform(self, raw_documents: Iterable[Any], unused_y: Any = None) -> Iterator[np.ndarray]:
        """Learn from documents, then give their rows."""
        self.fit(raw_documents)
        return self.transform(raw_documents)


def _row(numbers: list[int], length: int) -> np.ndarray:
    row = np.zeros(length, np.int64)
    row[: len(numbers[:length])] = numbers[:length]
    return row


@public("contrib.learn.preprocessing.VocabularyProcessor")
class VocabularyProcessor(_Documents):
    """Documents as rows of word numbers of one length, zeros at the end.

    Args:
        max_document_length: the length; what is longer is cut.
        min_frequency: leave out words that are seen not more often.
        vocabulary: a :class:`CategoricalVocabulary` to use and extend.
        tokenizer_fn: makes lists of words of texts; :func:`tokenizer` by default.
    """

    def __init__(
        self,
        max_document_length: int,
        min_frequency: int = 0,
        vocabulary: CategoricalVocabulary | None = None,
        tokenizer_fn: Callable[[Iterable[Any]], Iterable[list[Any]]] | None = None,
    ) -> None:
        self.max_document_length = max_document_length
        self.min_frequency = min_frequency
        self.vocabulary_ = vocabulary or CategoricalVocabulary()
        self._tokenizer = tokenizer_fn or tokenizer

    def fit(self, raw_documents: Iterable[Any], unused_y: Any = None) -> VocabularyProcessor:
        """Learn the words of documents, and take no new ones then."""
        for words in self._tokenizer(raw_documents):
            for word in words:
                self.vocabulary_.add(word)
        if self.min_frequency > 0:
            self.vocabulary_.trim(self.min_frequency)
        self.vocabulary_.freeze()
        return self

    def transform(self, raw_documents: Iterable[Any]) -> Iterator[np.ndarray]:
        """A row ``[max_document_length]`` of int64 for each document."""
        for words in self._tokenizer(raw_documents):
            yield _row(
                [self.vocabulary_.get(word) for word in words[: self.max_document_length]], self.max_document_length
            )

    def reverse(self, documents: Iterable[Any]) -> Iterator[str]:
        """The words of rows of numbers, with blanks between them."""
        for numbers in documents:
            yield " ".join(str(self.vocabulary_.reverse(number)) for number in numbers)


@public("contrib.learn.preprocessing.ByteProcessor")
class ByteProcessor(_Documents):
    """Documents as rows of the bytes of their UTF-8 text.

    Args:
        max_document_length: the length; what is longer is cut.
    """

    def __init__(self, max_document_length: int) -> None:
        self.max_document_length = max_document_length

    def transform(self, raw_documents: Iterable[Any]) -> Iterator[np.ndarray]:
        """A row ``[max_document_length]`` of int64 for each document."""
        for text in raw_documents:
            data = text if isinstance(text, bytes) else text.encode()
            yield _row(list(data), self.max_document_length)

    def reverse(self, documents: Iterable[Any]) -> Iterator[str]:
        """The texts of rows of bytes, zeros at the end left out."""
        for numbers in documents:
            yield bytes(int(number) for number in numbers).rstrip(b"\0").decode(errors="replace")


__getattr__, __dir__ = api.module_attributes("contrib.learn.preprocessing")
