"""What people say about runs, from their word to the journal.

In: a run's id and a person's word (approve, deny, resolve, cancel), with who and why. Out: a vote, an event or a seal
in the run's journal, or a note for whoever holds the run. Begin to read with `decisions.py`; `votes.py` is how a vote
gets into the journal, `resolutions.py` how a word about a call in doubt does.
"""

from reenact.runtime.people.decisions import Resolution, cancel, resolve, vote
from reenact.runtime.people.votes import whoami

__all__ = ["Resolution", "cancel", "resolve", "vote", "whoami"]
