"""What the arrays of a search hold. How many dimensions an array has, the types do not say."""

from typing import TypeVar

import numpy as np
import numpy.typing as npt

# Rows with named fields: documents, postings or passages (`format.TABLE` and so on).
Rows = npt.NDArray[np.void]
# Hashes of words, numbers of documents and passages, places, and times.
Integers = npt.NDArray[np.integer]
# Weights, scores, and counts that are weighted.
Floats = npt.NDArray[np.floating]
# Counts and lengths, which may be weighted.
Numbers = npt.NDArray[np.integer | np.floating]
# Whether something is so.
Flags = npt.NDArray[np.bool_]
Days = npt.NDArray[np.datetime64]
# Any of these.
Array = npt.NDArray[np.generic]
# What an array holds, where it may be anything.
Held = TypeVar("Held", bound=np.generic)
