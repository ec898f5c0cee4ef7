"""Put policies, skills, first memories and the consolidation cron into a deployment: `python -m
seeds --help`.
"""

from deployment import DEPLOYMENT

from lasting_memory.seeding import main

main(DEPLOYMENT)
