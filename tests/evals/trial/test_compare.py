import pytest

from evals.trial.compare import compare
from evals.trial.markdown import comparison
from tests.evals.trial.made import row, trial

A = trial([row("a1"), row("a2"), row("a3", right=False), row("only in a")])
B = trial([row("a3"), row("a2", right=False, lost_at="reflect"), row("a1"), row("only in b")])


def test_the_cases_that_flipped_are_listed_with_what_they_came_to() -> None:
    flips = {flip.after.id: (flip.gained, flip.before.outcome, flip.after.outcome) for flip in compare(A, B).flips()}
    assert flips == {
        "a2": (False, "right", "partial, lost at reflect"),
        "a3": (True, "partial, lost at generate", "right"),
    }
    assert "| a2 | plain | LOST | right | partial, lost at reflect |" in comparison(compare(A, B))


def test_only_the_cases_of_both_are_compared_and_the_others_counted() -> None:
    found = compare(A, B)
    assert [before.id for before, _ in found.pairs] == ["a1", "a2", "a3"]
    assert found.left_out == 2
    assert "2 cases were asked in one of the two only" in comparison(found)


def test_it_says_where_cases_were_lost_then_and_now() -> None:
    assert sorted(compare(A, B).moved()) == [("generate", 1, 0), ("reflect", 0, 1)]


def test_a_measure_where_lower_is_better_is_worse_when_it_rises() -> None:
    before = trial([row(f"a{n}", parts={"forbidden facts stated": (0.0, 1.0)}) for n in range(20)])
    after = trial([row(f"a{n}", parts={"forbidden facts stated": (1.0, 1.0)}) for n in range(20)])
    change = next(c for c in compare(before, after).changes() if c.measure.name == "forbidden facts stated")
    assert change.worse_by == 1
    assert "| forbidden facts stated | 0.000 | 1.000 | +1.000 | +1.000 to +1.000 | worse, for certain |" in comparison(
        compare(before, after)
    )


def test_a_trial_does_not_differ_from_itself() -> None:
    assert comparison(compare(A, A)).endswith("No measure differs.")


def test_trials_without_a_common_case_cannot_be_compared() -> None:
    with pytest.raises(ValueError, match="no case in common"):
        compare(trial([row("a1")]), trial([row("b1")]))
