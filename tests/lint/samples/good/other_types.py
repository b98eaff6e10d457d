"""Fields of the same name on things that are no outcome."""
from dataclasses import dataclass
from datetime import datetime
from email.message import EmailMessage


@dataclass
class Commit:
    message: str
    timestamp: float


def conventional(commit: Commit) -> bool:
    return commit.message.startswith("fix:") and commit.timestamp > 0


def newest(commits: list[Commit]) -> Commit:
    return max(commits, key=lambda commit: commit.timestamp)


def epoch(moment: datetime) -> bool:
    return moment.timestamp() > 0


def mail(message: EmailMessage) -> bool:
    return message["Subject"] == "x"


def chat(completion):
    choice = completion.choices[0]
    if choice.message.tool_calls:
        return "tools"
    return "text"


class Form:
    def __init__(self, message):
        self.message = message

    def valid(self):
        return bool(self.message) and len(self.message) < 100
