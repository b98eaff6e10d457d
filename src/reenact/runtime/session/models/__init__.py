"""What a session and a model say to each other.

In: skills, a model's tool calls, the record. Out: tools to offer, the skill that a call is for, messages to send on.
Begin to read with `offering.py`; `conversation.py` rebuilds the exchange from the record, `messages.py` beside this
package has the words for single calls.
"""

from reenact.runtime.session.messages import messages_of
from reenact.runtime.session.models.conversation import CallsSoFar, conversation_of
from reenact.runtime.session.models.offering import asked_for, offered

__all__ = ["CallsSoFar", "asked_for", "conversation_of", "messages_of", "offered"]
