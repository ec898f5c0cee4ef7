"""What this fork decides: one frozen value, which every entry point passes on."""

from pathlib import Path

from lasting_memory import Consolidation, Deployment, assistant, organization, person

DEPLOYMENT = Deployment(
    folder=Path(__file__).parent,
    # Whose each folder is. A team's, by a claim of the token: "/team/": group("team_id").
    routes={"/memories/": person(), "/skills/": assistant(), "/policies/": organization()},
    consolidation=Consolidation(),  # None: no consolidation
)
