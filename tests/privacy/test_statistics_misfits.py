"""Questions whose bound would be false for these rows: each statistic says so itself."""

import pytest

from hedgerow.models.losses import FirstOrder, LogLoss, SoftmaxLoss, SquaredLoss
from hedgerow.models.model import Additive
from hedgerow.privacy.queries import CurveNewton, Fractions, Gradients
from privacy.test_sensitivity import BY_CLASS, BY_TWO, BY_VALUE

KINDS = {
    "two classes": (LogLoss(), BY_TWO),
    "three classes": (SoftmaxLoss(3), BY_CLASS),
    "gradients of three": (FirstOrder(SoftmaxLoss(3)), BY_CLASS),
    "a number": (SquaredLoss(low=-1.0, high=3.0, clip=1.5), BY_VALUE),
}


def zero(loss):
    return Additive((0.0,) * loss.outputs)


@pytest.mark.parametrize(("loss", "own"), KINDS.values(), ids=KINDS)
def test_a_loss_is_asked_of_its_own_kind_of_target_only(loss, own):
    asked = Gradients(loss, zero(loss))
    fits = {schema for schema in (BY_TWO, BY_CLASS, BY_VALUE) if asked.misfit(schema) is None}
    assert fits == {own}


def test_a_softmax_of_more_classes_than_there_are_is_refused():
    loss = SoftmaxLoss(20_000)
    assert "classes were named" in str(Gradients(loss, zero(loss)).misfit(BY_CLASS))


@pytest.mark.parametrize(
    "wrong",
    [
        {"weight": -0.9999999},
        {"weight": 0.0},
        {"weight": 1e6},
        {"weight": float("nan")},
        {"clip": 0.0},
        {"clip": 4.1},
        {"low": -1.5},
        {"high": 3.5},
        {"low": 3.0, "high": -1.0},
    ],
    ids=str,
)
def test_a_squared_loss_keeps_to_the_target_s_own_range(wrong):
    right = {"low": -1.0, "high": 3.0, "clip": 1.5, "weight": 0.25}
    assert Gradients(SquaredLoss(**right), Additive((0.0,))).misfit(BY_VALUE) is None
    assert Gradients(SquaredLoss(**right | wrong), Additive((0.0,))).misfit(BY_VALUE)


def test_a_model_has_as_many_outputs_as_the_loss():
    """One output would be stretched over all classes, and its Hessians over all noises."""
    for outputs in (1, 2, 4):
        asked = Gradients(SoftmaxLoss(3), Additive((0.0,) * outputs))
        assert "the loss needs 3" in str(asked.misfit(BY_CLASS))


@pytest.mark.parametrize(("low", "high"), [(-2.0, 3.0), (-1.0, 4.0), (1.0, 1.0), (2.0, 0.0)])
def test_fractions_are_of_a_part_of_the_target_s_range(low, high):
    assert Fractions(0.0, 2.0).misfit(BY_VALUE) is None
    assert "no part of the target's range" in str(Fractions(low, high).misfit(BY_VALUE))


@pytest.mark.parametrize("radius", [5e-324, 1e-7, 0.0, -1.0, 1e300, float("inf"), float("nan")])
def test_a_radius_that_cannot_be_divided_by_is_refused(radius):
    assert newton(1.0).misfit(BY_TWO) is None
    assert "too small or too large" in str(newton(radius).misfit(BY_TWO))


def newton(radius):
    return CurveNewton(curves=(), constant=1.0, radius=radius, weights=(0.0,), base=0.0)
