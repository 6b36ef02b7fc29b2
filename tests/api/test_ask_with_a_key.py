"""`gatehouse ask` to a running server that wants a key."""

from pathlib import Path

import pytest

from service.ask import from_server
from service.errors import Unauthorized
from tests.api.guarded import ALICE, guarded
from tests.served import QUESTION

BODY = {"question": QUESTION}


async def test_ask_sends_its_key_and_says_what_to_set_where_it_has_none(tmp_path: Path) -> None:
    async with guarded(tmp_path) as served:
        url = f"http://127.0.0.1:{served.port}"
        events = [event async for event in from_server(url, BODY, ALICE)]
        assert events[-1]["status"] == "answered"
        for key in ("", "wrong"):
            with pytest.raises(Unauthorized, match="CLIENT_KEY"):
                async for _ in from_server(url, BODY, key):
                    pass
