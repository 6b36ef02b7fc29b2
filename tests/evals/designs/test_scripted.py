"""The scripted model: right by the labels, wrong by the seed, and the same for every design."""

from dataclasses import replace

import pytest

from evals.designs.clock import Clock, call_s
from evals.designs.port import DONT_KNOW, Fork
from evals.designs.scripted import Faults, Scripted, distorted, first_sentences, standalone
from evals.designs.topics import CURRENT, STALE, folder_of
from evals.designs.truth import states_the_answer, unsupported
from evals.golden_set import Case
from service.model import ABSTAIN, Source
from service.usage import Usage
from tests.evals.designs.benches import NO_FAULTS, case_of
from tests.fakes import passage

FORK = Fork(CURRENT, ("store", "web", "direct"), doubt="web")


def model_of(case: Case, errors: float = 0.0, seed: int = 1) -> Scripted:
    return Scripted(case, "cm", seed, replace(NO_FAULTS, errors=errors))


async def grades(model: Scripted, numbers: range) -> list[str]:
    return [g.result for n in numbers for g in await model.grade("q", [passage(n)], Usage())]


async def draft(model: Scripted, *numbers: int) -> str:
    sources = [Source(n, passage(n), 0.5) for n in numbers]
    return "".join([piece async for piece in model.answer("q", sources, "", Usage())])


async def test_without_errors_it_grades_by_the_labels() -> None:
    assert await grades(model_of(case_of(2)), range(1, 4)) == ["fail", "pass", "fail"]


async def test_a_share_of_the_judgements_is_turned_round_by_the_seed() -> None:
    right = await grades(model_of(case_of(2)), range(1, 401))
    wrong = await grades(model_of(case_of(2), errors=0.15), range(1, 401))
    turned = sum(one != other for one, other in zip(right, wrong, strict=True))
    assert 0.10 < turned / 400 < 0.20


async def test_the_same_seed_errs_alike_and_another_does_not() -> None:
    first, again, other = [await grades(model_of(case_of(2), 0.15, seed), range(1, 101)) for seed in (1, 1, 2)]
    assert first == again != other


async def test_fewer_errors_are_a_part_of_more_errors() -> None:
    clean, few, many = [await grades(model_of(case_of(2), rate), range(1, 201)) for rate in (0, 0.05, 0.15)]
    few_wrong, many_wrong = (
        {n for n, (one, other) in enumerate(zip(clean, wrong, strict=True)) if one != other} for wrong in (few, many)
    )
    assert few_wrong < many_wrong


@pytest.mark.parametrize("errors", [0.0, 1.0])
async def test_the_check_asked_the_other_way_round_says_the_same_thing(errors: float) -> None:
    model, sources = model_of(case_of(1), errors), [Source(1, passage(1), 0.5)]
    for text in ("It is 1 [[1]].", "It is 99 [[1]]."):
        grounded = (await model.judge_grounded("q", text, sources, Usage())).result == "pass"
        assert await model.hallucinated(text, sources, Usage()) == ("no" if grounded else "yes")


async def test_it_states_what_the_labels_call_the_answer_with_its_citation() -> None:
    assert await draft(model_of(case_of(2)), 1, 2) == "must keep record 2 for 2 years; for 2 years [[2]]."


async def test_it_abstains_without_evidence_but_for_its_faults() -> None:
    case = case_of(7)
    assert await draft(model_of(case), 1) == ABSTAIN
    guesses = Scripted(case, "cm", faults=replace(NO_FAULTS, guesses=1.0))
    assert unsupported(await draft(guesses, 1), [passage(1).text])
    misreads = Scripted(case, "cm", faults=replace(NO_FAULTS, misreads=1.0))
    said = await draft(misreads, 1)
    assert not unsupported(said, [passage(1).text])
    assert not states_the_answer(said, case)


async def test_a_misreading_is_the_near_miss_where_one_is_before_it() -> None:
    case = replace(case_of(7), forbidden=("for 3 years",))
    model = Scripted(case, "cm", faults=replace(NO_FAULTS, misreads=1.0))
    assert await draft(model, 1, 3) == "It is for 3 years [[3]]."


async def test_over_nothing_it_says_the_same_again_and_over_evidence_it_draws_anew() -> None:
    nothing = Scripted(case_of(), "cm", faults=Faults())
    assert await draft(nothing, 1) == await draft(nothing, 1)
    drafts = set()
    for number in range(20):
        model = Scripted(replace(case_of(1), id=f"t{number}"), "cm", faults=replace(NO_FAULTS, invents=0.5))
        drafts.add(("7,777" in await draft(model, 1), "7,777" in await draft(model, 1)))
    assert drafts == {(False, False), (False, True), (True, False), (True, True)}


async def test_it_routes_by_the_topic_list_that_it_is_given() -> None:
    case = replace(case_of(1), expected=(replace(case_of(1).expected[0], address="dat/breach.html"),))
    assert await model_of(case).route("q", FORK, Usage()) == "store"
    assert await model_of(case).route("q", replace(FORK, topics=STALE), Usage()) == "web"
    assert await model_of(case_of(kind="out-of-scope")).route("q", FORK, Usage()) == "web"
    assert await model_of(case_of(kind="small-talk")).route("q", FORK, Usage()) == "direct"
    assert await model_of(case, errors=1.0).route("q", FORK, Usage()) in ("web", "direct")


async def test_every_call_is_counted_priced_and_takes_its_time() -> None:
    model, usage = model_of(case_of(1)), Usage()
    await model.grade("q", [passage(1)], usage)
    assert (usage.model_calls, usage.input_tokens > 400, usage.cost_usd > 0) == (1, True, True)
    assert model.clock.now == pytest.approx(call_s(usage.input_tokens, usage.output_tokens))


async def test_calls_side_by_side_take_as_long_as_the_longest() -> None:
    import asyncio

    clock = Clock()

    async def one(seconds: float) -> None:
        async with clock.taking(seconds):
            pass

    await asyncio.gather(one(1.0), one(3.0))
    await one(2.0)
    assert clock.now == 5.0


def test_a_follow_up_is_put_to_all_designs_with_its_topic() -> None:
    case = replace(case_of(1), question="And for notes?", history=(("How long are recordings kept?", "Two years."),))
    assert standalone(case) == "And for notes? (recordings kept)"


def test_a_distorted_line_has_other_figures_or_stops_half_way() -> None:
    assert distorted("within 72 hours") == "within 77 hours"
    assert distorted("in the name of the client") == "in the name"


def test_a_rule_number_alone_is_no_sentence() -> None:
    assert first_sentences("CM 3.1.\n\nA firm must keep it safe. It may lend it.", 1) == ["A firm must keep it safe."]


@pytest.mark.parametrize(
    ("address", "folder"), [("cm/custody.html", "cm"), ("glossary.html", "glossary"), ("cm-letters.md", "notes")]
)
def test_an_address_has_its_topic(address: str, folder: str) -> None:
    assert folder_of(address) == folder


@pytest.mark.parametrize(
    ("answer", "evidence", "expected"),
    [
        ("It is 90 days [[1]].", ["Notice of 90 days."], False),
        ("It is 91 days [[1]].", ["Notice of 90 days."], True),
        ("It says “notice of ninety whole days” [[1]].", ["Notice of 90 days."], True),
        ("Anything at all.", [], True),
        (DONT_KNOW, [], False),
        ("As you asked about 2031: yes [[1]].", ["Yes."], False),
    ],
)
def test_a_claim_is_unsupported_by_rule(answer: str, evidence: list[str], expected: bool) -> None:
    assert unsupported(answer, evidence, "What holds in 2031?") == expected
