"""Three conversations of Alice's."""

import pytest

from lasting_memory.testing.platform import Platform
from tests.recall.talks import say


@pytest.fixture
def threads() -> Platform:
    threads = Platform()
    say(threads, "dog", "Our dog Rex had puppies", "How many?", "Seven, all brown", days=3)
    say(threads, "car", "The engine makes a noise", "Change the belt", days=2)
    say(threads, "trip", "We fly to Lisbon in May", "Take an umbrella", days=1)
    return threads
