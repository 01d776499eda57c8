"""The conversation as it is read: messages, streaming Markdown, where each token came from."""

from __future__ import annotations

from specchat.tui.transcript.answer import Answer
from specchat.tui.transcript.records import AnswerRecord, Record, UserRecord
from specchat.tui.transcript.transcript import Transcript
from specchat.tui.transcript.user_message import UserMessage

__all__ = ["Answer", "AnswerRecord", "Record", "Transcript", "UserMessage", "UserRecord"]
