"""Milvus Lite served inside this process, for a knowledge base that needs no server."""

import logging
import shutil
import tempfile
from pathlib import Path
from typing import Self

from milvus_lite.adapter.grpc.server import start_server_in_thread
from milvus_lite.exceptions import DataDirLockedError

from service.errors import KnowledgeBaseError, StoreLocked

logger = logging.getLogger(__name__)


class LiteStore:
    """A Milvus Lite store served inside this process on a private Unix socket. Blocking.

    A socket in a folder that only this user may enter, not a loopback port: the store asks for no password, so on a
    port any user of the machine could read what a skill may not.
    """

    def __init__(self, path: str) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="gatehouse-"))
        self.address = f"unix:{self._folder / 'milvus.sock'}"
        try:
            self._server, self._db, _ = start_server_in_thread(path, *self.address.split(":", 1))
        except BaseException:
            shutil.rmtree(self._folder)
            raise

    @classmethod
    def start(cls, path: str) -> Self:
        """Raises `StoreLocked` and `KnowledgeBaseError`."""
        try:
            return cls(path)
        except DataDirLockedError as error:
            raise StoreLocked(
                "Another process has the Milvus Lite store open, and only one can. Stop it, or ask the server that is "
                "running (`gatehouse ask` does), or set MILVUS_URI to a Milvus server that several processes share."
            ) from error
        except OSError as error:
            logger.error("Milvus Lite cannot open %s: %s", path, error)
            raise KnowledgeBaseError(
                f"The Milvus Lite store cannot be opened ({type(error).__name__}): look at the folder MILVUS_URI names."
            ) from error

    def stop(self) -> None:
        """Wait for calls under way, then free the lock: closing a client alone would keep it until the process ends."""
        self._server.stop(grace=2).wait()
        self._db.close()
        shutil.rmtree(self._folder, ignore_errors=True)
