import re

from evals.trial import plots
from evals.trial.compare import compare
from evals.trial.markdown import report
from evals.trial.measures import CUTS
from evals.trial.page import page
from evals.trial.worst import worst_paragraph
from tests.evals.trial.made import row, trial

PARTS = {f"recall@{k} {stage}": (k / 40, 1.0) for k in CUTS for stage in ("before rerank", "after rerank")}
MADE = trial([row("a1", parts=PARTS), row("a2", right=False, kind="<b>odd</b>", parts=PARTS)])


def test_the_page_has_its_six_plots_and_loads_nothing() -> None:
    text = page(MADE, compare(MADE, trial([row("a1", right=False), row("a2")])))
    assert text.count("<svg") == 6
    for caption in ("Gate funnel", "Recall curves", "Latency waterfall", "Cost per answer", "Flips"):
        assert caption in text
    assert not re.search(r"<(script|link|img|iframe)\b|@import|url\((?!#)", text)


def test_without_another_trial_there_is_no_plot_of_flips() -> None:
    assert page(MADE).count("<svg") == 5


def test_the_first_paragraph_of_both_reports_says_what_is_worst() -> None:
    worst = worst_paragraph(MADE)
    assert report(MADE).split("\n\n")[1] == worst
    first = re.search(r"<p[^>]*>(.*?)</p>", page(MADE))
    assert first is not None
    assert first[1].startswith("What Gatehouse does worst")


def test_what_stands_in_a_table_is_text_and_no_markup() -> None:
    assert "<td>&lt;b&gt;odd&lt;/b&gt;</td>" in page(MADE)


def test_the_same_trial_draws_the_same_page() -> None:
    assert page(MADE) == page(MADE)


def test_a_trial_of_quote_shows_its_time_since_nothing_was_paid() -> None:
    assert "the cost is 0" in plots.cost_per_answer(MADE)
    paid = trial([row("a1", parts={"cost": (0.02, 1.0)})])
    assert "USD per answer" in plots.cost_per_answer(paid)


def test_every_measure_stands_in_the_report_with_its_interval() -> None:
    assert "| answerable: right | 0.500 | 0.000 to 1.000 | 2 | high |" in report(MADE)
