import pytest

from evals.metrics import (
    auc,
    average_precision_at,
    calibration_error,
    interval,
    mean,
    ndcg_at,
    recall_at,
    reliability,
)


def test_recall_is_the_share_of_the_relevant_within_the_cut() -> None:
    assert recall_at(2, [5, 1, 9], frozenset({1, 9})) == 0.5


def test_average_precision_divides_by_all_relevant_items_found_or_not() -> None:
    assert average_precision_at(10, [1, 7, 2], frozenset({1, 2, 3, 4})) == pytest.approx((1 + 2 / 3) / 4)


def test_ndcg_is_one_for_an_order_that_cannot_be_better() -> None:
    assert ndcg_at(10, [3, 1, 0], frozenset({1, 3})) == pytest.approx(1)


def test_ndcg_falls_when_the_relevant_item_falls() -> None:
    assert ndcg_at(10, [0, 1, 2], frozenset({2})) == pytest.approx(0.5)


def test_auc_counts_a_tie_as_half() -> None:
    assert auc([0.9, 0.5], [0.5, 0.1]) == pytest.approx((1 + 1 + 0.5 + 1) / 4)


def test_scores_that_are_shares_of_right_have_no_calibration_error() -> None:
    scores = [0.25] * 4 + [0.75] * 4
    right = [True, False, False, False, True, True, True, False]
    assert calibration_error(reliability(scores, right)) == pytest.approx(0)


def test_scores_that_are_too_sure_have_the_gap_as_calibration_error() -> None:
    assert calibration_error(reliability([1.0, 1.0], [True, False])) == pytest.approx(0.5)


def test_an_interval_is_the_same_for_the_same_seed_and_holds_the_mean() -> None:
    values = [0.0, 1.0] * 50
    low, high = interval(values, mean)
    assert (low, high) == interval(values, mean)
    assert low < 0.5 < high
