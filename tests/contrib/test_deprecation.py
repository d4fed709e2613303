"""Documentation, words and limits of the decorators of what is to go."""

from __future__ import annotations

import pytest

from anabranch.compat import utilities
from anabranch.contrib.framework import deprecation


def test_documentation_says_so() -> None:
    @deprecation.deprecated("2016-07-04", "Do this.")
    def one() -> None:
        """Do it.

        Args: none.
        """

    @deprecation.deprecated_args(None, "Do that.", "x")
    def two(x: int = 0) -> None:
        pass

    assert one.__doc__ == (
        "Do it. (deprecated)\n\nTHIS FUNCTION IS DEPRECATED. It will be removed after 2016-07-04.\n"
        "Instructions for updating:\nDo this.\n\nArgs: none."
    )
    assert two.__doc__ == (
        "DEPRECATED FUNCTION ARGUMENTS\n\nSOME ARGUMENTS ARE DEPRECATED. They will be removed in a future version.\n"
        "Instructions for updating:\nDo that."
    )
    assert deprecation.rewrite_argument_docstring("Of `a`.\n a: it.", "a", "b") == "Of `b`.\n b: it."


def test_aliases_warn_and_silence_holds(caplog: pytest.LogCaptureFixture) -> None:
    class New:
        """New."""

        def __init__(self, value: int) -> None:
            self.value = value

    old = deprecation.deprecated_alias("m.Old", "n.New", New)
    with deprecation.silence():
        assert old(1).value == 1
    assert not caplog.messages
    made = old(2)
    assert "test_deprecation.py:" in caplog.messages[0]
    assert caplog.messages[0].endswith("The name m.Old is deprecated. Please use n.New instead.")
    assert isinstance(made, New)
    assert old(3).value == 3
    function = deprecation.deprecated_alias("m.f", "n.f", abs)
    assert function(-1) == 1
    assert "The name m.f is deprecated" in caplog.messages[-1]
    assert len(caplog.messages) == 2


def test_a_default_is_a_value_too(caplog: pytest.LogCaptureFixture) -> None:
    @deprecation.deprecated_arg_values("2016-07-04", "Pass False.", warn_once=False, old=True)
    def f(old: bool = True) -> bool:
        return old

    assert not f(False)
    assert not caplog.messages
    assert f()
    assert f(True)
    assert [text.partition(": ")[2] for text in caplog.messages] == 2 * [
        f"calling {f.__qualname__} with old=True (from {__name__}) is deprecated and will be removed "
        "after 2016-07-04.\n"
        "Instructions for updating:\nPass False."
    ]


def test_functions_for_decorators_of_others() -> None:
    assert utilities.get_qualified_name(utilities.TFDecorator.__get__) == "TFDecorator.__get__"
    assert utilities.add_notice_to_docstring("A.\n  \n", "Do.", "None.", "(old)", ["Note."]) == "A. (old)\n\nNote.\nDo."
    assert utilities.add_notice_to_docstring(None, "Do.", "None.", "(old)", ["Note."]) == "None.\n\nNote.\nDo."
    utilities.validate_callable(print, "d")
    with pytest.raises(ValueError, match="make sure @property appears before @d in your source code"):
        utilities.validate_callable(property(print), "d")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: deprecation.deprecated("2016", "x"), "Date must be YYYY-MM-DD"),
        (lambda: deprecation.deprecated(None, ""), "conversion instructions"),
        (lambda: deprecation.deprecated(None, "x")(property(abs)), "make sure @property appears before @deprecated"),
        (lambda: deprecation.deprecated_args(None, "x"), "Specify which argument is deprecated"),
        (lambda: deprecation.deprecated_args(None, "x", "a", other=1), "Illegal argument to deprecated_args"),
        (lambda: deprecation.deprecated_args(None, "x", "a")(lambda b: b), "not present in the function signature"),
        (lambda: deprecation.deprecated_arg_values(None, "x"), "Specify which argument values are deprecated"),
    ],
)
def test_refusals(call, words) -> None:
    with pytest.raises(ValueError, match=words):
        call()


def test_public_names_are_noted_once() -> None:
    @utilities.tf_export("a.f", "b.f")
    def f() -> None:
        pass

    assert f._tf_api_names == ("a.f", "b.f")
    with pytest.raises(utilities.SymbolAlreadyExposedError, match="f is already exposed"):
        utilities.tf_export("c.f")(f)

    @utilities.tf_export("a.f", overrides=[f])
    def g() -> None:
        pass

    assert not hasattr(f, "_tf_api_names")
    utilities.tf_export("x").export_constant(__name__, "X")
    assert _tf_api_constants == [(("x",), "X")]  # type: ignore[name-defined]  # noqa: F821
