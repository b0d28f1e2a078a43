"""Parameters refuse what no method can work with, and every instance in use is valid."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from math import nan

import pytest

from formulations import parameters

EVERY = [value for value in vars(parameters).values() if is_dataclass(value)]
INSTANCES = [value for value in EVERY if not isinstance(value, type)]
CLASSES = {value for value in EVERY if isinstance(value, type)} - {parameters.Params}


def test_every_class_of_parameters_has_an_instance_in_use() -> None:
    assert {type(one) for one in INSTANCES} == CLASSES


@pytest.mark.parametrize("params", INSTANCES, ids=lambda one: type(one).__name__)
def test_a_field_that_is_negative_or_no_number_is_refused_by_name(params: object) -> None:
    for field in fields(params):  # type: ignore[arg-type]
        for value in (-1, nan):
            with pytest.raises(ValueError, match=rf"^{type(params).__name__}\.{field.name} must"):
                replace(params, **{field.name: value})  # type: ignore[type-var]


def test_a_count_must_be_a_whole_number() -> None:
    with pytest.raises(ValueError, match=r"moves must be a whole number from 1, got 2\.5"):
        replace(parameters.PLACING, moves=2.5)  # type: ignore[arg-type]
