"""What an event of a user's log can say; by itself, so that clients need nothing of the store."""

from typing import Literal

EvidenceKind = Literal["shown", "logged", "skip", "attributes"]
"""What an event says: `shown`, an item was shown and drew this reaction or none; `logged`, of all items the user came
to this one; `skip`, not now, which is no evidence; `attributes`, what is known of the user beside reactions."""
