"""Error classes, codes, the text of an error and what survives pickling."""

import copy
import pickle
from types import SimpleNamespace

import pytest

from anabranch.core import errors, sites

CODES = {
    "CANCELLED": (1, "CancelledError"), "UNKNOWN": (2, "UnknownError"), "INVALID_ARGUMENT": (3, "InvalidArgumentError"),
    "DEADLINE_EXCEEDED": (4, "DeadlineExceededError"), "NOT_FOUND": (5, "NotFoundError"),
    "ALREADY_EXISTS": (6, "AlreadyExistsError"), "PERMISSION_DENIED": (7, "PermissionDeniedError"),
    "RESOURCE_EXHAUSTED": (8, "ResourceExhaustedError"), "FAILED_PRECONDITION": (9, "FailedPreconditionError"),
    "ABORTED": (10, "AbortedError"), "OUT_OF_RANGE": (11, "OutOfRangeError"), "UNIMPLEMENTED": (12,
    "UnimplementedError"),
    "INTERNAL": (13, "InternalError"), "UNAVAILABLE": (14, "UnavailableError"), "DATA_LOSS": (15, "DataLossError"),
    "UNAUTHENTICATED": (16, "UnauthenticatedError"),
}  # fmt: skip


class UsersError(errors.InvalidArgumentError):
    """A subclass whose constructor takes other arguments."""

    def __init__(self, detail):
        super().__init__(None, None, f"detail {detail}")
        self.detail = detail


def an_op(name="mul", **fields):
    return SimpleNamespace(**{"name": name, "type": "Mul", "device": "/device:CPU:0", **fields})


@pytest.mark.parametrize("constant", CODES)
def test_class_and_code(constant):
    code, name = CODES[constant]
    cls = getattr(errors, name)
    assert getattr(errors, constant) == code
    assert errors.exception_type_from_error_code(code) is cls
    assert errors.error_code_from_exception_type(cls) == code
    error = cls("def", "op", "text")
    assert (error.node_def, error.op, error.message, error.error_code) == ("def", "op", "text", code)
    assert isinstance(error, errors.OpError)
    assert type(errors.make_exception(None, None, "text", code)) is cls
    assert cls.__doc__


def test_unknown_codes():
    error = errors.make_exception(None, None, "text", 77)
    assert (type(error), error.error_code) == (errors.UnknownError, 77)
    assert errors.UnknownError(None, None, "text", 99).error_code == 99
    with pytest.raises(KeyError, match="77"):
        errors.exception_type_from_error_code(77)
    with pytest.raises(KeyError, match="ValueError"):
        errors.error_code_from_exception_type(ValueError)


def test_message_has_three_parts_and_the_place():
    assert errors.message("a", "b", "c") == "Given: a\nExpected: b\nInstead: c"
    assert errors.message("a\nmore", "b\n", 3, at="x.py") == "Given: a\n  more\nExpected: b\nInstead: 3\nAt: x.py"
    assert "\nAt: " not in errors.message("a", "b", "c", at=sites.Site(()))
    assert f'At: File "{__file__}", line ' in errors.message("a", "b", "c", at=sites.capture())


def test_text_names_the_line_that_made_the_operation():
    forward = an_op("loss/mul", user_site=sites.capture())
    gradient = an_op("gradients/mul", user_site=sites.capture(), _original_op=forward)
    lines = str(errors.InvalidArgumentError(None, gradient, "shapes differ")).splitlines()
    assert lines[:2] == ["shapes differ", "Operation 'gradients/mul' (Mul) was created at"]
    assert lines[2].startswith(f'  File "{__file__}", line ')
    assert lines[2].endswith('gradient = an_op("gradients/mul", user_site=sites.capture(), _original_op=forward)')
    assert lines[3] == "for operation 'loss/mul' (Mul) was created at"
    assert lines[4].endswith('forward = an_op("loss/mul", user_site=sites.capture())')
    assert str(errors.OutOfRangeError(None, an_op(), "end")) == str(errors.OutOfRangeError(None, None, "end")) == "end"


def test_pickling_keeps_text_and_drops_the_graph():
    op = an_op(user_site=sites.capture(), graph=lambda: None, _original_op=an_op("first", user_site="line 3"))
    error = errors.DataLossError({"name": "mul"}, op, "corrupt record")
    error.add_note("while reading")
    copied = pickle.loads(pickle.dumps(error))
    assert type(copied) is errors.DataLossError
    assert (copied.message, copied.error_code, copied.node_def) == ("corrupt record", 15, {"name": "mul"})
    assert str(copied) == str(error)
    assert (copied.op.name, copied.op.type, copied.op.device, copied.op.original.name) == (
        "mul",
        "Mul",
        "/device:CPU:0",
        "first",
    )
    assert copied.__notes__ == ["while reading"]
    assert str(pickle.loads(pickle.dumps(copied))) == str(error)


def test_pickling_of_a_users_subclass():
    copied = pickle.loads(pickle.dumps(UsersError(5)))
    assert (type(copied), copied.detail, str(copied), copied.error_code) == (UsersError, 5, "detail 5", 3)
    assert copy.copy(UsersError(6)).detail == 6
