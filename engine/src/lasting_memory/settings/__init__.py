"""What a deployment and its commands read from the environment and langgraph.json.

`variables.py` has the settings and their types, with what an address (`addresses.py`) and the name
of a claim (`claims.py`) may be. `loading.py` reads them and says what is wrong. `project.py` reads
langgraph.json, `commands.py` what commands of this machine need.
"""

from lasting_memory.settings.addresses import is_address, is_loopback
from lasting_memory.settings.claims import is_peoples_own
from lasting_memory.settings.commands import (
    DEV_ADDRESS,
    PARTLY_SEEDED,
    adopt_local_environ,
    check_server,
    dev_address,
    given_token,
    local_environ,
    unanswered,
)
from lasting_memory.settings.errors import SettingsError
from lasting_memory.settings.loading import load_settings
from lasting_memory.settings.project import (
    CONSOLIDATION_GRAPH,
    ENGINE,
    block_of,
    project_config,
    project_http,
    registered_graphs,
    served_http,
)
from lasting_memory.settings.variables import (
    MAX_AFTER_SECONDS,
    VARIABLES,
    MemoryScope,
    Settings,
    SharedWrites,
)

__all__ = [
    "CONSOLIDATION_GRAPH",
    "DEV_ADDRESS",
    "ENGINE",
    "MAX_AFTER_SECONDS",
    "PARTLY_SEEDED",
    "VARIABLES",
    "MemoryScope",
    "Settings",
    "SettingsError",
    "SharedWrites",
    "adopt_local_environ",
    "block_of",
    "check_server",
    "dev_address",
    "given_token",
    "is_address",
    "is_loopback",
    "is_peoples_own",
    "load_settings",
    "local_environ",
    "project_config",
    "project_http",
    "registered_graphs",
    "served_http",
    "unanswered",
]
