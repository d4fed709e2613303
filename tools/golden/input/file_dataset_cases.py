"""Pipelines that read files, whose elements `tools/golden/input/file_datasets.py` notes from TensorFlow 1.15.

Each is an expression of `tf`, `np`, `D` (`tf.data.Dataset`), `X` (`tf.data.experimental`) and `F`, which gives the path
of a file that :func:`write_files` has made.
"""

import gzip
import os
import sqlite3
import zlib

TEXT = {
    "a.txt": b"one\ntwo\n\nthree",
    "b.txt": b"four\r\nfi\rve\r\n",
    "c.txt": b"",
    "d.txt": b"\n\nx\n",
    "plain.csv": b"1,2.5,a\n-4,1e3,b b\n,,\n7,nan,last",
    "quoted.csv": b'1,2,"a,b"\n3,4,"say ""hi"""\n5,6,"two\nlines"\n7,8,""\n',
    "returns.csv": b"1,2,x\r\n3,4,y\r5,6,z\r\n",
    "header.csv": b"a,b,c\n1,2,x\n3,4,y\n",
    "header2.csv": b"a,b,c\n5,6,z\n",
    "semicolon.csv": b"1;2;x\nNA;4;NA\n",
    "short.csv": b"1,2,x\n3,4\n5,6,z\n",
    "long.csv": b"1,2,x\n3,4,y,9\n5,6,z\n",
    "number.csv": b"1,2,x\nq,4,y\n5,6,z\n",
    "quote_inside.csv": b'1,2,x\n3,4,y"y\n5,6,z\n',
    "quote_behind.csv": b'1,2,x\n3,"4"4,y\n5,6,z\n',
    "open_quote.csv": b'1,2,x\n3,4,"y\n5,6,z\n',
    "blank.csv": b"1\n\n3\n",
    "blank3.csv": b"1,2,x\n\n5,6,z\n",
    "comma_end.csv": b"1,2,\n3,4,",
    "wide.csv": b"0,1,2,3,4\n5,6,7,8,9\n",
    "types.csv": b"2147483647,9223372036854775807,1.5,2.25,t\n",
    "large.csv": b"2147483648,1,1,1,t\n",
    "spaces.csv": b" 1, 2, x\n3 ,4 , y\n",
    "train.csv": b"age,name,score,big\n1,ann,0.5,1\n2,bob,1.5,2\n3,,2.5,30000000000\n4,dan,,4\n5,eve,4.5,5\n",
    "train2.csv": b"age,name,score,big\n6,fay,5.5,6\n7,gil,6.5,7\n",
}
RECORDS = {"r1": [b"a", b"", b"ccc"], "r2": [b"d" * 300, b"e"], "r3": [b"%d" % i for i in range(7)]}


def write_files(tf, folder):
    """Makes the files; returns what gives the path of one."""

    def path(name):
        return os.path.join(folder, name)

    for name, data in TEXT.items():
        with open(path(name), "wb") as file:
            file.write(data)
    for name in ("a.txt", "plain.csv"):
        with open(path(name), "rb") as file, gzip.open(path(name + ".gz"), "wb") as packed:
            packed.write(file.read())
        with open(path(name), "rb") as file, open(path(name + ".z"), "wb") as packed:
            packed.write(zlib.compress(file.read()))
    for name, records in RECORDS.items():
        for kind in ("", "GZIP", "ZLIB"):
            options = tf.python_io.TFRecordOptions(getattr(tf.python_io.TFRecordCompressionType, kind or "NONE"))
            with tf.python_io.TFRecordWriter(path(name + kind), options) as writer:
                for record in records:
                    writer.write(record)
    with open(path("r2"), "rb") as file:
        whole = file.read()
    for name, data in {
        "cut": whole[:100],
        "cut_header": whole[:5],
        "cut_end": whole[:-1],
        "bad_length": b"\x01" + whole[1:],
        "bad_data": whole[:20] + b"\0" + whole[21:],
    }.items():
        with open(path(name), "wb") as file:
            file.write(data)
    fixed = {"f1": b"HDaabbccF", "f2": b"HDddF", "f3": b"HDF", "f4": b"HDaabF", "f5": b"H"}
    for name, data in fixed.items():
        with open(path(name), "wb") as file:
            file.write(data)
        with gzip.open(path(name + ".gz"), "wb") as packed:
            packed.write(data)
    _write_database(path("people.db"))
    _write_examples(tf, path("examples"), range(6))
    _write_examples(tf, path("examples2"), range(6, 9))
    return path


def _write_database(path):
    connection = sqlite3.connect(path)
    connection.execute("create table people (id integer, name text, score real, flag integer, data blob)")
    rows = [
        (1, "Ann", 0.5, 1, b"\0\1"),
        (2, "B\u00f6b", -1e300, 0, b""),
        (3, None, None, None, None),
        (2**40 + 5, "12abc", 2.75, 300, b"7"),
    ]
    connection.executemany("insert into people values (?, ?, ?, ?, ?)", rows)
    connection.commit()
    connection.close()


def _write_examples(tf, path, numbers):
    with tf.python_io.TFRecordWriter(path) as writer:
        for i in numbers:
            example = tf.train.Example()
            feature = example.features.feature
            feature["n"].int64_list.value.append(i)
            feature["x"].float_list.value.extend([i + 0.5, -i])
            feature["tags"].bytes_list.value.extend([b"t%d" % j for j in range(i % 3)])
            if i % 2:
                feature["odd"].int64_list.value.append(i)
            writer.write(example.SerializeToString())


_DEFAULTS = "[[0], [0.0], ['']]"
_REQUIRED = "[tf.int32, tf.int32, tf.string]"
_PEOPLE = "X.SqlDataset('sqlite', F('people.db'), "
_FEATURES = (
    "{'n': tf.FixedLenFeature([], tf.int64), 'x': tf.FixedLenFeature([2], tf.float32), "
    "'tags': tf.VarLenFeature(tf.string), 'odd': tf.FixedLenFeature([], tf.int64, -1)}"
)

CASES = {
    # --------------------------------------------------------------------------------------------------------- lines
    "lines": "tf.data.TextLineDataset(F('a.txt'))",
    "lines_files": "tf.data.TextLineDataset([F('a.txt'), F('c.txt'), F('b.txt'), F('d.txt')])",
    "lines_gzip": "tf.data.TextLineDataset([F('a.txt.gz')] * 2, compression_type='GZIP')",
    "lines_zlib": "tf.data.TextLineDataset(F('a.txt.z'), 'ZLIB', buffer_size=3)",
    "lines_none": "tf.data.TextLineDataset(tf.zeros([0], tf.string))",
    "lines_batch": "tf.data.TextLineDataset([F('a.txt'), F('b.txt')]).batch(3)",
    "lines_shuffle": "tf.data.TextLineDataset([F('a.txt'), F('b.txt')]).shuffle(3, seed=1).repeat(2)",
    "lines_small_buffer": "tf.data.TextLineDataset(F('b.txt'), buffer_size=2)",
    "lines_of_dataset": "D.from_tensor_slices([F('a.txt'), F('d.txt')]).flat_map(tf.data.TextLineDataset)",
    "lines_from_dataset": "tf.data.TextLineDataset(D.from_tensor_slices([F('a.txt'), F('d.txt')]))",
    "lines_parallel": "tf.data.TextLineDataset([F('a.txt'), F('b.txt'), F('d.txt')], num_parallel_reads=2)",
    "lines_skip": "D.from_tensor_slices([F('a.txt'), F('b.txt')])"
    ".flat_map(lambda f: tf.data.TextLineDataset(f).skip(1))",
    "lines_missing": "tf.data.TextLineDataset([F('a.txt'), F('nothing')])",
    "lines_bad_compression": "tf.data.TextLineDataset(F('a.txt'), compression_type='LZ4')",
    "lines_not_gzip": "tf.data.TextLineDataset(F('a.txt'), compression_type='GZIP')",
    # ------------------------------------------------------------------------------------------------------- records
    "records": "tf.data.TFRecordDataset([F('r1'), F('r2')])",
    "records_one": "tf.data.TFRecordDataset(F('r1'))",
    "records_gzip": "tf.data.TFRecordDataset([F('r1GZIP'), F('r3GZIP')], compression_type='GZIP')",
    "records_zlib": "tf.data.TFRecordDataset([F('r1ZLIB')], 'ZLIB', 7)",
    "records_batch": "tf.data.TFRecordDataset([F('r1'), F('r3')]).batch(4).repeat(2)",
    "records_parallel": "tf.data.TFRecordDataset([F('r3'), F('r1'), F('r3'), F('r2')], num_parallel_reads=2)",
    "records_parallel_one": "tf.data.TFRecordDataset([F('r3'), F('r1')], num_parallel_reads=1)",
    "records_parallel_many": "tf.data.TFRecordDataset([F('r3'), F('r1')], num_parallel_reads=8)",
    "records_from_dataset": "tf.data.TFRecordDataset(D.from_tensor_slices([F('r1'), F('r2')]))",
    "records_missing": "tf.data.TFRecordDataset(F('nothing'))",
    "records_cut": "tf.data.TFRecordDataset([F('r1'), F('cut'), F('r1')])",
    "records_cut_end": "tf.data.TFRecordDataset(F('cut_end'))",
    "records_bad_length": "tf.data.TFRecordDataset(F('bad_length'))",
    "records_bad_data": "tf.data.TFRecordDataset(F('bad_data'))",
    "records_ignore_errors": "tf.data.TFRecordDataset([F('r1'), F('cut'), F('r1')]).apply(X.ignore_errors())",
    # --------------------------------------------------------------------------------------------------------- fixed
    "fixed": "tf.data.FixedLengthRecordDataset([F('f1'), F('f2'), F('f3')], 2, 2, 1)",
    "fixed_plain": "tf.data.FixedLengthRecordDataset(F('f1'), 3)",
    "fixed_gzip": "tf.data.FixedLengthRecordDataset([F('f1.gz'), F('f2.gz')], 2, 2, 1, compression_type='GZIP')",
    "fixed_torn": "tf.data.FixedLengthRecordDataset([F('f1'), F('f4'), F('f2')], 2, 2, 1)",
    "fixed_torn_gzip": "tf.data.FixedLengthRecordDataset([F('f1.gz'), F('f4.gz')], 2, 2, 1, compression_type='GZIP')",
    "fixed_zero": "tf.data.FixedLengthRecordDataset(F('f1'), 0)",
    "fixed_missing": "tf.data.FixedLengthRecordDataset(F('nothing'), 2)",
    "fixed_parallel": "tf.data.FixedLengthRecordDataset([F('f1'), F('f2')], 2, 2, 1, num_parallel_reads=2)",
    # --------------------------------------------------------------------------------------------------------- names
    "names": "D.list_files(F('*.txt'), shuffle=False).map(lambda f: tf.substr(f, -5, 5))",
    "names_shuffled": "D.list_files(F('*.csv'), seed=7).map(lambda f: tf.substr(f, -6, 6)).repeat(2)",
    "names_two": "D.list_files([F('?.txt'), F('r?')], shuffle=False).map(lambda f: tf.substr(f, -2, 2))",
    "names_none": "D.list_files(F('*.nothing'), shuffle=False)",
    # ----------------------------------------------------------------------------------------------------------- CSV
    "csv": f"X.CsvDataset(F('plain.csv'), {_DEFAULTS})",
    "csv_batch": f"X.CsvDataset([F('plain.csv')] * 2, {_DEFAULTS}).batch(3)",
    "csv_types": "X.CsvDataset(F('types.csv'), [tf.int32, tf.int64, tf.float32, tf.float64, tf.string])",
    "csv_overflow": "X.CsvDataset(F('large.csv'), [tf.int32, tf.int64, tf.float32, tf.float64, tf.string])",
    "csv_spaces": f"X.CsvDataset(F('spaces.csv'), {_DEFAULTS})",
    "csv_strings": "X.CsvDataset(F('spaces.csv'), ['', '', ''])",
    "csv_gzip": f"X.CsvDataset(F('plain.csv.gz'), {_DEFAULTS}, compression_type='GZIP')",
    "csv_zlib": f"X.CsvDataset(F('plain.csv.z'), {_DEFAULTS}, 'ZLIB', buffer_size=2)",
    "csv_quoted": f"X.CsvDataset(F('quoted.csv'), {_DEFAULTS})",
    "csv_quoted_small_buffer": f"X.CsvDataset(F('quoted.csv'), {_DEFAULTS}, buffer_size=1)",
    "csv_no_quotes": "X.CsvDataset(F('quoted.csv'), ['', '', ''], use_quote_delim=False)",
    "csv_returns": f"X.CsvDataset(F('returns.csv'), {_REQUIRED})",
    "csv_header": f"X.CsvDataset([F('header.csv'), F('header2.csv')], {_REQUIRED}, header=True)",
    "csv_header_unexpected": f"X.CsvDataset(F('header.csv'), {_REQUIRED})",
    "csv_delim": f"X.CsvDataset(F('semicolon.csv'), {_DEFAULTS}, field_delim=';', na_value='NA')",
    "csv_columns": "X.CsvDataset(F('wide.csv'), [tf.int32, tf.int32], select_cols=[1, 3])",
    "csv_columns_missing": "X.CsvDataset(F('wide.csv'), [tf.int32, tf.int32], select_cols=[1, 7])",
    "csv_columns_unread": "X.CsvDataset(F('number.csv'), [tf.int32], select_cols=[1])",
    "csv_required": f"X.CsvDataset(F('plain.csv'), {_REQUIRED})",
    "csv_short": f"X.CsvDataset(F('short.csv'), {_REQUIRED})",
    "csv_long": f"X.CsvDataset(F('long.csv'), {_REQUIRED})",
    "csv_number": f"X.CsvDataset(F('number.csv'), {_REQUIRED})",
    "csv_quote_inside": f"X.CsvDataset(F('quote_inside.csv'), {_REQUIRED})",
    "csv_quote_behind": f"X.CsvDataset(F('quote_behind.csv'), {_REQUIRED})",
    "csv_open_quote": f"X.CsvDataset(F('open_quote.csv'), {_REQUIRED})",
    "csv_blank": "X.CsvDataset(F('blank.csv'), [[9]])",
    "csv_blank_three": f"X.CsvDataset(F('blank3.csv'), {_DEFAULTS})",
    "csv_comma_end": f"X.CsvDataset(F('comma_end.csv'), {_DEFAULTS})",
    "csv_missing": f"X.CsvDataset(F('nothing'), {_DEFAULTS})",
    "csv_ignore_errors": f"X.CsvDataset([F('short.csv'), F('long.csv'), F('number.csv')], {_REQUIRED})"
    ".apply(X.ignore_errors())",
    "csv_ignore_quotes": f"X.CsvDataset([F('quote_inside.csv'), F('quote_behind.csv')], {_REQUIRED})"
    ".apply(X.ignore_errors())",
    "make_csv": "X.make_csv_dataset(F('train*.csv'), 3, shuffle=False, num_epochs=1)",
    "make_csv_label": "X.make_csv_dataset([F('train.csv')], 2, label_name='score', shuffle=False, num_epochs=1)",
    "make_csv_columns": "X.make_csv_dataset(F('train.csv'), 2, select_columns=['name', 'age'], shuffle=False, "
    "num_epochs=2)",
    "make_csv_defaults": "X.make_csv_dataset(F('train.csv'), 4, column_defaults=[0.0, 'none', tf.float64, tf.int64], "
    "shuffle=False, num_epochs=1).apply(X.ignore_errors())",
    "make_csv_names": "X.make_csv_dataset(F('plain.csv'), 4, column_names=['p', 'q', 'r'], header=False, "
    "shuffle=False, num_epochs=1)",
    "make_csv_shuffled": "X.make_csv_dataset(F('train.csv'), 2, shuffle_seed=5, shuffle_buffer_size=4, num_epochs=2)",
    "make_csv_sloppy": "X.make_csv_dataset(F('train.csv'), 2, shuffle=False, num_epochs=1, sloppy=True, "
    "num_rows_for_inference=1, field_delim=',', na_value='ann')",
    # ----------------------------------------------------------------------------------------------------------- SQL
    "sql": _PEOPLE + "'select id, name, score, flag from people order by id', "
    "(tf.int64, tf.string, tf.float64, tf.bool))",
    "sql_small": _PEOPLE + "'select flag, id, score from people order by id', (tf.uint8, tf.int32, tf.int16))",
    "sql_texts": _PEOPLE + "'select id, score, flag, data from people order by id', (tf.string,) * 4)",
    "sql_casts": _PEOPLE + "'select name, data, score from people order by id', (tf.int64, tf.float64, tf.int8))",
    "sql_constants": _PEOPLE + "'select 1.0, 1e20, 1.1, 100000.0, 123456789012345678, 0.1 + 0.2', (tf.string,) * 6)",
    "sql_one": _PEOPLE + "'select count(*) from people', (tf.int64,))",
    "sql_none": _PEOPLE + "'select id from people where id > 1000000000000000', (tf.int32,))",
    "sql_batch": _PEOPLE + "'select id, name from people order by id', (tf.int64, tf.string)).batch(3).repeat(2)",
    "sql_columns": _PEOPLE + "'select id, name from people', (tf.int64,))",
    "sql_wrong": _PEOPLE + "'select nothing from people', (tf.int64,))",
    "sql_no_query": _PEOPLE + "'sel', (tf.int64,))",
    "sql_driver": "X.SqlDataset('mysql', F('people.db'), 'select id from people', (tf.int64,))",
    "sql_missing": "X.SqlDataset('sqlite', F('nothing'), 'select id from people', (tf.int64,))",
    "sql_no_database": "X.SqlDataset('sqlite', F('wide.csv'), 'select id from people', (tf.int64,))",
    "sql_write": _PEOPLE + "'delete from people', (tf.int64,))",
    # ------------------------------------------------------------------------------------------------------ features
    "parse": f"tf.data.TFRecordDataset(F('examples')).batch(4).apply(X.parse_example_dataset({_FEATURES}))",
    "parse_parallel": f"tf.data.TFRecordDataset(F('examples')).batch(4)"
    f".apply(X.parse_example_dataset({_FEATURES}, num_parallel_calls=3))",
    "parse_bad": f"tf.data.TFRecordDataset(F('r1')).batch(4).apply(X.parse_example_dataset({_FEATURES}))",
    "features": f"X.make_batched_features_dataset(F('examples*'), 4, {_FEATURES}, shuffle=False, num_epochs=1)",
    "features_label": f"X.make_batched_features_dataset([F('examples')], 2, {_FEATURES}, label_key='n', "
    "shuffle=False, num_epochs=2)",
    "features_shuffled": f"X.make_batched_features_dataset(F('examples'), 4, {_FEATURES}, shuffle_seed=3, "
    "shuffle_buffer_size=3, num_epochs=2, drop_final_batch=True)",
    "features_lines": "X.make_batched_features_dataset(F('r1'), 2, {'n': tf.FixedLenFeature([], tf.int64)}, "
    "shuffle=False, num_epochs=1)",
    # -------------------------------------------------------------------------------------------------------- others
    "random": "X.RandomDataset(seed=5).take(6)",
    "random_batch": "X.RandomDataset(7).take(6).batch(4).repeat(2)",
    "counter": "X.Counter(3, -2, dtype=tf.int32).take(4)",
    "ignore_errors": "D.from_tensor_slices([1.0, 0.0, 4.0, float('nan'), 2.0]).map("
    "lambda x: tf.check_numerics(1.0 / x, 'bad')).apply(X.ignore_errors())",
    "ignore_errors_batch": "D.from_tensor_slices([1.0, 0.0, 4.0, 3.0, 2.0]).map("
    "lambda x: tf.check_numerics(1.0 / x, 'bad')).batch(2).apply(X.ignore_errors())",
    "cache_file": "D.range(5).map(lambda x: (x * 2, tf.as_string(x))).cache(F('cache')).repeat(2)",
    "cache_again": "D.range(3).map(lambda x: (x * 9, tf.as_string(x))).cache(F('cache'))",
}
