"""The garbage collector is off while the tests are loaded. What is loaded stays, and to walk it
again and again takes a sixth of that time. `conftest.py` turns it on when all is loaded.
"""

import gc
import sys

if "pytest" in sys.modules:
    gc.disable()
