import math

import pytest

from evals.trial.measures import all_measures
from evals.trial.observed import Observed
from evals.trial.probes import Probed
from evals.trial.web import Egress
from tests.evals.trial.made import case, measured, observed, one_pass, record


def test_no_two_measures_share_a_name() -> None:
    names = [measure.name for measure in all_measures()]
    assert len(names) == len(set(names))


# Retrieval


def test_ranking_measures_before_the_rerank_follow_the_order_of_the_search() -> None:
    found = measured(case(1, 3), record(one_pass([5, 1, 4, 3, 2])))
    assert found["recall@1 before rerank"] == (0, 1)
    assert found["recall@3 before rerank"] == (0.5, 1)
    assert found["recall@6 before rerank"] == (1, 1)
    assert found["MRR@10 before rerank"] == (0.5, 1)
    assert found["MAP@10 before rerank"][0] == pytest.approx((1 / 2 + 2 / 4) / 2)
    ideal = 1 + 1 / math.log2(3)
    assert found["nDCG@10 before rerank"][0] == pytest.approx((1 / math.log2(3) + 1 / math.log2(5)) / ideal)


def test_after_the_rerank_the_combined_order_counts() -> None:
    # 0.6 log odds less log rank: -0.24, -0.45, -2.42. The search's first stays first.
    found = measured(case(1), record(one_pass([5, 1, 9], [0.4, 0.6, 0.1])))
    assert found["recall@1 after rerank"] == (0, 1)
    assert found["MRR@10 after rerank"] == (0.5, 1)
    # -1.32, -1.52, 0.22: 9, 5, 1.
    found = measured(case(1), record(one_pass([5, 1, 9], [0.1, 0.2, 0.9])))
    assert found["MRR@10 after rerank"] == (1 / 3, 1)


def test_an_expected_passage_that_did_not_come_back_counts_against_recall_and_map() -> None:
    found = measured(case(1, 3), record(one_pass([1, 2])))
    assert found["recall@40 before rerank"] == (0.5, 1)
    assert found["MAP@10 before rerank"] == (0.5, 1)


def test_where_each_passage_answers_alone_the_first_is_enough() -> None:
    found = measured(case(1, 3, tags=("plain", "any-of")), record(one_pass([3, 2], grades={3: "pass"})))
    assert found["recall@1 before rerank"] == (1, 1)
    assert found["MAP@10 before rerank"] == (1, 1)
    assert found["expected passages kept"] == (1, 1)


def test_a_case_that_nothing_answers_has_no_part_in_retrieval() -> None:
    found = measured(case(), record(one_pass([1, 2]), outcome="refused"))
    assert not [name for name in found if "rerank" in name or "expected" in name]


# Gates


def test_gate_one_is_measured_against_the_expected_passages() -> None:
    found = measured(case(1, 3), record(one_pass([1, 2, 3, 4], grades={1: "pass", 2: "pass", 3: "fail", 4: "fail"})))
    assert found["gate 1 (documents) precision"] == (1, 2)
    assert found["gate 1 (documents) recall"] == (1, 2)
    assert found["irrelevant passages passed"] == (1, 2)
    assert found["expected passages graded"] == (1, 1)
    assert found["expected passages kept"] == (0.5, 1)


def test_gate_three_is_right_when_it_passes_a_draft_that_states_every_fact() -> None:
    passed = [("grounded", "pass"), ("answers", "pass")]
    good = measured(case(1), record(one_pass([1]), answer="It is 1 years.", verdicts=passed))
    assert (good["gate 3 (answers) precision"], good["gate 3 (answers) recall"]) == ((1, 1), (1, 1))
    wrong = measured(case(1), record(one_pass([1]), answer="It is nine.", verdicts=passed))
    assert wrong["gate 3 (answers) precision"] == (0, 1)
    assert "gate 3 (answers) recall" not in wrong


def test_gate_three_is_wrong_when_it_holds_back_a_right_draft() -> None:
    failed = [("answers", "fail")]
    held = measured(case(1), record(one_pass([1]), outcome="partial", answer="It is 1 years.", verdicts=failed))
    assert held["gate 3 (answers) recall"] == (0, 1)
    assert "gate 3 (answers) precision" not in held


def test_gate_three_is_wrong_when_it_passes_what_nothing_answers() -> None:
    found = measured(case(), record(one_pass([1]), answer="Yes.", verdicts=[("answers", "pass")]))
    assert found["gate 3 (answers) precision"] == (0, 1)


def test_a_rewrite_was_called_for_where_the_first_pass_kept_nothing_expected() -> None:
    missed, regained = one_pass([2], grades={2: "fail"}), one_pass([1], grades={1: "pass"})
    found = measured(case(1), record(missed, regained))
    assert found["gate 4 (rewrite) precision"] == (1, 1)
    assert found["gate 4 (rewrite) recall"] == (1, 1)
    assert found["rewrites that found what was missing"] == (1, 1)
    alone = measured(case(1), record(missed, outcome="refused"))
    assert alone["gate 4 (rewrite) recall"] == (0, 1)
    needless = measured(case(1), record(regained, regained))
    assert needless["gate 4 (rewrite) precision"] == (0, 1)


def probed(*said: tuple[bool, str]) -> tuple[Probed, ...]:
    return tuple(Probed("grounded", good, result) for good, result in said)  # type: ignore[arg-type]


def test_a_judge_that_tells_good_from_bad_has_precision_and_recall() -> None:
    found = measured(case(1), record(one_pass([1])), probes=probed((True, "pass"), (False, "fail")))
    assert found["probe grounded: precision"] == (1, 1)
    assert found["probe grounded: recall"] == (1, 1)
    assert found["probe grounded: polarity inverted"] == (0, 1)


def test_a_judge_that_is_turned_round_is_seen_by_its_polarity() -> None:
    found = measured(case(1), record(one_pass([1])), probes=probed((True, "fail"), (False, "pass")))
    assert found["probe grounded: precision"] == (0, 1)
    assert found["probe grounded: recall"] == (0, 1)
    assert found["probe grounded: polarity inverted"] == (1, 1)


def test_a_judge_that_always_passes_has_half_the_precision_and_is_not_turned_round() -> None:
    found = measured(case(1), record(one_pass([1])), probes=probed((True, "pass"), (False, "pass")))
    assert found["probe grounded: precision"] == (1, 2)
    assert found["probe grounded: polarity inverted"] == (0, 1)


# Answers


def test_facts_are_counted_one_by_one_whatever_their_case_and_white_space() -> None:
    asked = case(1, facts=("Five Years", "the firm"), forbidden=("six years", "ten years"))
    found = measured(asked, record(one_pass([1]), answer="It is five\u00a0years, or six years."))
    assert found["facts stated"] == (1, 2)
    assert found["forbidden facts stated"] == (1, 2)
    assert found["forbidden facts stated as an answer"] == (1, 2)
    assert found["right"] == (0, 1)


def test_a_forbidden_fact_under_a_warning_is_not_stated_as_an_answer() -> None:
    asked = case(1, forbidden=("six years",))
    found = measured(asked, record(one_pass([1]), outcome="partial", answer="six years"))
    assert found["forbidden facts stated"] == (1, 1)
    assert found["forbidden facts stated as an answer"] == (0, 1)


def test_citations_are_held_against_the_expected_passages() -> None:
    told = record(
        one_pass([1, 2, 3]),
        answer="x",
        citations=[(1, "verified"), (2, "supported"), (2, "unsupported"), (1, "verified")],
    )
    found = measured(case(1, 3), told)
    assert found["citation precision"] == (2, 4)
    assert found["citation recall"] == (0.5, 1)
    assert found["citations verified"] == (2, 4)
    assert found["citations supported"] == (1, 4)
    assert found["citations unsupported"] == (1, 4)


def test_a_statement_without_a_marker_is_a_claim_without_a_citation() -> None:
    found = measured(case(1), record(one_pass([1]), answer="It is one year [[1]]. It may be more. Or less."))
    assert found["claims without a citation"] == (2, 3)


def test_refusals_have_precision_over_those_made_and_recall_over_those_wanted() -> None:
    right = measured(case(), record(one_pass([1]), outcome="refused"))
    assert (right["refusal precision"], right["refusal recall"]) == ((1, 1), (1, 1))
    wrong = measured(case(1), record(one_pass([1]), outcome="refused"))
    assert wrong["refusal precision"] == (0, 1)
    assert "refusal recall" not in wrong
    missed = measured(case(), record(one_pass([1]), outcome="partial", answer="x [[1]]"))
    assert missed["refusal recall"] == (0, 1)
    assert "refusal precision" not in missed


def test_what_nothing_answers_is_right_only_when_it_is_refused() -> None:
    outcomes = {o: measured(case(), record(outcome=o))["right"][0] for o in ("refused", "partial", "answered", "error")}
    assert outcomes == {"refused": 1, "partial": 0, "answered": 0, "error": 0}


# Boundaries and cost


def test_every_attempt_on_the_web_counts_where_it_is_off() -> None:
    found = measured(case(1), record(one_pass([1])), egress=Egress(1, 2, 3))
    assert found["web egress when off"] == (6, 1)


def test_a_skill_that_forbids_the_web_makes_it_off_though_the_toggle_is_on() -> None:
    barred = {"sources": None, "kinds": None, "web": False, "domains": None}
    found = measured(case(web_search=True), record(filter=barred), egress=Egress(searches=1))
    assert found["web egress when off"] == (1, 1)


def test_the_web_may_be_used_where_it_is_on() -> None:
    found = measured(case(1, web_search=True), record(one_pass([1])), egress=Egress(1, 1, 1))
    assert "web egress when off" not in found
    assert found["web reached when on"] == (0, 1)


def test_leaks_errors_and_usage_are_counted_for_each_run() -> None:
    found = measured(case(1), record(one_pass([1]), outcome="error"), leaked=4)
    assert found["passages outside the scope"] == (4, 1)
    assert found["runs that ended in an error"] == (1, 1)
    assert [found[name][0] for name in ("model calls", "input tokens", "output tokens", "cost")] == [3, 100, 10, 0.25]


def test_a_judges_scores_are_taken_as_they_are_and_none_is_made_up() -> None:
    found = measured(case(1), record(one_pass([1])), judged={"faithfulness": 0.75})
    assert found["judge: faithfulness"] == (0.75, 1)
    assert "judge: answer relevancy" not in found


# Where a case was lost


def lost(*numbers: int, **told: object) -> str:
    seen: Observed = observed(case(*numbers), record(**told))  # type: ignore[arg-type]
    return seen.lost_at


@pytest.mark.parametrize(
    ("passage", "outcome", "answer", "node"),
    [
        (one_pass([2]), "refused", "", "retrieve_vector"),
        (one_pass([1, 2], grades={2: "fail"}), "refused", "", "rerank_vector"),
        (one_pass([1, 2], grades={1: "fail", 2: "pass"}), "partial", "no", "grade_documents"),
        (one_pass([1], grades={1: "pass"}), "answered", "no", "generate"),
        (one_pass([1], grades={1: "pass"}), "partial", "It is 1 years.", "reflect"),
        (one_pass([1], grades={1: "pass"}), "answered", "It is 1 years.", ""),
        (one_pass([1], grades={1: "pass"}), "error", "", "error"),
    ],
)
def test_a_case_is_lost_at_the_first_node_that_failed_it(passage: object, outcome: str, answer: str, node: str) -> None:
    seen = observed(case(1), record(passage, outcome=outcome, answer=answer))  # type: ignore[arg-type]
    assert seen.lost_at == node


def test_an_answer_that_nothing_supports_was_lost_at_the_judges() -> None:
    assert lost(outcome="answered") == "reflect"


def test_what_is_shown_under_a_warning_where_nothing_answers_was_lost_where_a_passage_was_kept() -> None:
    assert lost(outcome="partial") == "grade_documents"
