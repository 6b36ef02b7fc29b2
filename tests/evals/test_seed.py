"""When an answer states a fact: a figure is no part of a longer one."""

import pytest

from evals.seed import states


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("It has fallen by 10% since.", "10%"),
        ("The fee is MC\u00a04,000.", "MC 4,000"),
        ("The fee is MC 90, and MC 30 more.", "90"),
        ("(five years)", "Five years"),
        ("It must pay no dividends.", "dividend"),
    ],
)
def test_a_fact_is_stated_in_any_case_and_spacing(text: str, fact: str) -> None:
    assert states(text, fact)


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("Own funds fall below 110% of the requirement.", "10%"),
        ("It has 15 business days.", "5 business days"),
        ("The limit is MC 90,000.", "90"),
        ("The limit is MC 1,000.90.", "90"),
        ("The limit is MC 4,812,000.", "12,000"),
        ("The figure is MC 150,000.", "MC 15"),
        ("On a Tuesday afternoon.", "noon"),
        ("It acts on the client’s behalf.", "Half"),
    ],
)
def test_a_part_of_another_figure_or_word_states_nothing(text: str, fact: str) -> None:
    assert not states(text, fact)
