"""The error tree."""

from __future__ import annotations

import ast
import inspect
import pickle

import pytest

from railkeeper.base import errors
from railkeeper.base.errors import CapabilityError, InputError, OutsideError, RailkeeperError


def test_input_errors_name_where_what_and_what_would_be_right():
    e = InputError("a.toml: fabric.planes", "is 9", "at most 8")

    assert str(e) == "a.toml: fabric.planes: is 9; at most 8"
    assert (e.where, e.problem, e.right) == ("a.toml: fabric.planes", "is 9", "at most 8")
    assert str(InputError("x", "is bad", "")) == "x: is bad"


@pytest.mark.parametrize(
    ("error", "builtin"),
    [(InputError("x", "y", "z"), ValueError), (OutsideError("x"), OSError), (CapabilityError("x"), Exception)],
)
def test_errors_are_the_builtins_that_a_caller_already_catches(error, builtin):
    assert isinstance(error, builtin)
    assert isinstance(error, RailkeeperError)


def test_outside_errors_say_whether_again_could_help():
    assert OutsideError("gone", retry=True).retry
    assert not OutsideError("gone").retry
    assert str(OutsideError("gone")) == "gone"


@pytest.mark.parametrize("error", [InputError("w", "p", "r"), CapabilityError("c"), OutsideError("o", retry=True)])
def test_errors_cross_processes_whole(error):
    copy = pickle.loads(pickle.dumps(error))

    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)


def test_the_tree_in_the_docstring_is_the_tree_in_the_code():
    classes = [n.name for n in ast.parse(inspect.getsource(errors)).body if isinstance(n, ast.ClassDef)]

    assert all(name in (errors.__doc__ or "") for name in classes)
