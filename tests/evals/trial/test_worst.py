from evals.trial.worst import weaknesses, worst_paragraph
from tests.evals.trial.made import row, trial


def test_the_weakest_measure_comes_first_whichever_way_it_points() -> None:
    parts = {"facts stated": (9.0, 10.0), "forbidden facts stated": (4.0, 10.0), "citation recall": (8.0, 10.0)}
    named = [weakness.measure.name for weakness in weaknesses(trial([row("a1", parts=parts)]))]
    assert named[:3] == ["forbidden facts stated", "citation recall", "facts stated"]


def test_the_paragraph_is_made_of_the_results() -> None:
    tables = [row(f"t{n}", right=n == 0, kind="table", lost_at="" if n == 0 else "grade_documents") for n in range(6)]
    text = worst_paragraph(trial([*tables, *(row(f"p{n}") for n in range(6))]))
    assert text.startswith("What Gatehouse does worst: “answerable: right” is 0.58 where 1 is best")
    assert "worst is “table” with 1 of 6 right" in text
    assert "5 at grade_documents (gate 1 dropped an expected passage, or" in text


def test_other_results_make_another_paragraph() -> None:
    definitions = [row(f"d{n}", right=False, kind="definition", lost_at="rerank_vector") for n in range(5)]
    text = worst_paragraph(trial(definitions))
    assert "“definition” with 0 of 5 right" in text
    assert "5 at rerank_vector" in text


def test_a_kind_of_few_cases_is_not_called_the_worst() -> None:
    rows = [row("x", right=False, kind="rare"), *(row(f"p{n}", right=n > 0) for n in range(6))]
    assert "rare" not in worst_paragraph(trial(rows))


def test_where_nothing_went_wrong_it_says_so() -> None:
    assert worst_paragraph(trial([row("a1")])) == "What Gatehouse does worst: nothing that these 1 cases show."
