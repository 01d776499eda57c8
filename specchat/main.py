"""The composition root: picks the front end and gives it the process's streams."""

from __future__ import annotations

from specchat.cli.app import app
from specchat.cli.environment import Environment


def run() -> None:
    """Run the program with the arguments and streams of this process."""
    app(obj=Environment.of_process())


if __name__ == "__main__":
    run()
