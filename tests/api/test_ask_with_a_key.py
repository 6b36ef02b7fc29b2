"""`gatehouse ask` to a running server that wants a key."""

from pathlib import Path

import pytest

from service.ask import from_server
from service.errors import InvalidRequest, Unauthorized
from service.model import Scope
from service.skills.registry import Skills
from tests.api.guarded import ALICE, guarded
from tests.fakes import ScriptedWeb
from tests.served import QUESTION
from tests.skills.writing import skill

BODY = {"question": QUESTION}


REFUSED = {
    "": "asks for a key",
    "wrong-one": "does not accept the key",
    "schlüssel": "characters that no key has",
    "two words": "characters that no key has",
    "a\nline": "characters that no key has",
}


async def test_ask_sends_its_key_and_says_what_to_set_where_it_has_none(tmp_path: Path) -> None:
    async with guarded(tmp_path) as served:
        url = f"http://127.0.0.1:{served.port}"
        events = [event async for event in from_server(url, BODY, ALICE)]
        assert events[-1]["status"] == "answered"
        for key, said in REFUSED.items():
            with pytest.raises(Unauthorized, match=said) as refused:
                async for _ in from_server(url, BODY, key):
                    pass
            assert "CLIENT_KEY" in str(refused.value)
            assert key == "" or key not in str(refused.value)


async def test_ask_sends_its_skill_and_the_web_switch_with_its_key(tmp_path: Path) -> None:
    web, narrow = ScriptedWeb(), skill(scope=Scope(domains=frozenset({"a.test"})))
    async with guarded(tmp_path, web=web, skills=Skills([narrow])) as served:
        url = f"http://127.0.0.1:{served.port}"
        body = {**BODY, "skill": "short", "web_search": True}
        events = [event async for event in from_server(url, body, ALICE)]
        assert (events[0]["skill"]["name"], events[0]["web_search"]) == ("short", True)
        assert [(ask.question, ask.domains) for ask in web.asked] == [(QUESTION, frozenset({"a.test"}))]
        with pytest.raises(InvalidRequest, match="no such skill"):
            async for _ in from_server(url, {**BODY, "skill": "other"}, ALICE):
                pass
