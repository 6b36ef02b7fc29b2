"""The end of the process, whatever hangs in it."""

import subprocess
import sys
import time

import pytest

HANGS = """
import threading, time
from service.serve import end_within

threading.Thread(target=time.sleep, args=(60,)).start()
end_within(0.5)
"""


@pytest.mark.slow
def test_a_process_ends_in_time_also_where_a_thread_of_it_hangs() -> None:
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-c", HANGS], timeout=50, check=False)
    assert done.returncode == 1
    assert time.monotonic() - began < 40
