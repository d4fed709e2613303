"""Rows of convolutions, poolings and morphology. References walk over every pair of an output entry and an entry of its
window.
"""

from __future__ import annotations

import itertools

import numpy as np

from anabranch.testing.op_cases import case, real, row, whole


def walk(sizes, windows, strides, dilations, padding, explicit):
    """Triples (output place, window place, input place) per dimension, and the output sizes."""
    per_axis, out = [], []
    for size, k, s, d, pair in zip(sizes, windows, strides, dilations, explicit, strict=True):
        extent = (k - 1) * d + 1
        if padding == "SAME":
            count = -(-size // s)
            before = max((count - 1) * s + extent - size, 0) // 2
        else:
            count, before = (size + sum(pair) - extent) // s + 1, pair[0]
        out.append(max(count, 0))
        per_axis.append([(o, t, o * s + t * d - before) for o in range(count) for t in range(k)])
    inside = [[hit for hit in hits if 0 <= hit[2] < size] for hits, size in zip(per_axis, sizes, strict=True)]
    return [tuple(zip(*hit, strict=True)) for hit in itertools.product(*inside)], tuple(out)


class Plan:
    """Attributes of a window op, resolved."""

    def __init__(
        self,
        rank,
        strides,
        padding,
        data_format=None,
        dilations=None,
        explicit_paddings=(),
        ksize=None,
        rates=None,
        **_,
    ):
        self.first = (data_format or "NHWC").startswith("NC")
        cut = (lambda v: v[2:]) if self.first else (lambda v: v[1:-1])
        self.strides, self.padding = cut(strides), padding
        self.dilations = cut(dilations or rates or [1] * rank)
        flat = list(explicit_paddings) or [0] * (2 * rank)
        self.explicit = cut(list(zip(flat[::2], flat[1::2], strict=True)))
        self.ksize = cut(ksize) if ksize else None

    def last(self, x):
        return np.moveaxis(x, 1, -1) if self.first else x

    def back(self, x):
        return np.moveaxis(x, -1, 1) if self.first else x

    def walk(self, sizes, windows):
        return walk(sizes, windows, self.strides, self.dilations, self.padding, self.explicit)


def product(kind):
    """The reference of one of a convolution's three products."""

    def reference(first, second, third=None, **attrs):
        rank = (third if third is not None else first).ndim
        plan = Plan(rank, **attrs)
        if kind == "forward":
            x, f, g = plan.last(first), second, None
        elif kind == "input":
            f, g = second, plan.last(third)
            shape = first.shape if first.ndim > 1 else tuple(int(i) for i in first)
            if len(shape) == rank - 2:
                x = np.zeros((g.shape[0], *shape, f.shape[-2]), g.dtype)
            else:
                x = plan.last(np.zeros(shape, g.dtype))
        else:
            x, g = plan.last(first), plan.last(third)
            f = np.zeros(second.shape if second.ndim > 1 else tuple(int(i) for i in second), g.dtype)
        hits, out = plan.walk(x.shape[1:-1], f.shape[:-2])
        each, groups = f.shape[-2], x.shape[-1] // max(f.shape[-2], 1)
        y = np.zeros((x.shape[0], *out, f.shape[-1]), x.dtype)
        dx, df, wide = np.zeros_like(x), np.zeros_like(f), f.shape[-1] // max(groups, 1)
        for o, t, i in hits:
            for group in range(groups):
                a, b = slice(group * each, (group + 1) * each), slice(group * wide, (group + 1) * wide)
                at_x, at_y, at_f = (slice(None), *i, a), (slice(None), *o, b), (*t, slice(None), b)
                if kind == "forward":
                    y[at_y] += x[at_x] @ f[at_f]
                elif kind == "input":
                    dx[at_x] += g[at_y] @ f[at_f].T
                else:
                    df[at_f] += x[at_x].T @ g[at_y]
        return {"forward": plan.back(y), "input": plan.back(dx), "filter": df}[kind]

    return reference


def depthwise(kind):
    """The same for each channel with filters of its own, as a grouped convolution."""

    def grouped(shape):
        return (*shape[:2], 1, shape[2] * shape[3])

    def reference(first, second, third=None, **attrs):
        if kind == "filter":
            sizes = tuple(int(i) for i in second)
            return product(kind)(first, np.array(grouped(sizes)), third, **attrs).reshape(sizes)
        return product(kind)(first, second.reshape(grouped(second.shape)), third, **attrs)

    return reference


def out_shape(x, f, attrs, features):
    plan = Plan(len(x), **attrs)
    last = (x[0], *x[2:], x[1]) if plan.first else x
    spatial = plan.walk(last[1:-1], f[:-2])[1]
    return (x[0], features, *spatial) if plan.first else (x[0], *spatial, features)


CONVOLUTIONS = [
    ((2, 4, 5, 2), (3, 2, 2, 3), {"strides": [1, 1, 1, 1], "padding": "SAME"}),
    ((1, 5, 5, 2), (3, 3, 2, 2), {"strides": [1, 2, 2, 1], "padding": "SAME"}),
    ((1, 6, 7, 1), (2, 3, 1, 2), {"strides": [1, 3, 2, 1], "padding": "VALID"}),
    ((1, 7, 6, 2), (2, 3, 2, 1), {"strides": [1, 1, 1, 1], "padding": "VALID", "dilations": [1, 3, 2, 1]}),
    ((1, 6, 6, 1), (3, 2, 1, 1), {"strides": [1, 2, 1, 1], "padding": "SAME", "dilations": [1, 2, 2, 1]}),
    ((2, 2, 4, 5), (3, 3, 2, 3), {"strides": [1, 1, 2, 1], "padding": "SAME", "data_format": "NCHW"}),
    (
        (1, 4, 4, 2),
        (3, 3, 2, 2),
        {"strides": [1, 2, 1, 1], "padding": "EXPLICIT", "explicit_paddings": [0, 0, 2, 1, 0, 3, 0, 0]},
    ),
    ((2, 3, 4, 4), (2, 2, 2, 6), {"strides": [1, 1, 1, 1], "padding": "SAME"}),
    ((1, 4, 4, 3), (3, 3, 1, 6), {"strides": [1, 2, 2, 1], "padding": "SAME"}),
    ((2, 3, 4, 3), (1, 1, 3, 2), {"strides": [1, 2, 2, 1], "padding": "VALID"}),
    ((0, 3, 3, 2), (2, 2, 2, 2), {"strides": [1, 1, 1, 1], "padding": "SAME"}),
]
VOLUMES = [
    ((1, 3, 4, 3, 2), (2, 3, 2, 2, 2), {"strides": [1, 1, 1, 1, 1], "padding": "SAME"}),
    ((1, 5, 4, 3, 1), (3, 2, 3, 1, 2), {"strides": [1, 2, 2, 1, 1], "padding": "SAME"}),
    ((1, 4, 4, 4, 1), (2, 2, 2, 1, 1), {"strides": [1, 1, 1, 1, 1], "padding": "VALID", "dilations": [1, 2, 1, 2, 1]}),
    ((1, 2, 3, 3, 2), (1, 1, 1, 2, 3), {"strides": [1, 1, 2, 2, 1], "padding": "VALID"}),
]
CHANNELS_FIRST = (
    (1, 2, 3, 4, 3),
    (2, 2, 2, 2, 2),
    {"strides": [1, 1, 1, 1, 2], "padding": "SAME", "data_format": "NCDHW"},
)
DEPTHWISE = [
    ((2, 4, 5, 2), (3, 2, 2, 2), {"strides": [1, 1, 1, 1], "padding": "SAME"}),
    ((1, 5, 5, 3), (3, 3, 3, 1), {"strides": [1, 2, 2, 1], "padding": "SAME"}),
    ((1, 6, 7, 2), (5, 4, 2, 2), {"strides": [1, 2, 1, 1], "padding": "SAME"}),
    ((1, 6, 6, 2), (5, 5, 2, 1), {"strides": [1, 1, 1, 1], "padding": "SAME"}),
    ((1, 5, 6, 2), (2, 3, 2, 1), {"strides": [1, 1, 1, 1], "padding": "VALID", "dilations": [1, 2, 2, 1]}),
    ((1, 2, 4, 4), (2, 2, 2, 2), {"strides": [1, 1, 3, 3], "padding": "VALID", "data_format": "NCHW"}),
    (
        (1, 4, 4, 2),
        (3, 3, 2, 1),
        {"strides": [1, 2, 1, 1], "padding": "EXPLICIT", "explicit_paddings": [0, 0, 2, 1, 0, 3, 0, 0]},
    ),
    ((0, 3, 3, 2), (2, 2, 2, 2), {"strides": [1, 1, 1, 1], "padding": "SAME"}),
]


def forward(table):
    return [case(real(*x), real(*f), **attrs) for x, f, attrs in table]


def to_input(table, features=lambda f: f[-1], by_shape=True):
    """Cases of an input gradient; ``features`` counts the output's channels."""
    return [
        case(
            np.array(x, np.int32) if by_shape else real(*x),
            real(*f),
            real(*out_shape(x, f, attrs, features(f))),
            **attrs,
        )
        for x, f, attrs in table
    ]


def to_filter(table, features=lambda f: f[-1], by_shape=True):
    return [
        case(
            real(*x),
            np.array(f, np.int32) if by_shape else real(*f),
            real(*out_shape(x, f, attrs, features(f))),
            **attrs,
        )
        for x, f, attrs in table
    ]


def multiplied(f):
    return f[2] * f[3]


TWO_SIZES = case(np.array([5, 6], np.int32), real(2, 2, 3, 2), real(2, 5, 6, 2), strides=[1, 1, 1, 1], padding="SAME")


# --------------------------------------------------------------------------------------------------------------- pools
def pool(kind):
    """The reference of a pooling or one of its gradients: max, max_grad, max_gather, argmax, mean, mean_grad."""

    def reference(first, second=None, third=None, include_batch_in_index=False, **attrs):
        rank = (second if kind == "mean_grad" else first).ndim
        if rank == 4 and attrs["ksize"][-1] > 1 and "data_format" not in attrs:  # columns of the channels of each place
            rows, together = int(np.prod(first.shape[:-1])), attrs["ksize"][-1]
            columns = [None if a is None else a.reshape(rows, a.shape[-1], 1, 1) for a in (first, second, third)]
            window = [1, together, 1, 1]
            found = reference(*columns, ksize=window, strides=window, padding="VALID")
            return found.reshape(*first.shape[:-1], found.shape[1])
        plan = Plan(rank, **attrs)
        x = plan.last(np.zeros(tuple(int(i) for i in first), second.dtype) if kind == "mean_grad" else first)
        hits, out = plan.walk(x.shape[1:-1], plan.ksize)
        inside = {}
        for o, _, i in hits:
            inside.setdefault(o, []).append(i)
        y = np.zeros((x.shape[0], *out, x.shape[-1]), x.dtype)
        places, back = np.zeros(y.shape, np.int64), np.zeros(x.shape, x.dtype)
        for b, c in np.ndindex(x.shape[0], x.shape[-1]):
            for o in np.ndindex(*out):
                near, at = inside[o], (b, *o, c)
                values = [x[(b, *i, c)] for i in near]
                best = (b, *near[int(np.argmax(values))], c)
                if kind in ("max", "argmax"):
                    y[at] = x[best]
                    place = np.ravel_multi_index(best, x.shape)
                    places[at] = place if include_batch_in_index else place % x[0].size
                elif kind == "max_grad":
                    back[best] += plan.last(third)[at]
                elif kind == "max_gather":
                    y[at] = plan.last(third)[best]
                elif kind == "mean":
                    y[at] = sum(values) / len(values)
                else:
                    for i in near:
                        back[(b, *i, c)] += plan.last(second)[at] / len(near)
        if kind == "argmax":
            return y, places
        return plan.back(back if kind in ("max_grad", "mean_grad") else y)

    return reference


IMAGES = [
    ((2, 4, 6, 2), {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}),
    ((1, 5, 7, 2), {"ksize": [1, 3, 3, 1], "strides": [1, 2, 2, 1], "padding": "SAME"}),
    ((1, 5, 6, 2), {"ksize": [1, 3, 2, 1], "strides": [1, 1, 3, 1], "padding": "VALID"}),
    ((1, 4, 3, 2), {"ksize": [1, 4, 3, 1], "strides": [1, 1, 1, 1], "padding": "VALID"}),
    ((1, 3, 4, 2), {"ksize": [1, 7, 5, 1], "strides": [1, 1, 2, 1], "padding": "SAME"}),
    ((1, 2, 5, 4), {"ksize": [1, 1, 2, 3], "strides": [1, 1, 3, 1], "padding": "VALID", "data_format": "NCHW"}),
    ((0, 4, 4, 2), {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "SAME"}),
]
CHANNELS = [
    ((2, 2, 3, 6), {"ksize": [1, 1, 1, 3], "strides": [1, 1, 1, 3], "padding": "SAME"}),
    ((1, 3, 1, 4), {"ksize": [1, 1, 1, 4], "strides": [1, 1, 1, 4], "padding": "VALID"}),
]
EXPLICIT = (
    (1, 4, 4, 1),
    {
        "ksize": [1, 3, 2, 1],
        "strides": [1, 2, 1, 1],
        "padding": "EXPLICIT",
        "explicit_paddings": [0, 0, 1, 0, 1, 1, 0, 0],
    },
)
WINDOWS = [*IMAGES[:2], *CHANNELS[:1]]
POOLED_VOLUMES = [
    ((1, 4, 3, 4, 2), {"ksize": [1, 2, 3, 2, 1], "strides": [1, 2, 1, 2, 1], "padding": "VALID"}),
    ((1, 3, 3, 2, 1), {"ksize": [1, 2, 2, 2, 1], "strides": [1, 1, 2, 1, 1], "padding": "SAME"}),
    (
        (1, 2, 3, 2, 2),
        {"ksize": [1, 1, 2, 2, 1], "strides": [1, 1, 1, 1, 1], "padding": "VALID", "data_format": "NCDHW"},
    ),
]


def pooled(x, attrs):
    if len(x) == 4 and attrs["ksize"][-1] > 1 and "data_format" not in attrs:
        return (*x[:-1], x[-1] // attrs["ksize"][-1])
    plan = Plan(len(x), **attrs)
    last = (x[0], *x[2:], x[1]) if plan.first else x
    out = plan.walk(last[1:-1], plan.ksize)[1]
    return (x[0], last[-1], *out) if plan.first else (x[0], *out, last[-1])


def apart(*shape):
    """Numbers far from each other, so that a finite difference moves no maximum; few enough for a byte."""
    return real(*shape, low=-120, high=120, distinct=True)


def ties(shape, table_attrs):
    """Whole numbers with many ties: the first entry in row-major order wins."""
    return case(whole(*shape, low=0, high=2), grad=False, **table_attrs)


def max_cases(table):
    return [case(apart(*x), **attrs) for x, attrs in table] + [ties(*table[1])]


def backward(table):
    return [case(whole(*x), real(*pooled(x, attrs)), real(*pooled(x, attrs)), **attrs) for x, attrs in table]


def gathered(table):
    return [case(whole(*x), real(*pooled(x, attrs)), real(*x), **attrs) for x, attrs in table]


def argmax_cases():
    last = [(x, attrs) for x, attrs in IMAGES if "data_format" not in attrs]
    with_batch = ((3, 2, 4, 2), {**IMAGES[0][1], "include_batch_in_index": True})
    return [case(apart(*x), types={"Targmax": "int64"}, **attrs) for x, attrs in [*last, with_batch]]


def with_places(kind):
    random = np.random.default_rng(5)
    found = []
    for x, attrs in [IMAGES[0], IMAGES[1], ((3, 2, 4, 2), {**IMAGES[0][1], "include_batch_in_index": True})]:
        values = random.permutation(int(np.prod(x))).reshape(x).astype(np.float32)
        _, places = pool("argmax")(values, **attrs)
        grad = real(*(pooled(x, attrs) if kind == "add" else x))
        found.append(case(values, grad, places, types={"Targmax": "int64"}, grad=True, **attrs))
    return found


def flat_places(places, x, include_batch_in_index):
    starts = 0 if include_batch_in_index else np.arange(x.shape[0]).reshape(-1, 1, 1, 1) * x[0].size
    return (places + starts).ravel()


def add_at_places(x, g, places, include_batch_in_index=False, **_):
    found = np.zeros(x.size, g.dtype)
    for place, value in zip(flat_places(places, x, include_batch_in_index), g.ravel(), strict=True):
        found[place] += value
    return found.reshape(x.shape)


def take_at_places(x, g, places, include_batch_in_index=False, **_):
    return g.ravel()[flat_places(places, x, include_batch_in_index)].reshape(places.shape)


def as_operands(cases_of, count):
    """The same cases for the ops that take window and strides as operands."""
    found = []
    for one in cases_of:
        attrs = dict(one.attrs)
        ksize, strides = (np.array(attrs.pop(name), np.int32) for name in ("ksize", "strides"))
        found.append(case(*one.inputs[:count], ksize, strides, grad=one.grad, **attrs))
    return found


def from_operands(kind, count):
    def reference(*inputs, **attrs):
        ksize, strides = ([int(i) for i in v] for v in inputs[count:])
        return pool(kind)(*inputs[:count], ksize=ksize, strides=strides, **attrs)

    return reference


# ---------------------------------------------------------------------------------------------------------- morphology
def dilate(kind):
    def reference(x, f, g=None, **attrs):
        plan = Plan(4, **attrs)
        hits, out = plan.walk(x.shape[1:3], f.shape[:2])
        y = np.zeros((x.shape[0], *out, x.shape[3]), x.dtype)
        dx, df, near = np.zeros_like(x), np.zeros_like(f), {}
        for o, t, i in hits:
            near.setdefault(o, []).append((t, i))
        for b, c in np.ndindex(x.shape[0], x.shape[3]):
            for o in np.ndindex(*out):
                sums = [x[(b, *i, c)] + f[(*t, c)] for t, i in near[o]]
                best = int(np.argmax(sums))
                y[(b, *o, c)] = sums[best]
                if g is not None:
                    t, i = near[o][best]
                    dx[(b, *i, c)] += g[(b, *o, c)]
                    df[(*t, c)] += g[(b, *o, c)]
        return {"forward": y, "input": dx, "filter": df}[kind]

    return reference


MORPHOLOGY = [
    ((2, 4, 5, 2), (2, 3, 2), {"strides": [1, 1, 1, 1], "rates": [1, 1, 1, 1], "padding": "SAME"}),
    ((1, 6, 5, 1), (2, 2, 1), {"strides": [1, 2, 1, 1], "rates": [1, 2, 2, 1], "padding": "VALID"}),
]


def morphology(backward_):
    found = []
    for x, f, attrs in MORPHOLOGY:
        out = Plan(4, **attrs).walk(x[1:3], f[:2])[1]
        more = [real(x[0], *out, x[3])] if backward_ else []
        found.append(case(apart(*x), apart(*f), *more, **attrs))
    return found


FLOATS = "half bfloat16 float double"
MOST = "half bfloat16 float double int32 int64 uint8"

ROWS = [
    row("Conv2D", product("forward"), forward(CONVOLUTIONS), tolerance=2),
    row("Conv2DBackpropInput", product("input"), [*to_input(CONVOLUTIONS), TWO_SIZES], tolerance=2),
    row("Conv2DBackpropFilter", product("filter"), to_filter(CONVOLUTIONS), tolerance=2),
    row(
        "Conv2DBackpropInputV2",
        product("input"),
        to_input(CONVOLUTIONS[:2], by_shape=False),
        tolerance=2,
        wrt="filter out_backprop",
    ),
    row(
        "Conv2DBackpropFilterV2",
        product("filter"),
        to_filter(CONVOLUTIONS[:2], by_shape=False),
        tolerance=2,
        wrt="input out_backprop",
    ),
    row("DepthwiseConv2dNative", depthwise("forward"), forward(DEPTHWISE), tolerance=2),
    row("DepthwiseConv2dNativeBackpropInput", depthwise("input"), to_input(DEPTHWISE, multiplied), tolerance=2),
    row("DepthwiseConv2dNativeBackpropFilter", depthwise("filter"), to_filter(DEPTHWISE, multiplied), tolerance=2),
    row("Conv3D", product("forward"), forward([*VOLUMES, CHANNELS_FIRST]), tolerance=2),
    row("Conv3DBackpropInputV2", product("input"), to_input([*VOLUMES, CHANNELS_FIRST]), tolerance=2),
    row("Conv3DBackpropFilterV2", product("filter"), to_filter([*VOLUMES, CHANNELS_FIRST]), tolerance=2),
    row(
        "Conv3DBackpropInput",
        product("input"),
        to_input(VOLUMES[:2], by_shape=False),
        tolerance=2,
        wrt="filter out_backprop",
    ),
    row(
        "Conv3DBackpropFilter",
        product("filter"),
        to_filter(VOLUMES[:2], by_shape=False),
        tolerance=2,
        wrt="input out_backprop",
    ),
    row("MaxPool", pool("max"), max_cases([*IMAGES, EXPLICIT, *CHANNELS])),
    row("MaxPoolGrad", pool("max_grad"), backward([*IMAGES, EXPLICIT, *CHANNELS]), wrt="grad"),
    row("MaxPoolGradGrad", pool("max_gather"), gathered([*IMAGES, *CHANNELS]), wrt="grad"),
    row("MaxPoolV2", from_operands("max", 1), as_operands(max_cases(WINDOWS), 1), MOST),
    row("MaxPoolGradV2", from_operands("max_grad", 3), as_operands(backward(WINDOWS), 3), MOST, wrt="grad"),
    row("MaxPoolGradGradV2", from_operands("max_gather", 3), as_operands(gathered(WINDOWS), 3), MOST, wrt="grad"),
    row("MaxPoolWithArgmax", pool("argmax"), argmax_cases(), MOST, outputs=[0]),
    row("MaxPoolGradWithArgmax", add_at_places, with_places("add"), "float double int32", wrt="grad"),
    row("MaxPoolGradGradWithArgmax", take_at_places, with_places("take"), "float double int32", wrt="grad"),
    row("AvgPool", pool("mean"), [case(real(*x), **attrs) for x, attrs in IMAGES], tolerance=2),
    row(
        "AvgPoolGrad",
        pool("mean_grad"),
        [case(np.array(x, np.int32), real(*pooled(x, attrs)), **attrs) for x, attrs in IMAGES],
        tolerance=2,
    ),
    row("MaxPool3D", pool("max"), max_cases(POOLED_VOLUMES)),
    row(
        "MaxPool3DGrad",
        pool("max_grad"),
        backward(POOLED_VOLUMES),
        "float",
        wrt="grad",
    ),
    row("MaxPool3DGradGrad", pool("max_gather"), gathered(POOLED_VOLUMES), "float", wrt="grad"),
    row("AvgPool3D", pool("mean"), [case(real(*x), **attrs) for x, attrs in POOLED_VOLUMES], tolerance=2),
    row(
        "AvgPool3DGrad",
        pool("mean_grad"),
        [case(np.array(x, np.int32), real(*pooled(x, attrs)), **attrs) for x, attrs in POOLED_VOLUMES],
        tolerance=2,
    ),
    row("Dilation2D", dilate("forward"), morphology(False), FLOATS + " int32"),
    row("Dilation2DBackpropInput", dilate("input"), morphology(True), "double float int32", wrt="out_backprop"),
    row("Dilation2DBackpropFilter", dilate("filter"), morphology(True), "double float int32", wrt="out_backprop"),
]
