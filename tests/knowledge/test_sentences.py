import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.knowledge.sentences import sentences


def split(text: str) -> list[str]:
    return [text[start:end] for start, end in sentences(text)]


@pytest.mark.parametrize(
    "parts",
    [
        ["A firm must keep records.", "It must keep them for five years."],
        ["Is consent needed?", "Yes!", "In writing."],
        ["Assets, e.g. cash, i.e. Sterling notes, are client money.", "Others are not."],
        ["See Art. 6 and para. (b) of Sch. IV, as amended by No. 12 of 2019.", "It applies."],
        ["The rule in Smith v. Jones and Dr. Brown's note apply.", "They differ."],
        ["Acme Ltd. and U.K. branches report.", "The rest do not."],
        ["It was signed for Acme Ltd.", "The deed is void."],
        ["Trading ends at 5 p.m. London time.", "No order is taken after it."],
        ["The answer is no.", "Firms must refuse."],
        ["The rate is 3.5 per cent. of 1,250,000.50 in all.", "See 4.2.3 and CM 3.1.2R.", "Then stop."],
        ["“Client money” is defined in “Terms.”", "Firms use it."],
        ["It applies (see the notes.)", "“Firm” means a firm."],
        ["The duty is absolute.12", "It cannot be waived.[3]", "Never."],
        ["4.2.3. The firm must act.", "(2) It must tell the client."],
        ["(a) keep records;", "(b) tell the client."],
        ["Wait ... for the notice.", "Then act..."],
        ["The words of J. B. Smith bind.", "Nothing else does."],
        ["It is set out in Annex A.", "The firm must read it."],
    ],
)
def test_a_text_is_cut_at_the_ends_of_its_sentences_only(parts: list[str]) -> None:
    text = "\n".join(parts) if parts[0].endswith(";") else " ".join(parts)
    assert split(text) == parts


def test_a_line_break_ends_a_sentence() -> None:
    assert split("Scope\nThis part applies\u2028to firms") == ["Scope", "This part applies", "to firms"]


def test_no_break_spaces_count_as_white_space() -> None:
    assert split("Pay EUR\xa0250.\xa0Then No.\xa05 applies.") == ["Pay EUR\xa0250.", "Then No.\xa05 applies."]


def test_scripts_without_spaces_are_cut_at_their_full_stop() -> None:
    assert split("借入人は返済する。以上。") == ["借入人は返済する。", "以上。"]


def test_an_empty_text_has_no_sentence() -> None:
    assert sentences(" \n\t ") == []


@given(st.text(alphabet=st.sampled_from('ab A.!?…)]"”[(1\n\xa0。v'), max_size=80) | st.text(max_size=200))
def test_every_visible_character_lies_in_exactly_one_span(text: str) -> None:
    spans = sentences(text)
    covered = [index for start, end in spans for index in range(start, end)]
    assert len(covered) == len(set(covered))
    assert {i for i, c in enumerate(text) if not c.isspace()} <= set(covered)
    assert spans == sorted(spans)


def test_a_long_run_of_marks_takes_linear_time() -> None:
    assert len(sentences("a" + "." * 50_000 + " B" + ". " * 50_000)) > 1
