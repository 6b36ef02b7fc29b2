import pytest

from evals.fit import thresholds_of


@pytest.mark.parametrize("cut", [0.4161, 0.4165, 0.4169, 0.416, 0.5])
def test_no_more_than_one_unanswerable_in_twenty_lies_over_the_rounded_threshold(cut: float) -> None:
    wrong = [0.7, cut, *(number / 100 for number in range(33))]
    right = [0.2 + number / 100 for number in range(51)]
    _, answers = thresholds_of(right, wrong)
    assert sum(evidence >= answers for evidence in wrong) == 1
    assert answers - cut <= 0.001 + 1e-9


def test_no_more_than_one_answerable_in_twenty_lies_below_the_lower_threshold() -> None:
    right = [0.01, 0.0574, *(0.2006 + number / 100 for number in range(38))]
    relevant, answers = thresholds_of(right, [0.03])
    assert (relevant, answers) == (0.2, 0.2)  # not 0.201, the nearest
    assert sum(evidence < relevant for evidence in right) == 2
