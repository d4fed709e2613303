"""Functions that make variables once and find them again on each further call."""

from __future__ import annotations

import contextvars
import functools
from collections.abc import Callable
from typing import Any

from anabranch.core import errors, sites
from anabranch.core.contract.api import public
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.collections import GraphKeys
from anabranch.variables.scope import PureScope, variable_scope
from anabranch.variables.scope_state import VariableScope, scope_store
from anabranch.variables.store import EagerVariableStore, entered_store
from anabranch.variables.tracking import Trackable, joined

_called: contextvars.ContextVar[Template | None] = contextvars.ContextVar("called template", default=None)


class Template(Trackable):
    """A function whose ``get_variable`` calls make variables in the first call and share them afterwards.

    Args:
        name: name of the scope of its variables, made unique.
        func: the function.
        create_scope_now: fix the scope here instead of in the first call.
        unique_name: name of the scope if it must not be made unique.
        custom_getter: custom getter of the scope.
    """

    def __init__(
        self,
        name: str,
        func: Callable[..., Any],
        create_scope_now: bool = False,
        unique_name: str | None = None,
        custom_getter: Any = None,
    ) -> None:
        if name is None:
            raise ValueError(
                "name cannot be None.\n"
                + errors.message("a template without a name", "a name", "tf.make_template('name', function)")
            )
        self._func = func
        self._name = name
        self._unique_name = unique_name
        self._custom_getter = custom_getter
        self._site = sites.capture(2)
        self._variables_created = False
        self._variable_scope: VariableScope | None = None
        self._nested: dict[str, Template] = {}
        """Templates that it called, by the names of their scopes within its own."""
        self._template_store: EagerVariableStore | None = None
        """Where ops run at once, what keeps its variables: that of the template around it, if there is one."""
        if not current_builder().defers:
            if unique_name is not None:
                raise ValueError(
                    "unique_name_ cannot be used when eager exeuction is enabled.\n"
                    + errors.message(f"unique_name_={unique_name!r}", "a name that is made unique", "leave it out")
                )
            self._template_store = EagerVariableStore(entered_store())
        if create_scope_now:
            own = unique_name or scope_store().unique(name)
            with PureScope(own, None, {"custom_getter": custom_getter}, None) as scope:
                self._variable_scope = scope

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function inside the template's variable scope."""
        around = _called.get()
        token = _called.set(self)
        try:
            result = self._call_own(args, kwargs)
        finally:
            _called.reset(token)
        if around is not None:
            around._keep_nested(self)
        return result

    def _keep_nested(self, inner: Template) -> None:
        """Remember a template that was called by this one and has its scope within this one's."""
        prefix, name = self.variable_scope_name, inner.variable_scope_name
        if prefix and name and name != prefix and name.startswith(prefix):
            self._nested[name[len(prefix) : -1]] = inner

    def _call_own(self, args: Any, kwargs: Any) -> Any:
        if self._template_store is None:
            return self._call_in_scope(args, kwargs)
        with self._template_store.as_default():
            result = self._call_in_scope(args, kwargs)
            assert self._variable_scope is not None
            scope_store().close_subscopes(self._variable_scope.name)
        joined()
        return result

    def _call_in_scope(self, args: Any, kwargs: Any) -> Any:
        if self._variable_scope is not None:
            with variable_scope(self._variable_scope, reuse=self._variables_created):
                return self._call(args, kwargs)
        with variable_scope(self._unique_name, self._name, custom_getter=self._custom_getter) as scope:
            self._variable_scope = scope
            return self._call(args, kwargs)

    def _call(self, args: Any, kwargs: Any) -> Any:
        before = len(self._all_trainable())
        result = self._func(*args, **kwargs)
        trainable = self._all_trainable()
        if self._variables_created and len(trainable) != before:
            raise ValueError(
                "Trainable variable created when calling a template after the first time, perhaps you used tf.Variable "
                f"when you meant tf.get_variable: {trainable[before:]}\n"
                + errors.message(
                    f"{len(trainable) - before} new trainable variable(s) in a further call of template {self._name!r}",
                    "the variables of the first call",
                    "tf.get_variable(name, ...) instead of tf.Variable",
                    at=self._site,
                )
            )
        self._variables_created = True
        return result

    def _all_trainable(self) -> list[Any]:
        if self._template_store is not None:
            return self._template_store.trainable_variables()
        return list(current_builder().get_collection_ref(GraphKeys.TRAINABLE_VARIABLES))

    def _within(self, variables: list[Any]) -> list[Any]:
        """Those of the variables that are in the template's scope."""
        return [variable for variable in variables if variable.name.startswith(self.variable_scope_name or "/")]

    def _trackable_children(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The variables, by their names within the template's scope, and the templates that hold the others."""
        prefix = self.variable_scope_name or ""
        own: dict[str, Any] = {}
        for variable in self.variables:
            name = variable._shared_name[len(prefix) :]
            holder = next((nested for nested in self._nested if name.startswith(nested + "/")), None)
            if holder is None:
                own[name] = variable
            else:
                own[holder] = self._nested[holder]
        return own | self._named_children()

    @property
    def name(self) -> str:
        """The name given to the template."""
        return self._name

    @property
    def func(self) -> Callable[..., Any]:
        """The function."""
        return self._func

    @property
    def variable_scope(self) -> VariableScope | None:
        """The variable scope; None before it is made."""
        return self._variable_scope

    @property
    def variable_scope_name(self) -> str | None:
        """Name of the variable scope with a final '/'; None before it is made."""
        if self._variable_scope is None:
            return None
        name = self._variable_scope.name
        return name if not name or name.endswith("/") else name + "/"

    @property
    def var_scope(self) -> VariableScope | None:
        """Old name of :attr:`variable_scope`."""
        return self._variable_scope

    @property
    def trainable_variables(self) -> list[Any]:
        """Trainable variables of the template."""
        if self._template_store is not None:
            return self._within(self._template_store.trainable_variables())
        return self._variable_scope.trainable_variables() if self._variable_scope is not None else []

    @property
    def global_variables(self) -> list[Any]:
        """Global variables of the template."""
        if self._template_store is not None:
            return self._within(self._template_store.variables())
        return self._variable_scope.global_variables() if self._variable_scope is not None else []

    @property
    def local_variables(self) -> list[Any]:
        """Local variables of the template."""
        if self._template_store is not None:
            return []
        return self._variable_scope.local_variables() if self._variable_scope is not None else []

    @property
    def variables(self) -> list[Any]:
        """Global and local variables of the template."""
        return self.global_variables + self.local_variables

    weights = variables
    trainable_weights = trainable_variables

    @property
    def non_trainable_variables(self) -> list[Any]:
        """Variables of the template that are not trained."""
        trainable = self.trainable_variables
        return [variable for variable in self.variables if variable not in trainable]

    non_trainable_weights = non_trainable_variables


@public("make_template", "contrib.eager.make_template")
def make_template(
    name_: str,
    func_: Callable[..., Any],
    create_scope_now_: bool = False,
    unique_name_: str | None = None,
    custom_getter_: Any = None,
    **kwargs: Any,
) -> Template:
    """Wrap a function so that all its calls share the variables that it gets by ``tf.get_variable``.

    Args:
        name_: name of the scope of the variables, made unique.
        func_: the function.
        create_scope_now_: fix the scope here instead of in the first call.
        unique_name_: name of the scope if it must not be made unique.
        custom_getter_: custom getter of the scope.
        **kwargs: arguments to pass to the function at each call.

    Example:
        >>> import anabranch as tf
        >>> scale = tf.make_template("scale", lambda x: x * tf.get_variable("w", [], initializer=tf.ones_initializer()))
        >>> y = scale(tf.zeros([2])) + scale(tf.ones([2]))
        >>> [v.name for v in tf.trainable_variables()]
        ['scale/w:0']
    """
    return Template(
        name_,
        functools.partial(func_, **kwargs) if kwargs else func_,
        create_scope_now=create_scope_now_,
        unique_name=unique_name_,
        custom_getter=custom_getter_,
    )
