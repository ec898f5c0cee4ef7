"""Who vouches for what memory says."""

from enum import StrEnum
from typing import Literal

# What becomes of a line that nobody vouches for: it is marked where it is shown, it waits for its
# person's yes, or it is refused.
Unconfirmed = Literal["mark", "propose", "refuse"]


class Source(StrEnum):
    """Who vouches for a line of memory, or a field of a JSON file.

    Attributes:
        CONFIRMED: the person said it, or wrote it on the page, or confirmed it there.
        INFERRED: the assistant concluded it, or it comes with the deployment.
        UNCONFIRMED: it stands in a text from elsewhere: a tool's result, an attachment, a
            quotation, an imported document, another program, another person.
    """

    CONFIRMED = "confirmed"
    INFERRED = "inferred"
    UNCONFIRMED = "unconfirmed"
