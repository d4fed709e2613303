"""What oneDNN is to run for a convolution: its primitives, the layouts between them, and the scratch space.

Policy. A convolution is described by :class:`Work`, which is plain data: it is an attribute of the call in XLA's
program, so that a program read from disk knows all that it needs. From it follow a few primitives in a row: reorder the
filter, convolve; or convolve, reorder the filter's gradient. oneDNN chooses the layout of the filter, as its fast
kernels do not take ours; with the channels first also those of the images. Reordered operands and oneDNN's own scratch
space lie in one buffer, which is a result of the call that nobody reads: XLA's buffer assignment owns it, and calls may
run side by side. Work in pieces (``choice``) is cut by images: a piece is a convolution of fewer images with operands
and scratch space of its own but for the filter, and a filter gradient adds the pieces' results up in their order. Steps
with one number of a group may run at the same time; a group begins when the one before it has ended. Descriptors are
made while a program is traced, as they tell whether oneDNN has a kernel and how large the scratch space is (some 0.1
ms); kernels are generated (1 ms) when XLA instantiates a call.
"""

from __future__ import annotations

import ctypes
import functools
import json
import math
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from anabranch.xla.onednn.library import Library, NotUsable, Status, found

FORWARD, INPUT, FILTER = "forward", "input gradient", "filter gradient"

# Numbers of oneDNN's C interface (dnnl_types.h), the same in all of version 3.
DTYPES = {"float16": 1, "bfloat16": 2, "float32": 3}
_ITEM = {"float16": 2, "bfloat16": 2, "float32": 4}
_UNKNOWN_DTYPE = 0
_ANY_LAYOUT = 1
_DIRECT = 1
TRAINING = 64
_RELU = 0x20
_SCRATCH_BY_CALLER = 1
_QUERY_IMPLEMENTATION = 8
_QUERY = {
    "source": 129,
    "source gradient": 130,
    "filter": 131,
    "filter gradient": 132,
    "output": 133,
    "output gradient": 134,
    "workspace": 135,
    "scratch": 136,
}
_ARGUMENT = {
    "source": 1,
    "output": 17,
    "filter": 33,
    "bias": 41,
    "workspace": 64,
    "scratch": 80,
    "source gradient": 129,
    "output gradient": 145,
    "filter gradient": 161,
    "from": 1,
    "to": 17,
}
_MOST_DIMS = 12
_ALIGNED = 64
_FEW_CHANNELS = 4
"""The input gradient of so few channels is faster with the filter as it is."""
MOST_ARGUMENTS = 6


class Work(NamedTuple):
    """One convolution, or a gradient of one, of given sizes."""

    kind: str
    dtype: str
    batch: int
    sizes: tuple[int, ...]
    channels: int
    window: tuple[int, ...]
    out: tuple[int, ...]
    features: int
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    """How many zeros stand before each dimension of the input."""
    groups: int = 1
    channels_first: bool = False
    bias: bool = False
    relu: bool = False
    threads: int = 1
    """How many threads of oneDNN's own one primitive takes."""
    pieces: int = 1
    """In how many convolutions, each of some of the images, it is cut."""

    def text(self) -> str:
        """As an attribute of a call."""
        return json.dumps(self)

    @classmethod
    def read(cls, text: str) -> Work:
        """What :meth:`text` has written."""
        return cls._make(tuple(value) if isinstance(value, list) else value for value in json.loads(text))

    @property
    def flops(self) -> float:
        """Two for each product."""
        products = self.batch * math.prod(self.out) * math.prod(self.window) * self.channels * self.features
        return 2.0 * products / self.groups

    @property
    def elements(self) -> tuple[int, int]:
        """How many elements an image of the input has, and one of the output."""
        return self.channels * math.prod(self.sizes), self.features * math.prod(self.out)

    @property
    def after(self) -> tuple[int, ...]:
        """How many zeros stand behind each dimension of the input."""
        needed = [
            (out - 1) * stride + (window - 1) * dilation + 1 - size - before
            for out, stride, window, dilation, size, before in zip(
                self.out, self.strides, self.window, self.dilations, self.sizes, self.before, strict=True
            )
        ]
        return tuple(max(0, count) for count in needed)


class Argument(NamedTuple):
    """An operand of a primitive: where it lies among the buffers of the call, operands first, then results."""

    role: str
    descriptor: Any
    buffer: int
    offset: int = 0


class Step(NamedTuple):
    """A primitive, of which there is only the descriptor yet."""

    descriptor: Any
    arguments: tuple[Argument, ...]
    group: int = 0


class Described(NamedTuple):
    """All that is run for a :class:`Work`."""

    steps: tuple[Step, ...]
    scratch: int
    implementation: str


def dims_of(values: Sequence[int]) -> Any:
    """Sizes as oneDNN takes them."""
    return (ctypes.c_int64 * _MOST_DIMS)(*values)


def steps_of(dims: Sequence[int], order: Sequence[int]) -> list[int]:
    """The steps between elements of dimensions that lie in memory in this order, the last one closest."""
    strides, step = [0] * len(dims), 1
    for dimension in reversed(order):
        strides[dimension] = step
        step *= dims[dimension]
    return strides


def strided(library: Library, dtype: int, dims: Sequence[int], strides: Sequence[int]) -> Any:
    """The descriptor of an array with these dimensions and steps between its elements."""
    descriptor = ctypes.c_void_p()
    library.call(
        "memory_desc_create_with_strides", ctypes.byref(descriptor), len(dims), dims_of(dims), dtype, dims_of(strides)
    )
    return descriptor


def layout_of(library: Library, descriptor: Any, role: str) -> Any:
    """The layout that a primitive wants an operand in."""
    return ctypes.c_void_p(library.c.dnnl_primitive_desc_query_md(descriptor, _QUERY[role], 0))


def implementation_of(library: Library, descriptor: Any) -> str:
    """The name of what computes a primitive."""
    name = ctypes.c_char_p()
    library.call("primitive_desc_query", descriptor, _QUERY_IMPLEMENTATION, 0, ctypes.byref(name))
    return (name.value or b"").decode()


def attributes(library: Library) -> Any:
    """The attributes of a primitive whose scratch space the caller brings."""
    made = ctypes.c_void_p()
    library.call("primitive_attr_create", ctypes.byref(made))
    library.call("primitive_attr_set_scratchpad_mode", made, _SCRATCH_BY_CALLER)
    return made


class _Describer:
    """The making of descriptors for one piece of work."""

    def __init__(self, library: Library, work: Work) -> None:
        self.library = library
        self.work = work
        self.dtype = DTYPES[work.dtype]
        self.result_at = 2 + work.bias * (work.kind == FORWARD)
        """The number of the buffer for the result: behind the operands."""
        self.scratch_at = self.result_at + 1
        self.used = 0
        w = work
        of_source, of_output = (w.batch, w.channels, *w.sizes), (w.batch, w.features, *w.out)
        inputs = w.channels // w.groups
        groups = (w.groups, w.features // w.groups) if w.groups > 1 else (w.features,)
        of_filter = (*groups, inputs, *w.window)
        self.plain = {
            "source": self._images(of_source),
            "output": self._images(of_output),
            "filter": self._filter(of_filter),
        }
        keeps_filter = w.kind == INPUT and inputs <= _FEW_CHANNELS and w.groups == 1
        self.asked = {
            "source": self._any(of_source) if w.channels_first else self.plain["source"],
            "output": self._any(of_output) if w.channels_first else self.plain["output"],
            "filter": self.plain["filter"] if keeps_filter else self._any(of_filter),
        }
        self.bias = self._strided((w.features,), (1,))

    # ------------------------------------------------------------------------------------------------------- layouts
    def _strided(self, dims: Sequence[int], strides: Sequence[int]) -> Any:
        return strided(self.library, self.dtype, dims, strides)

    def _any(self, dims: Sequence[int]) -> Any:
        descriptor = ctypes.c_void_p()
        self.library.call(
            "memory_desc_create_with_tag", ctypes.byref(descriptor), len(dims), dims_of(dims), self.dtype, _ANY_LAYOUT
        )
        return descriptor

    def _ordered(self, dims: Sequence[int], order: Sequence[int]) -> Any:
        return strided(self.library, self.dtype, dims, steps_of(dims, order))

    def _images(self, dims: Sequence[int]) -> Any:
        n = len(dims)
        return self._ordered(dims, range(n) if self.work.channels_first else (0, *range(2, n), 1))

    def _filter(self, dims: Sequence[int]) -> Any:
        """``[*window, in / groups, groups * out / groups]``."""
        leading = 2 if self.work.groups > 1 else 1
        return self._ordered(dims, (*range(leading + 1, len(dims)), leading, *range(leading)))

    # ---------------------------------------------------------------------------------------------------- descriptors
    def _attributes(self, relu: bool = False, adds: bool = False) -> Any:
        made, call = attributes(self.library), self.library.call
        if relu or adds:
            after = ctypes.c_void_p()
            call("post_ops_create", ctypes.byref(after))
            if relu:
                call("post_ops_append_eltwise", after, _RELU, ctypes.c_float(0), ctypes.c_float(0))
            if adds:
                call("post_ops_append_sum", after, ctypes.c_float(1), 0, _UNKNOWN_DTYPE)
            call("primitive_attr_set_post_ops", made, after)
        return made

    def _layout_of(self, descriptor: Any, role: str) -> Any:
        return layout_of(self.library, descriptor, role)

    def space(self, size: int) -> int:
        """Where in the scratch buffer ``size`` bytes may begin."""
        start = self.used
        self.used += -(-size // _ALIGNED) * _ALIGNED
        return start

    def _scratch(self, descriptor: Any) -> Argument:
        layout = self._layout_of(descriptor, "scratch")
        size = self.library.c.dnnl_memory_desc_get_size(layout)
        return Argument("scratch", layout, self.scratch_at, self.space(size))

    def reorder(self, source: Argument, target: Argument, adds: bool = False) -> Step:
        """The step that copies an array into another layout, or adds it to what is there."""
        descriptor = ctypes.c_void_p()
        engine = self.library.engine
        self.library.call(
            "reorder_primitive_desc_create",
            ctypes.byref(descriptor),
            source.descriptor,
            engine,
            target.descriptor,
            engine,
            self._attributes(adds=adds),
        )
        given = (source._replace(role="from"), target._replace(role="to"), self._scratch(descriptor))
        return Step(descriptor, given)

    def _convolution(self) -> Any:
        w, call, asked = self.work, self.library.call, self.asked
        geometry = (
            dims_of(w.strides),
            dims_of([dilation - 1 for dilation in w.dilations]),
            dims_of(w.before),
            dims_of(w.after),
        )
        engine = self.library.engine
        forward, descriptor = ctypes.c_void_p(), ctypes.c_void_p()
        bias = self.bias if w.bias and w.kind == FORWARD else None
        call(
            "convolution_forward_primitive_desc_create",
            ctypes.byref(forward),
            engine,
            TRAINING,
            _DIRECT,
            asked["source"],
            asked["filter"],
            bias,
            asked["output"],
            *geometry,
            self._attributes(w.relu),
        )
        if w.kind == FORWARD:
            return forward
        if w.kind == INPUT:
            call(
                "convolution_backward_data_primitive_desc_create",
                ctypes.byref(descriptor),
                engine,
                _DIRECT,
                asked["source"],
                asked["filter"],
                asked["output"],
                *geometry,
                forward,
                self._attributes(),
            )
            return descriptor
        call(
            "convolution_backward_weights_primitive_desc_create",
            ctypes.byref(descriptor),
            engine,
            _DIRECT,
            asked["source"],
            asked["filter"],
            None,
            asked["output"],
            *geometry,
            forward,
            self._attributes(),
        )
        return descriptor

    def described(self) -> Described:
        """All of it."""
        w = self.work
        convolution = self._convolution()
        steps: list[Step] = []
        arguments: list[Argument] = []
        behind: list[Step] = []
        result = self.result_at
        roles = {
            FORWARD: (("source", "source", 0), ("filter", "filter", 1), ("output", "output", result)),
            INPUT: (("output gradient", "output", 0), ("filter", "filter", 1), ("source gradient", "source", result)),
            FILTER: (("source", "source", 0), ("output gradient", "output", 1), ("filter gradient", "filter", result)),
        }[w.kind]
        for role, array, buffer in roles:
            ours = Argument(role, self.plain[array], buffer)
            wanted = self._layout_of(convolution, role)
            if self.library.c.dnnl_memory_desc_equal(wanted, ours.descriptor):
                arguments.append(ours)
                continue
            at = self.space(self.library.c.dnnl_memory_desc_get_size(wanted))
            theirs = Argument(role, wanted, self.scratch_at, at)
            arguments.append(theirs)
            if buffer == result:
                behind.append(self.reorder(theirs, ours))
            else:
                steps.append(self.reorder(ours, theirs))
        if w.bias and w.kind == FORWARD:
            arguments.append(Argument("bias", self.bias, 2))
        arguments.append(self._scratch(convolution))
        steps += [Step(convolution, tuple(arguments)), *behind]
        grouped = tuple(step._replace(group=group) for group, step in enumerate(steps))
        return Described(grouped, max(self.used, _ALIGNED), implementation_of(self.library, convolution))


def _in_pieces(library: Library, work: Work) -> Described:
    """All that is run for work that is cut by images."""
    least, more = divmod(work.batch, work.pieces)
    sizes = [least + (piece < more) for piece in range(work.pieces)]
    of_size = {size: _Describer(library, work._replace(batch=size, pieces=1)).described() for size in set(sizes)}
    whole = _Describer(library, work)
    result, scratch = whole.result_at, whole.scratch_at
    source, output = (_ITEM[work.dtype] * elements for elements in work.elements)
    image = {FORWARD: {0: source, result: output}, INPUT: {0: output, result: source}, FILTER: {0: source, 1: output}}
    steps: list[Step] = []
    sums: list[Argument] = []
    first_of: dict[int, int] = {}
    start = 0
    for piece, size in enumerate(sizes):
        own = whole.space(of_size[size].scratch)
        filters = first_of.setdefault(size, own)

        def placed(argument: Argument, own: int = own, filters: int = filters, start: int = start) -> Argument:
            if argument.buffer == scratch:
                return argument._replace(offset=argument.offset + (filters if argument.role == "filter" else own))
            return argument._replace(offset=start * image[work.kind].get(argument.buffer, 0))

        for step in of_size[size].steps:
            arguments = tuple(placed(argument) for argument in step.arguments)
            if work.kind != FILTER and arguments[0].buffer == 1 and filters != own:
                continue  # the filter has been reordered for the first piece of this size
            if work.kind == FILTER and piece and arguments[1].buffer == result:
                continue  # added up below
            if work.kind == FILTER and piece and "filter gradient" in (argument.role for argument in arguments):
                at = [argument.role for argument in arguments].index("filter gradient")
                part = arguments[at]
                if part.buffer == result:
                    room = whole.space(library.c.dnnl_memory_desc_get_size(part.descriptor))
                    part = part._replace(buffer=scratch, offset=room)
                    arguments = (*arguments[:at], part, *arguments[at + 1 :])
                sums.append(part)
            steps.append(step._replace(arguments=arguments))
        start += size
    steps.sort(key=lambda step: step.group)
    target = Argument("filter gradient", whole.plain["filter"], result)
    for part in sums:
        steps.append(whole.reorder(part, target, adds=True)._replace(group=steps[-1].group + 1))
    return Described(tuple(steps), max(whole.used, _ALIGNED), of_size[sizes[0]].implementation)


def usable() -> Library:
    """The library.

    Raises:
        NotUsable: there is none.
    """
    library = found()
    if isinstance(library, str):
        raise NotUsable(library)
    return library


@functools.lru_cache(4096)
def described(work: Work) -> Described | str:
    """What is to be run, or why oneDNN has nothing good for it."""
    library = usable()
    library.use_threads(work.threads)
    try:
        program = _in_pieces(library, work) if work.pieces > 1 else _Describer(library, work).described()
    except Status as reason:
        return str(reason)
    finally:
        library.use_threads(library.threads)
    if "ref" in program.implementation.split(":"):
        return f"oneDNN has only its reference implementation ({program.implementation})"
    return program


# ------------------------------------------------------------------------------------------------------------ programs
class ArgumentRecord(ctypes.Structure):
    """An :class:`Argument` as the handler reads it."""

    _fields_ = [
        ("number", ctypes.c_int64),
        ("descriptor", ctypes.c_void_p),
        ("buffer", ctypes.c_int64),
        ("offset", ctypes.c_int64),
    ]


class StepRecord(ctypes.Structure):
    """A primitive with its arguments."""

    _fields_ = [
        ("primitive", ctypes.c_void_p),
        ("group", ctypes.c_int64),
        ("count", ctypes.c_int64),
        ("arguments", ArgumentRecord * MOST_ARGUMENTS),
    ]


class ProgramRecord(ctypes.Structure):
    """What a call runs; ``native/anabranch_native/onednn_handler.c`` has the same structure."""

    _fields_ = [
        ("count", ctypes.c_int64),
        ("threads", ctypes.c_int64),
        ("buffers", ctypes.c_int64),
        ("steps", ctypes.POINTER(StepRecord)),
    ]


def generated(work: Work, scratch: int) -> ProgramRecord:
    """The primitives of a piece of work, for a call whose scratch buffer has ``scratch`` bytes.

    Raises:
        NotUsable: there is no library, or not the one that the program was made for.
    """
    library = usable()
    program = described(work)
    if isinstance(program, str):
        raise NotUsable(f"{work}: {program}")
    if program.scratch > scratch:
        raise NotUsable(f"{work}: {program.scratch} bytes of scratch space are needed, {scratch} are there")
    return program_of(library, program.steps, work.threads)


def program_of(library: Library, described: Sequence[Step], threads: int) -> ProgramRecord:
    """The primitives of steps; the last argument of the last step lies in the last buffer."""
    steps = (StepRecord * len(described))()
    buffers = described[-1].arguments[-1].buffer + 1
    primitives: dict[int, int | None] = {}
    library.use_threads(threads)
    try:
        for to, step in zip(steps, described, strict=True):
            if step.descriptor.value not in primitives:
                primitive = ctypes.c_void_p()
                library.call("primitive_create", ctypes.byref(primitive), step.descriptor)
                primitives[step.descriptor.value] = primitive.value
            to.primitive, to.group, to.count = primitives[step.descriptor.value], step.group, len(step.arguments)
            for place, argument in enumerate(step.arguments):
                to.arguments[place] = ArgumentRecord(
                    _ARGUMENT[argument.role], argument.descriptor.value, argument.buffer, argument.offset
                )
    finally:
        library.use_threads(library.threads)
    return ProgramRecord(len(steps), threads, buffers, steps)


class _Given(ctypes.Structure):
    _fields_ = [("number", ctypes.c_int), ("memory", ctypes.c_void_p)]


def new_stream() -> Any:
    """What :func:`execute` runs primitives on; threads may share it."""
    library, stream = usable(), ctypes.c_void_p()
    library.call("stream_create", ctypes.byref(stream), library.engine, 1)
    return stream


class Caller:
    """A program that Python runs, one step after the other, in any number of threads at a time.

    Its primitives are destroyed with it.
    """

    def __init__(self, program: ProgramRecord) -> None:
        self._threads = program.threads
        self._program = program
        self._ready: list[_Ready] = []
        """Descriptions of buffers that no thread is using."""

    def __call__(self, stream: Any, places: Sequence[int]) -> None:
        """Run it on buffers at these addresses."""
        library = usable()
        library.use_threads(self._threads)
        try:
            ready = self._ready.pop()
        except IndexError:
            ready = _Ready(library, self._program)
        place_at, execute = library.c.dnnl_memory_set_data_handle, library.c.dnnl_primitive_execute
        for memory, buffer, offset in ready.memories:
            place_at(memory, ctypes.c_void_p(places[buffer] + offset))
        for primitive, count, given in ready.steps:
            if status := execute(primitive, stream, count, given):
                raise Status(f"dnnl_primitive_execute gave status {status}")
        self._ready.append(ready)

    def __del__(self) -> None:
        if sys.is_finalizing():
            return
        c = usable().c
        for ready in self._ready:
            for memory, _, _ in ready.memories:
                c.dnnl_memory_destroy(memory)
        for primitive in {step.primitive for step in self._program.steps[: self._program.count]}:
            c.dnnl_primitive_destroy(ctypes.c_void_p(primitive))


class _Ready:
    """oneDNN's descriptions of the buffers of a program, whose addresses each call puts in; they stay."""

    def __init__(self, library: Library, program: ProgramRecord) -> None:
        self.memories: list[tuple[Any, int, int]] = []
        self.steps: list[tuple[Any, int, Any]] = []
        for step in program.steps[: program.count]:
            given = (_Given * step.count)()
            for place in range(step.count):
                argument, memory = step.arguments[place], ctypes.c_void_p()
                descriptor = ctypes.c_void_p(argument.descriptor)
                library.call("memory_create", ctypes.byref(memory), descriptor, library.engine, None)
                given[place] = _Given(argument.number, memory.value)
                self.memories.append((memory, argument.buffer, argument.offset))
            self.steps.append((ctypes.c_void_p(step.primitive), step.count, given))
