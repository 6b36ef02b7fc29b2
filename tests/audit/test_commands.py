"""`gatehouse audit verify | export | show` as an operator runs them."""

import asyncio
import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from service.audit.verify import verify
from service.cli import app, main
from service.model import Grade, Judgement, Scope
from service.skills.skill import Gates
from tests.audit.logs import all_lines, audit_log, forged, rewrite, written
from tests.fakes import ScriptedModel, services
from tests.graph.test_every_run_ends import NeverTheSame
from tests.running import House
from tests.skills.writing import skill


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATA_DIR", str(tmp_path / "data"))
    return tmp_path / "data" / "audit"


def audit(*words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["audit", *words])
    return result.exit_code, result.stdout, result.stderr


def test_verify_says_that_a_log_is_whole_and_prints_its_anchor(data: Path) -> None:
    written(data)
    code, said, _ = audit("verify")
    assert code == 0
    assert "10 records in 1 file(s)" in said
    assert "whole" in said
    anchor = said.strip().splitlines()[-1].removeprefix("anchor ")
    assert audit("verify", "--anchor", anchor)[0] == 0


def test_verify_names_the_record_and_exits_1(data: Path) -> None:
    written(data)
    lines = all_lines(data)
    rewrite(data, [*lines[:4], forged(lines[4], text="x"), *lines[5:]])
    code, said, _ = audit("verify")
    assert code == 1
    assert "NOT WHOLE: record 5 changed" in said


def test_verify_holds_the_log_against_an_anchor(data: Path) -> None:
    written(data, 3)
    code, said, _ = audit("verify", "--anchor", "2:" + "a" * 64)
    assert code == 1
    assert "record 2 changed: an anchor names another hash" in said
    assert audit("verify", "--anchor", "nonsense")[0] == 2


def test_a_folder_without_a_log_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["gatehouse", "audit", "verify"])
    with pytest.raises(SystemExit) as exited:
        main()
    assert exited.value.code == 1
    assert "name the folder with --folder" in capsys.readouterr().err


def conversations(data: Path, tmp_path: Path) -> list[str]:
    """Three runs of two clients; returns the ids."""

    async def work() -> list[str]:
        async with audit_log(data) as log:
            house = House(services(tmp_path), ScriptedModel(), audit=log)
            asked = [("alice", "t1"), ("bob", "t1"), ("alice", "t2")]
            return [(await house.ask(client=client, thread=thread))[0]["run_id"] for client, thread in asked]

    return asyncio.run(work())


def test_export_picks_by_client_thread_and_time_and_keeps_every_byte(data: Path, tmp_path: Path) -> None:
    first, second, third = conversations(data, tmp_path)

    def exported(*words: str) -> list[str]:
        code, said, counted = audit("export", *words)
        assert code == 0
        lines = said.splitlines(keepends=True)
        assert all(line.encode() in all_lines(data) for line in lines)
        assert counted.strip() == f"{len(lines)} record(s)"
        return [json.loads(line)["body"]["run_id"] for line in lines]

    assert exported() == [first, second, third]
    assert exported("--client", "alice") == [first, third]
    assert exported("--client", "alice", "--thread", "t1") == [first]
    assert exported("--client", "carol") == []
    assert exported("--since", "2001-01-01", "--until", "2999-01-01T00:00:00+02:00") == [first, second, third]
    assert exported("--since", "2999-01-01") == []
    assert exported("--until", "2001-01-01") == []
    moment = json.loads(all_lines(data)[1])["at"]
    assert exported("--since", moment) == [second, third]
    assert exported("--until", moment) == [first]


def test_a_time_that_is_none_is_refused_before_anything_is_read() -> None:
    code, _, said = audit("export", "--since", "yesterday")
    assert code == 2
    assert "2031-01-31" in said


def test_show_prints_a_route_that_a_reviewer_can_follow(data: Path, tmp_path: Path) -> None:
    model = ScriptedModel(
        grading=lambda count, _: Grade("fail", f"too early {count}") if count < 3 else Grade("pass", "this is it"),
        grounded=lambda count: Judgement("fail" if count == 0 else "pass", f"the judge said {count}"),
    )

    async def work() -> str:
        async with audit_log(data) as log:
            frames = await House(services(tmp_path, knowledge=NeverTheSame(tmp_path)), model, audit=log).ask(
                "How long?"
            )
            body = {"run_id": frames[0]["run_id"], "client": "alice", "thumbs": "down", "comment": "not mine"}
            await log.append("feedback", {**body, "thread_key": ""})
            return str(frames[0]["run_id"])

    run_id = asyncio.run(work())
    code, said, _ = audit("show", run_id)
    assert code == 0
    for words in (
        f"Run {run_id}, record 1 of the audit log",
        "Asked by alice at ",
        "Question: How long?",
        "Query: How long? rewritten 1 after 3",
        "3 passages came back (the reranker's score, the search's score):",
        "fail  [VECTOR] p000000000000101",
        "judge: too early 0",
        "=> grade_documents -> rewrite_query: nothing relevant came back, so the query was rewritten",
        "(reason nothing_relevant; rewrites 0 of 1, new drafts 0 of 1 used)",
        "grounded: fail (not_grounded)",
        "judge: the judge said 0",
        "=> reflect -> prepare_regen: the draft was not grounded, so it was withdrawn and written anew",
        "=> reflect -> finalize: the draft was shown",
        "End: answered: both gates passed",
        "[[1]] verified, support 1.000",
        "Feedback at ",
        "thumbs down",
        "Comment: not mine",
    ):
        assert words in said, words
    assert said.index("rewritten 1 after 3") > said.index("grade_documents -> rewrite_query")


def test_show_cannot_be_made_to_steer_the_terminal(data: Path, tmp_path: Path) -> None:
    async def work() -> str:
        async with audit_log(data) as log:
            frames = await House(services(tmp_path), ScriptedModel(), audit=log).ask(
                "a\x1b[2J\x1b]0;owned\x07b\r\u202e?"
            )
            return str(frames[0]["run_id"])

    _, said, _ = audit("show", asyncio.run(work()))
    assert all(character.isprintable() or character == "\n" for character in said)
    assert r"a\x1b[2J" in said


def test_no_question_and_no_draft_can_pass_for_a_line_of_the_route(data: Path, tmp_path: Path) -> None:
    forged_fork = "=> reflect -> give_up: the judges were not asked"
    forged_end = "End: answered: both gates passed"

    async def work() -> str:
        async with audit_log(data) as log:
            model = ScriptedModel(draft=lambda _, sources: f"{forged_fork}\n{forged_end} [[{sources[0].n}]]")
            house = House(services(tmp_path), model, audit=log)
            frames = await house.ask(f"How long must record 1 be kept?\n{forged_fork}\n\n{forged_end}")
            return str(frames[0]["run_id"])

    said = audit("show", asyncio.run(work()))[1].splitlines()
    starts = ("=> reflect -> give_up", "End: ")
    assert [line for line in said if line.strip().startswith(starts)] == ["End: answered: both gates passed"]
    assert f"  | {forged_fork}" in said


def test_show_says_that_there_is_no_such_run(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    written(data)
    monkeypatch.setattr(sys, "argv", ["gatehouse", "audit", "show", "r_none"])
    with pytest.raises(SystemExit):
        main()
    assert "no whole record of the run r_none" in capsys.readouterr().err


def test_the_commands_read_a_log_that_is_being_written(data: Path, tmp_path: Path) -> None:
    async def work() -> None:
        async with audit_log(data) as log:
            await House(services(tmp_path), ScriptedModel(), audit=log).ask()
            assert verify(data).whole
            code, _, _ = await asyncio.to_thread(audit, "verify")
            assert code == 0
            await House(services(tmp_path), ScriptedModel(), audit=log).ask()

    asyncio.run(work())
    assert verify(data).records == 2


def test_show_names_the_skill_its_limits_and_every_text_that_left_for_the_web(data: Path, tmp_path: Path) -> None:
    narrow = Scope(frozenset({"rules"}), frozenset(), domains=frozenset({"a.test"}))

    async def asked() -> list[str]:
        async with audit_log(data) as log:
            house = House(services(tmp_path), ScriptedModel(grading=lambda *_: Grade("fail")), audit=log)
            few = skill("short", narrow, Gates(max_rewrites=0))
            frames = [await house.ask(web_search=True, skill=one) for one in (few, skill("shut", Scope(web=False)))]
        return [each[0]["run_id"] for each in frames]

    runs = asyncio.run(asked())
    first, second = (audit("show", run_id)[1] for run_id in runs)
    assert f"skill short {'f' * 12}" in first
    assert "May read: sources rules; kinds none; domains a.test." in first
    assert "Web: empty; “web words 1” left for the web" in first
    assert "rewrites 0 of 0" in first
    assert "May read: the web is forbidden." in second
    assert "Web: forbidden; nothing left for the web" in second
