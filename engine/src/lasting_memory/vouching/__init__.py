"""Who vouches for a line that is written: whether its person said it, by what a run or a batch
showed.

`Evidence.source_of` answers for one line. It compares words, numbers and negations, not meanings,
and errs on one side: what it does not find in the person's own words it does not confirm.
"""

from lasting_memory.vouching.evidence import Evidence, evidence_of
from lasting_memory.vouching.own_words import Parts, parts_of
from lasting_memory.vouching.shown import Shown, showing, shown_now

__all__ = ["Evidence", "Parts", "Shown", "evidence_of", "parts_of", "showing", "shown_now"]
