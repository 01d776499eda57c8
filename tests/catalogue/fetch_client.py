"""A process that fetches one file from the hub in HF_ENDPOINT; the tests kill it.

It prints what is said to the user, `held N` as the download grows, and `done PATH`.
"""

from __future__ import annotations

import sys

from specchat.catalogue.download import fetch, plan
from specchat.catalogue.hub import Hub
from specchat.catalogue.sources import HubFile


def main(repo: str, file: str) -> None:
    hub = Hub(say=lambda sentence: print("said", sentence, flush=True))  # noqa: T201
    wanted = plan([HubFile(repo, file)], hub)
    paths = fetch(wanted, hub, lambda now: print("held", now.done, flush=True))  # noqa: T201
    print("done", *paths, flush=True)  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
