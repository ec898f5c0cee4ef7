"""Loading the tests makes a million objects that stay. The garbage collector would walk them again
and again, which takes a fifth of the time; `conftest.py` turns it on when all is loaded.
"""

import gc
import sys

if "pytest" in sys.modules:
    gc.disable()
