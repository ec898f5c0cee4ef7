"""Entry points build themselves when imported: here as on `langgraph dev`, which needs no key."""

import os

os.environ.setdefault("LANGSMITH_LANGGRAPH_API_VARIANT", "local_dev")
