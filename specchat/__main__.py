"""`python -m specchat`."""

from specchat.main import run

run()
