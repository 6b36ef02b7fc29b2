import pytest

from evals.trial.estimate import difference, estimate


def test_a_value_is_the_sum_of_numerators_over_the_sum_of_denominators() -> None:
    found = estimate([(1, 2), None, (3, 4)])
    assert found is not None
    assert found.value == pytest.approx(4 / 6)
    assert found.cases == 2


def test_without_a_part_or_a_denominator_there_is_no_value() -> None:
    assert estimate([None, None]) is None
    assert estimate([(0, 0)]) is None


def test_where_every_case_agrees_the_interval_is_a_point() -> None:
    found = estimate([(1.0, 1.0)] * 20)
    assert found is not None
    assert (found.low, found.high) == (1, 1)


def test_the_interval_is_that_of_a_binomial_share_and_the_same_each_time() -> None:
    parts = [(float(index % 2), 1.0) for index in range(100)]
    found = estimate(parts)
    assert found is not None
    # The standard error of one half over 100 cases is 0.05: 1.96 of them on each side.
    assert found.low == pytest.approx(0.40, abs=0.015)
    assert found.high == pytest.approx(0.60, abs=0.015)
    assert found == estimate(parts)


def test_a_paired_difference_knows_that_the_same_cases_are_hard_in_both() -> None:
    before = [(float(index % 2), 1.0) for index in range(100)]
    after = [(1.0, 1.0) if index < 8 else part for index, part in enumerate(before)]
    found = difference(before, after)
    assert found is not None
    assert found.value == pytest.approx(0.04)
    # Unpaired, 0.04 would drown in the 0.07 of standard error that two samples have.
    assert found.is_real


def test_one_flip_among_many_cases_is_no_real_difference() -> None:
    before = [(1.0, 1.0)] * 50
    found = difference(before, [(0.0, 1.0), *before[1:]])
    assert found is not None
    assert not found.is_real


def test_what_a_stored_report_rounded_away_is_no_difference() -> None:
    exact = [(1 / 3, 1.0), (2 / 7, 1.0)] * 30
    found = difference([(round(value, 6), of) for value, of in exact], exact)
    assert found is not None
    assert (found.value, found.is_real) == (0, False)


def test_a_case_that_has_a_part_in_one_trial_only_still_counts_there() -> None:
    found = difference([(1, 1), None], [(1, 1), (0, 1)])
    assert found is not None
    assert (found.a, found.b, found.cases) == (1, 0.5, 2)
