"""Functions that version 2 gives another order of arguments, or fewer names for one, and no other meaning.

Libraries for both versions pass arguments by place, and some compare argument lists with those of functions of their
own. A row has the names that a function has in version 2, its argument list there (a default that is not a literal is a
name of the top), and what is different in ours: ``theirs=ours`` for an argument of another name, ``ours:value`` for one
that version 2 fixes. Arguments go to our function by name.
"""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Callable
from typing import Any

import anabranch as tf
from anabranch.compat.v2.namespaces import version_2

_ROWS = """
concat | values, axis, name="concat"
split | value, num_or_size_splits, axis=0, num=None, name="split"
batch_to_space | input, block_shape, crops, name=None
space_to_batch nn.space_to_batch | input, block_shape, paddings, name=None
tuple | tensors, control_inputs=None, name=None
hessians | ys, xs, gate_gradients=False, aggregation_method=None, name="hessians"
device | device_name | device_name=device_name_or_function
import_graph_def graph_util.import_graph_def | graph_def, input_map=None, return_elements=None, name=None,
    op_dict=None, producer_op_list=None
numpy_function | func, inp, Tout, name=None
assert_equal | x, y, message=None, summarize=None, name=None
assert_greater | x, y, message=None, summarize=None, name=None
assert_less | x, y, message=None, summarize=None, name=None
debugging.assert_near | x, y, rtol=None, atol=None, message=None, summarize=None, name=None
assert_rank debugging.assert_rank | x, rank, message=None, name=None
debugging.assert_rank_at_least | x, rank, message=None, name=None
debugging.assert_rank_in | x, ranks, message=None, name=None
debugging.assert_scalar | tensor, message=None, name=None
debugging.assert_all_finite | x, message, name=None | x=t message=msg
math.confusion_matrix | labels, predictions, num_classes=None, weights=None, dtype=int32, name=None
math.l2_normalize nn.l2_normalize linalg.l2_normalize | x, axis=None, epsilon=1e-12, name=None
math.softmax | logits, axis=None, name=None
linalg.diag | diagonal, name="diag", k=0, num_rows=-1, num_cols=-1, padding_value=0
linalg.diag_part | input, name="diag_part", k=0, padding_value=0
linalg.set_diag | input, diagonal, name="set_diag", k=0
linalg.tridiagonal_solve | diagonals, rhs, diagonals_format="compact", transpose_rhs=False, conjugate_rhs=False,
    name=None, partial_pivoting=True
random.poisson | shape, lam, dtype=float32, seed=None, name=None
nn.avg_pool2d | input, ksize, strides, padding, data_format="NHWC", name=None | input=value
nn.batch_norm_with_global_normalization | input, mean, variance, beta, gamma, variance_epsilon,
    scale_after_normalization, name=None | input=t mean=m variance=v
nn.conv2d_transpose | input, filters, output_shape, strides, padding="SAME", data_format="NHWC", dilations=None,
    name=None | input=value filters=filter
nn.conv3d | input, filters, strides, padding, data_format="NDHWC", dilations=None, name=None | filters=filter
nn.conv3d_transpose | input, filters, output_shape, strides, padding="SAME", data_format="NDHWC", dilations=None,
    name=None | input=value filters=filter
nn.crelu | features, axis=-1, name=None
nn.ctc_greedy_decoder | inputs, sequence_length, merge_repeated=True, blank_index=None
nn.nce_loss | weights, biases, labels, inputs, num_sampled, num_classes, num_true=1, sampled_values=None,
    remove_accidental_hits=False, name="nce_loss" | partition_strategy:"div"
nn.sampled_softmax_loss | weights, biases, labels, inputs, num_sampled, num_classes, num_true=1,
    sampled_values=None, remove_accidental_hits=True, seed=None, name="sampled_softmax_loss" |
    partition_strategy:"div"
nn.max_pool_with_argmax | input, ksize, strides, padding, data_format="NHWC", output_dtype=int64,
    include_batch_in_index=False, name=None
nn.sufficient_statistics | x, axes, shift=None, keepdims=False, name=None
nn.weighted_cross_entropy_with_logits | labels, logits, pos_weight, name=None
nn.weighted_moments | x, axes, frequency_weights, keepdims=False, name=None
image.crop_and_resize | image, boxes, box_indices, crop_size, method="bilinear", extrapolation_value=0, name=None |
    box_indices=box_ind
image.draw_bounding_boxes | images, boxes, colors, name=None
image.sample_distorted_bounding_box | image_size, bounding_boxes, seed=0, min_object_covered=0.1,
    aspect_ratio_range=None, area_range=None, max_attempts=None, use_image_if_no_bounding_boxes=None, name=None
io.decode_csv | records, record_defaults, field_delim=",", use_quote_delim=True, na_value="", select_cols=None,
    name=None
io.parse_example | serialized, features, example_names=None, name=None
io.parse_single_example | serialized, features, example_names=None, name=None
io.serialize_many_sparse | sp_input, out_type=string, name=None
io.serialize_sparse | sp_input, out_type=string, name=None
sparse.segment_mean | data, indices, segment_ids, num_segments=None, name=None
sparse.segment_sqrt_n | data, indices, segment_ids, num_segments=None, name=None
sparse.segment_sum | data, indices, segment_ids, num_segments=None, name=None
sparse.split | sp_input=None, num_split=None, axis=None, name=None
strings.length | input, unit="BYTE", name=None
strings.reduce_join | inputs, axis=None, keepdims=False, separator="", name=None
strings.substr | input, pos, len, unit="BYTE", name=None
strings.to_hash_bucket | input, num_buckets, name=None
strings.to_number | input, out_type=float32, name=None
test.assert_equal_graph_def | expected, actual
"""


def _default(node: ast.expr) -> Any:
    return getattr(tf, node.id) if isinstance(node, ast.Name) else ast.literal_eval(node)


def _signature(arguments: str) -> inspect.Signature:
    """The signature of an argument list."""
    (function,) = ast.parse(f"def _({arguments}): ...").body
    assert isinstance(function, ast.FunctionDef)
    names = [one.arg for one in function.args.args]
    defaults = [inspect.Parameter.empty] * (len(names) - len(function.args.defaults))
    values = [*defaults, *map(_default, function.args.defaults)]
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Signature(
        [inspect.Parameter(name, kind, default=value) for name, value in zip(names, values, strict=True)]
    )


def _function_of(name: str) -> Callable[..., Any]:
    value: Any = tf
    for part in name.split("."):
        value = getattr(value, part)
    return value


def _adapted(name: str, arguments: str, differences: str) -> Callable[..., Any]:
    """A function with version 2's argument list that calls ours, which is found at the first call."""
    signature = _signature(arguments)
    renamed = dict(item.split("=") for item in differences.split() if "=" in item)
    fixed = {
        key: ast.literal_eval(value) for key, _, value in (item.partition(":") for item in differences.split()) if value
    }
    last = name.rpartition(".")[2]

    @functools.cache
    def own() -> Callable[..., Any]:
        return _function_of(name)

    def function(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        given = set(bound.arguments)
        bound.apply_defaults()
        values = {
            renamed.get(key, key): value for key, value in bound.arguments.items() if value is not None or key in given
        }
        return own()(**values, **fixed)

    function.__name__ = function.__qualname__ = last
    function.__doc__ = f"``tf.compat.v1.{name}`` under version 2's argument list: ``{last}{signature}``."
    function.__signature__ = signature  # type: ignore[attr-defined]
    return function


ROWS = _ROWS.strip().replace("\n    ", " ").splitlines()
for _row in ROWS:
    _names, _arguments, *_differences = (part.strip() for part in _row.split(" | "))
    _first = _names.split()[0]
    version_2(*_names.split())(_adapted(_first, _arguments, " ".join(_differences)))
