"""DeepEval, made to keep to itself: what is imported from here scores answers, and neither phones nor writes home."""

import os

# DeepEval reads these as it is imported. Without them it reports its use to a server (8 s where there is none), copies
# the whole of `.env` into the environment of this process, and looks for keys of its own in a folder `.deepeval`.
QUIET = {
    "DEEPEVAL_TELEMETRY_OPT_OUT": "YES",
    "DEEPEVAL_DISABLE_DOTENV": "1",
    "DEEPEVAL_DISABLE_LEGACY_KEYFILE": "1",
}

os.environ.update(QUIET)
