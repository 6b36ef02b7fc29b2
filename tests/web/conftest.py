from collections.abc import AsyncIterator

import pytest

from tests.web.authority import Authority, make_authority
from tests.web.peer import Engine, Net, Site, running_engine, running_site


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return make_authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
async def site(authority: Authority) -> AsyncIterator[Site]:
    async with running_site(authority) as running:
        yield running


@pytest.fixture
def net(site: Site) -> Net:
    return Net(site)


@pytest.fixture
async def engine(authority: Authority) -> AsyncIterator[Engine]:
    async with running_engine(authority) as running:
        yield running
