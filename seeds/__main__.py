"""Put policies, skills, first memories and the consolidation cron into a deployment: `python -m
seeds --help`.
"""

from lasting_memory.seeding import main

from deployment import DEPLOYMENT

main(DEPLOYMENT)
