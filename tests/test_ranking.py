from itertools import pairwise

import pytest

from service.ranking import combined_order, log_odds


def test_a_candidate_that_both_put_first_stays_first() -> None:
    assert combined_order([0.9, 0.1, 0.2])[0] == 0


def test_the_best_of_either_beats_what_neither_puts_high() -> None:
    assert set(combined_order([0.2, 0.1, 0.15, 0.12, 0.9])[:2]) == {0, 4}


def test_candidates_that_are_scored_alike_keep_the_order_of_the_search() -> None:
    assert combined_order([0.3] * 40) == list(range(40))


def test_how_sure_the_reranker_is_decides_how_far_a_candidate_rises() -> None:
    places = [combined_order([0.5] * 9 + [score]).index(9) for score in (0.6, 0.8, 0.95, 0.999)]
    assert all(surer <= less for less, surer in pairwise(places))
    assert places[0] > places[-1] == 0


@pytest.mark.parametrize("score", [0.0, 1.0])
def test_scores_at_the_ends_are_ordered_like_any_other(score: float) -> None:
    assert combined_order([score, 0.5])[0] == (0 if score else 1)


def test_log_odds_are_even_at_a_half_and_mirrored_around_it() -> None:
    assert log_odds(0.5) == 0
    assert log_odds(0.9) == pytest.approx(-log_odds(0.1))


def test_no_candidates_give_no_order() -> None:
    assert combined_order([]) == []
