"""The report as one page: plots first, then the tables. It loads nothing from anywhere."""

from html import escape
from itertools import groupby

from evals.trial import markdown, plots
from evals.trial.compare import Comparison
from evals.trial.trial import Trial
from evals.trial.worst import worst_paragraph

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 62rem; padding: 0 1rem; color: #1c2430; }
p.worst { background: #fbeee6; border-left: 4px solid #d1782b; padding: .8rem 1rem; }
figure { margin: 1.5rem 0; } figcaption { color: #55606e; }
svg { max-width: 100%; height: auto; }
table { border-collapse: collapse; margin: .5rem 0 1.5rem; font-size: .9rem; }
th, td { border-bottom: 1px solid #dde3ea; padding: .2rem .8rem .2rem 0; text-align: left; vertical-align: top; }
"""


def page(trial: Trial, against: Comparison | None = None) -> str:
    title = markdown.heading(trial).removeprefix("# ")
    body = [f"<h1>{escape(title)}</h1>", f'<p class="worst">{escape(worst_paragraph(trial))}</p>']
    body += [figure(svg, caption) for svg, caption in drawn(trial, against)]
    sections = [*markdown.measures_of(trial), markdown.kinds(trial), markdown.losses(trial), markdown.times(trial)]
    sections += [markdown.comparison(against)] if against else []
    body += [as_html(section) for section in sections]
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{STYLE}</style></head>\n<body>\n" + "\n".join(body) + "\n</body></html>\n"
    )


def drawn(trial: Trial, against: Comparison | None) -> list[tuple[str, str]]:
    found = [
        (plots.funnel(trial), "Gate funnel: how far the answerable cases came"),
        (plots.outcomes(trial), "By kind of question: right, or the node where it was lost first"),
        (plots.recall_curves(trial), "Recall curves of the first pass"),
        (plots.waterfall(trial), "Latency waterfall"),
        (plots.cost_per_answer(trial), "Cost per answer"),
    ]
    return [*found, (plots.flips(against), "Flips against the other trial")] if against else found


def figure(svg: str, caption: str) -> str:
    return f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>"


def as_html(section: str) -> str:
    """Our own Markdown, which is headings, lines and tables, as HTML."""
    blocks = [(is_table, list(lines)) for is_table, lines in groupby(filter(None, section.split("\n")), is_row)]
    return "\n".join(table(lines) if is_table else "\n".join(map(line_html, lines)) for is_table, lines in blocks)


def is_row(line: str) -> bool:
    return line.startswith("|")


def line_html(line: str) -> str:
    return f"<h2>{escape(line[3:])}</h2>" if line.startswith("## ") else f"<p>{escape(line)}</p>"


def table(lines: list[str]) -> str:
    head, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    body = "\n".join(row_html(row, "td") for row in rows)
    return f"<table>\n<thead>{row_html(head, 'th')}</thead>\n<tbody>{body}</tbody>\n</table>"


def row_html(cells: list[str], tag: str) -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"
