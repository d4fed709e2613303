"""Who executes the ops that a program applies: a builder per thread, of which a graph is one.

``core.build("MatMul", a, b)`` checks the call against the op's contract, converts the operands to tensors, and hands
the rest to the thread's *builder*: a graph appends an operation, and a mode that runs ops at once computes the
outputs. All that differs between them stands behind the methods of :class:`Builder`; the checks are written once (see
:mod:`anabranch.core.graph.build`).

The builders of a thread are a stack, with the process's global graph below all of them (:mod:`default_graph`). ``with
builder.as_default():`` pushes one; the innermost is the thread's *current builder*. So a graph's block inside a mode
that runs ops at once builds a graph, and the other way round.

What libraries do. They ask for :func:`current_builder`, or :func:`builder_of` the tensors they were handed, and use the
methods of :class:`Builder` only. The methods of the base class are those of a mode that runs ops at once: names,
devices, colocation and control dependencies mean nothing there, since the op has run where its operands are, before the
next is applied; what libraries make is added to no collection, where it would stay for ever. A program's own additions,
and variables of an ``EagerVariableStore``, are in the default graph's collections, which are read there, too. Where a
library must take another way altogether it asks for :attr:`Builder.defers`: ``tf.cond`` calls one branch when the
condition has a value. Code that needs a graph (savers, sessions, imports) asks for
:func:`~anabranch.core.graph.default_graph.get_default_graph`.

What a mode that runs ops at once writes: ``tensor_type``, :meth:`Builder._create`, and, if tensors of other modes may
be used in it, :meth:`Builder.adopt`.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from anabranch.core import errors, thread_context
from anabranch.core.contract.opdef import OpDefinition, lookup
from anabranch.core.graph.tensor import OpView, Tensor

T = TypeVar("T")
Context = contextlib.AbstractContextManager


class _Nothing:
    """A context manager that does nothing and yields one value; it can be entered again and again."""

    __slots__ = ("_value",)

    def __init__(self, value: Any = None) -> None:
        self._value = value

    def __enter__(self) -> Any:
        return self._value

    def __exit__(self, *error: object) -> None:
        return None


_NOTHING = _Nothing()


class Builder:
    """What executes ops; see the module's docstring. The defaults are those of a mode that runs ops at once."""

    defers = False
    """Whether an applied op runs later: its outputs have no values yet, and a program cannot branch on them."""
    tensor_type: type[Tensor] = Tensor
    """Class of the tensors that ops give and take here."""
    apply: Callable[[str, tuple[Any, ...], dict[str, Any]], Any] | None = None
    """A short way for ``build``: what it returns, or None if it must go the long way. Absent here."""
    only_handles = True
    """Whether variables are behind handles, whatever is asked for: a reference is an edge of a graph."""
    keeps_variables = True
    """Whether ``get_variable`` finds again what it made."""
    seed: Any = None
    """Seed that random ops without one of their own derive theirs from, or None."""
    _library_state: dict[Hashable, Any] | None = None

    @property
    def home(self) -> Builder:
        """Where what outlives the ops applied here is made: variables, and what libraries keep of them."""
        return self

    @property
    def building_function(self) -> bool:
        """Whether the ops applied now are those of a nested body."""
        return False

    @property
    def _last_id(self) -> int:
        """Number of ops applied so far, which seeds a random op under :attr:`seed`."""
        return 0

    def _count(self, number: int) -> None:
        """Let :attr:`_last_id` grow by ``number``, which may be below 0."""

    @property
    def _captured(self) -> int:
        """How many tensors from outside the body being built takes, which :attr:`_last_id` counts."""
        return 0

    @property
    def _container(self) -> str:
        """Resource container of stateful ops."""
        return ""

    # ------------------------------------------------------------------------------------------------------------- ops
    def _create(
        self, definition: OpDefinition, inputs: Sequence[Any], attrs: dict[str, Any], name: str | None = None
    ) -> OpView:
        """Apply an op to tensors of :attr:`tensor_type`; ``attrs`` are complete and in stored form, and all has been
        checked against the contract.
        """
        raise NotImplementedError

    def constant(self, array: Any, dtype: Any, name: str | None) -> Any:
        """A tensor with the value of an array, which nobody else holds."""
        return self._create(lookup("Const"), (), {"value": array, "dtype": dtype}, name)._outputs[0]

    def adopt(self, tensor: Tensor) -> Any:
        """A tensor of another mode as one of this builder's.

        Raises:
            TypeError: there is no way.
        """
        raise TypeError(
            errors.message(
                f"tensor {tensor._label} of a graph, in code that runs its ops at once",
                "a tensor with a value",
                "run the graph first (session.run(t)), or put the code under `with graph.as_default():`",
            )
        )

    def among(self, values: Iterable[Any]) -> Builder:
        """The builder that an op on ``values`` belongs to: in a graph, that of the tensors among them."""
        return self

    @property
    def tells(self) -> bool:
        """Whether somebody is told of each op that is applied here: a value that is at hand is then taken by its op."""
        return True

    @property
    def place(self) -> Any:
        """Where ops are applied now: what an op here gave may be used again wherever this is the same object."""
        return self

    # ---------------------------------------------------------------------------------------------------------- scopes
    def as_default(self) -> Context[Any]:
        """Make this the current builder of the thread inside a ``with`` block."""
        return as_current(self)

    def operand_scope(self, name: str) -> Context[str]:
        """Surround the conversion of an op's operands; yields the op's final name."""
        return _Nothing(name)

    def name_scope(self, name: str | None) -> Context[str]:
        """Prefixes names of what is made inside; yields the prefix with a final '/', or ''."""
        return _Nothing(f"{name.rstrip('/')}/" if name else "")

    def get_name_scope(self) -> str:
        """The current name scope, without a final '/'."""
        return ""

    def unique_name(self, name: str, mark_as_used: bool = True) -> str:
        """``name`` under the current name scope, made unique where names are."""
        return name

    def resource_name(self, name: str) -> str:
        """The name of the resource of a variable called ``name``, which no other variable shares by accident."""
        return name

    def lifted(self, value: Any) -> Any:
        """An initial value as it is where variables are made, for one that was computed here."""
        return value

    def noted(self) -> Context[list[OpView]]:
        """A list that fills with the ops that run inside the block; empty where ops do not run at once."""
        return _Nothing([])

    def record(self, view: OpView) -> None:
        """Tell those that follow what runs of something that has run: outputs, inputs and a rule of its own."""

    def note_variable(self, variable: Any) -> None:
        """Hear of a variable that was made here, once its handle is there."""

    def note_value(self, variable: Any) -> None:
        """Hear of a variable that was made where ops run at once, once it has its first value."""

    def device(self, device_name_or_function: Any) -> Context[None]:
        """Places the ops applied inside."""
        return _NOTHING

    def colocate_with(self, op: Any, ignore_existing: bool = False) -> Context[None]:
        """Places the ops applied inside with an op, a tensor or a variable."""
        return _NOTHING

    def control_dependencies(self, control_inputs: Iterable[Any] | None) -> Context[None]:
        """Run the ops applied inside after ``control_inputs``; a function among them is called now."""
        for item in control_inputs or ():
            if callable(item):
                item()
        return _NOTHING

    def init_scope(self) -> Context[None]:
        """Lift the ops applied inside out of nested bodies and control dependencies."""
        return _NOTHING

    def outside_control_flow(self) -> Context[None]:
        """Lift ops applied inside out of branches, loops and control dependencies, if they need nothing of those."""
        return _NOTHING

    def attr_scope(self, attrs: dict[str, Any]) -> Context[None]:
        """Give the ops made inside further attributes, which a file of the graph keeps."""
        return _NOTHING

    def gradient_override_map(self, op_type_map: dict[str, str]) -> Context[None]:
        """Names the gradient rules of ops made inside, by op type."""
        return _NOTHING

    def container(self, container_name: str) -> Context[str]:
        """Names the resource container of stateful ops applied inside."""
        return _Nothing(container_name)

    def shared_site(self) -> Context[None]:
        """The ops applied inside show the user's line that entered."""
        return _NOTHING

    def on_behalf_of(self, op: OpView, of_user: bool) -> Context[None]:
        """Surround the gradient rule of ``op``, a rule of the user's own or one of the library."""
        return _NOTHING

    # ------------------------------------------------------------------------------------------- what libraries keep
    def add_to_collection(self, name: Any, value: Any) -> None:
        """Append what a library made to a collection, where things wait there for a program to run them."""

    def add_to_collections(self, names: Any, value: Any) -> None:
        """Append what a library made to several collections."""

    def get_collection(self, name: Any, scope: str | None = None) -> list[Any]:
        """A copy of a collection; empty where there are none."""
        return []

    def get_collection_ref(self, name: Any) -> list[Any]:
        """A collection's own list; where there are none, a list that nobody else will see."""
        return []

    def forget_library_state(self) -> None:
        """Begin anew with what libraries keep."""
        self._library_state = None

    def library_state(self, key: Hashable, make: Callable[[], T]) -> T:
        """What a library keeps beside this builder under ``key``, made on first use."""
        state = self._library_state
        if state is None:
            state = self._library_state = {}
        entry = state.get(key)
        if entry is None:
            entry = state.setdefault(key, make())
        return entry


class _Stack(threading.local):
    def __init__(self) -> None:
        self.builders: list[Any] = []


_stack = _Stack()


def _write_stack(builders: list[Any]) -> None:
    _stack.builders = builders


thread_context.keep(lambda: list(_stack.builders), _write_stack)
_bottom: list[Callable[[], Any]] = []  # filled by default_graph.py


def require_graph(usual: str, given: str, instead: str, kind: type[Exception] = RuntimeError) -> None:
    """Refuse what only a graph can have, where ops run at once.

    Args:
        usual: what TensorFlow says.
        given: what is refused.
        instead: what does the same.
        kind: class of the error.
    """
    if not current_builder().defers:
        raise kind(
            f"{usual}\n"
            + errors.message(f"{given} where ops run at once", "a graph: with tf.Graph().as_default():", instead)
        )


def set_bottom(bottom: Callable[[], Any]) -> None:
    """Say what gives the builder below those of all threads."""
    _bottom[:] = [bottom]


def bottom() -> Any:
    """What is below the builders of all threads."""
    return _bottom[0]()


@contextlib.contextmanager
def as_current(builder: Any) -> Iterator[Any]:
    """Make ``builder`` the current one of the thread inside a ``with`` block."""
    stack = _stack.builders
    stack.append(builder)
    depth = len(stack)
    left = True
    try:
        yield builder
    except GeneratorExit:  # the block was never left, and has been collected
        left = False
        raise
    finally:
        # A test case may have left all blocks, or put a new graph in the place of this one.
        if len(stack) > depth and left:
            raise AssertionError(
                "Nesting violated for the default graph: exit contexts in the reverse order of entering them."
            )
        if len(stack) == depth:
            stack.pop()


def running_at_once() -> Context[Any]:
    """A block in which ops run at once if they would anywhere around the graphs that are being built here."""
    builders = _stack.builders
    if builders and builders[-1].defers:
        for builder in (*reversed(builders), _bottom[0]()):
            if not builder.defers:
                return as_current(builder)
    return _NOTHING


def current_stack() -> list[Any]:
    """The thread's builders, the current one last."""
    return _stack.builders


def current_builder() -> Builder:
    """The builder that ops of this thread go to: the innermost ``as_default`` one, else the process's global graph."""
    builders = _stack.builders
    return builders[-1] if builders else _bottom[0]()


def builder_of(values: Iterable[Any]) -> Builder:
    """The builder that an op on ``values`` belongs to.

    Raises:
        ValueError: tensors of different graphs are among them.
    """
    builders = _stack.builders
    return (builders[-1] if builders else _bottom[0]()).among(values)
