"""Documents as rows of word numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from anabranch.contrib import learn
from anabranch.core import errors

processing = learn.preprocessing


def test_words_get_numbers_in_their_order() -> None:
    processor = processing.VocabularyProcessor(4)
    rows = np.array(list(processor.fit_transform(["the cat's hat", "the dog"])))
    assert rows.dtype == np.int64
    assert rows.tolist() == [[1, 2, 3, 0], [1, 4, 0, 0]]
    assert len(processor.vocabulary_) == 5
    assert next(processor.transform(["a new dog barks on the roof"])).tolist() == [0, 0, 4, 0]
    assert list(processor.reverse(rows)) == ["the cat's hat <UNK>", "the dog <UNK> <UNK>"]


def test_rare_words_are_left_out() -> None:
    processor = processing.VocabularyProcessor(3, min_frequency=1)
    processor.fit(["b a a", "b b c"])
    assert processor.vocabulary_.get("b") == 1
    assert processor.vocabulary_.get("a") == 2
    assert processor.vocabulary_.get("c") == 0


def test_saved_and_restored(tmp_path: Path) -> None:
    processor = processing.VocabularyProcessor(2).fit(["one two"])
    path = str(tmp_path / "vocabulary")
    processor.save(path)
    again = processing.VocabularyProcessor.restore(path)
    assert next(again.transform(["two one"])).tolist() == [2, 1]


def test_words() -> None:
    assert list(processing.tokenizer(["don't split-hairs, CamelCase 42"])) == [
        ["don't", "split-hairs", "Camel", "Case", "42"]
    ]


def test_bytes() -> None:
    processor = processing.ByteProcessor(4)
    rows = list(processor.fit_transform(["é!", b"abcdef"]))
    assert [row.tolist() for row in rows] == [[195, 169, 33, 0], [97, 98, 99, 100]]
    assert list(processor.reverse(rows)) == ["é!", "abcd"]


def test_words_by_number_on_request_only() -> None:
    vocabulary = processing.CategoricalVocabulary(support_reverse=False)
    vocabulary.add("x")
    with pytest.raises(ValueError, match="support_reverse=True"):
        vocabulary.reverse(1)


def test_tables_of_csv_files(tmp_path: Path) -> None:
    datasets = learn.datasets
    path = tmp_path / "table.csv"
    path.write_text("2,3,a,b\n1.5,2,3,0\n4,5,6,1\n")
    table = datasets.load_csv_with_header(str(path), np.int64, np.float32)
    np.testing.assert_array_equal(table.data, np.array([[1.5, 2, 3], [4, 5, 6]], np.float32))
    assert table.target.tolist() == [0, 1]
    assert table.target.dtype == np.int64
    path.write_text("0,1.5,2\n1,4,5\n")
    table = datasets.load_csv_without_header(str(path), np.int32, np.float64, target_column=0)
    assert table.data.tolist() == [[1.5, 2.0], [4.0, 5.0]]
    assert table.target.tolist() == [0, 1]
    path.write_text("3,2,a,b\n1,2,0\n")
    with pytest.raises(ValueError, match=r"1 rows of 2 features.*\n.*3 rows of 2"):
        datasets.load_csv_with_header(str(path), np.int64, np.float32)


def test_files_of_data_are_not_downloaded(tmp_path: Path) -> None:
    (tmp_path / "here").write_text("")
    assert learn.datasets.maybe_download("here", str(tmp_path), "http://a/here") == str(tmp_path / "here")
    with pytest.raises(errors.NotFoundError, match="nothing is downloaded"):
        learn.datasets.maybe_download("there", str(tmp_path), "http://a/there")
