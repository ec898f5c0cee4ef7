"""Writers of one file lose nothing that they were told was written.

In any interleaving, with deaths at any batch, batches that arrive late, and old revisions being deleted meanwhile.
"""

import pytest

from tests.journal.world import throw

tight = pytest.mark.parametrize("tight", [False, True], ids=["room", "no room"])


@tight
@pytest.mark.parametrize(
    ("first", "worlds"), [(0, 100), pytest.param(1_000, 4_000, marks=pytest.mark.proof)], ids=["some", "many"]
)
async def test_nothing_acknowledged_is_lost_or_there_twice_and_what_was_taken_back_stays_so(
    first: int, worlds: int, tight: bool
) -> None:
    acknowledged = deaths = 0
    for seed in range(first, first + worlds):
        try:
            world = await throw(seed, tight=tight)
        except AssertionError as error:
            raise AssertionError(f"world {seed}: {error}") from None
        acknowledged, deaths = acknowledged + world.acknowledged, deaths + world.deaths
    assert acknowledged > 5 * worlds
    assert deaths > worlds / 5
