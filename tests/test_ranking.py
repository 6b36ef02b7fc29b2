from service.ranking import combined_order


def test_a_candidate_that_both_orders_put_first_stays_first() -> None:
    assert combined_order([0.9, 0.1, 0.2])[0] == 0


def test_the_best_of_either_order_beats_what_neither_puts_high() -> None:
    assert set(combined_order([0.2, 0.1, 0.15, 0.12, 0.9])[:2]) == {0, 4}


def test_equal_totals_keep_the_order_of_the_search() -> None:
    assert combined_order([0.1, 0.2]) == [0, 1]


def test_no_candidates_give_no_order() -> None:
    assert combined_order([]) == []
