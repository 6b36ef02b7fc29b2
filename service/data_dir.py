"""DATA_DIR: what people asked and were answered. It is for its owner only, whatever the umask and whoever made it."""

import logging
import os
import shutil
import stat
import tempfile
from pathlib import Path

from service.errors import OperatorError
from service.model import ComponentState

logger = logging.getLogger(__name__)

LEAST_FREE_MB = 100
OTHERS = stat.S_IRWXG | stat.S_IRWXO
OURS = ("audit", "sessions", "snapshots", "milvus.db", "threads.db*", "listing.db*", "sources.*", "server.json")
"""What Gatehouse keeps there. Nothing else in the folder is touched, nor the folder itself where it was before."""


def make_data_dir(folder: Path) -> None:
    """Raises `OperatorError` where DATA_DIR cannot be a folder that this process writes to."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise OperatorError(
            f"DATA_DIR={folder} cannot be used ({error.strerror}). Name a folder to write to."
        ) from None
    keep_private(folder)


def keep_private(folder: Path) -> None:
    """Take from others what an earlier version, or another tool, left open to them."""
    for place in (place for pattern in OURS for place in folder.glob(pattern)):
        try:
            for found in [place, *within(place)]:
                close_to_others(found)
        except OSError as error:
            logger.warning("%s cannot be made private (%s): others may read it", place, error.strerror)


def within(place: Path) -> list[Path]:
    """All that a folder holds; nothing where there may be a file for each page, and no way for others to reach it."""
    if place.name == "snapshots" and not place.stat().st_mode & OTHERS:
        return []
    return [Path(parent, name) for parent, folders, files in os.walk(place) for name in (*folders, *files)]


def close_to_others(place: Path) -> None:
    mode = place.stat().st_mode
    if mode & OTHERS:
        place.chmod(stat.S_IMODE(mode) & ~OTHERS)


def storage_state(folder: Path) -> ComponentState:
    """Threads and snapshots need room: a full disk is not ready."""
    free_mb = shutil.disk_usage(folder).free // 1_000_000
    return ComponentState("storage", free_mb >= LEAST_FREE_MB, f"{free_mb} MB free in DATA_DIR")
