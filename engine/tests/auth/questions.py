"""Questions of known shapes, and the graph whose tools ask (`asking.py`)."""

from pathlib import Path
from typing import Any

GRAPH = f"{Path(__file__).parent / 'asking.py'}:agent"

HITL: dict[str, Any] = {
    "action_requests": [
        {
            "name": "write_file",
            "args": {"file_path": "/skills/x/SKILL.md"},
            "description": "approve me",
        }
    ],
    "review_configs": [
        {"action_name": "write_file", "allowed_decisions": ["approve", "edit", "reject"]}
    ],
}
HUMAN: dict[str, Any] = {
    "action_request": {"action": "pay", "args": {"euros": 5}},
    "config": {
        "allow_accept": True,
        "allow_edit": True,
        "allow_respond": True,
        "allow_ignore": False,
    },
    "description": "Pay?",
}
