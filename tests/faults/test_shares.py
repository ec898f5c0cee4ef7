"""How a process shares itself out among people's requests."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

import pytest
from starlette.exceptions import HTTPException

from access.admission import MAX_REQUEST_WAIT_SECONDS, Admission
from settings import BYTES_AT_ONCE, BYTES_PER_SECOND, MAX_OPEN_STREAMS, REQUESTS_AT_ONCE, REQUESTS_PER_SECOND

CALLER = ("acme", "alice")


class Clock:
    """Seconds that pass when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


async def test_requests_beyond_the_share_wait_and_others_do_not() -> None:
    clock = Clock()
    admission = Admission(clock, clock.sleep)
    for _ in range(REQUESTS_AT_ONCE):
        await admission.request(CALLER)
    assert clock.now == 0
    for _ in range(2 * REQUESTS_PER_SECOND):
        await admission.request(CALLER)
    assert clock.now == pytest.approx(2, abs=0.1)
    await admission.request(("acme", "bob"))
    assert clock.now == pytest.approx(2, abs=0.1)


async def test_who_would_have_to_wait_too_long_is_refused_but_not_at_once() -> None:
    waited = list[float]()

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    admission = Admission(Clock(), sleep)
    for _ in range(REQUESTS_AT_ONCE + REQUESTS_PER_SECOND * MAX_REQUEST_WAIT_SECONDS):
        await admission.request(CALLER)
    for _ in range(3):
        with pytest.raises(HTTPException) as refusal:
            await admission.request(CALLER)
        assert refusal.value.status_code == 429
    assert waited[-3:] == [MAX_REQUEST_WAIT_SECONDS] * 3


async def test_runs_that_come_at_once_are_counted_one_after_the_other() -> None:
    """Runs that come at once are counted one after the other, and a refusal is believed for a second."""
    clock = Clock()
    admission, created, counted = Admission(clock, creation_seconds=0.01), 0, 0

    async def refusal() -> str | None:
        nonlocal counted
        counted += 1
        return "3 of yours" if created >= 3 else None

    async def create() -> None:
        nonlocal created
        await admission.run(CALLER, refusal)
        await asyncio.sleep(0.001)  # the platform takes a while
        created += 1

    answers = await asyncio.gather(*(create() for _ in range(20)), return_exceptions=True)
    assert [type(answer) for answer in answers] == [type(None)] * 3 + [HTTPException] * 17
    assert (created, counted) == (3, 4)
    with pytest.raises(HTTPException, match="3 of yours"):
        await admission.thread(CALLER, refusal)
    assert counted == 4, "no thread for a run that may not be, without a query"
    clock.now += 2
    created = 0
    await admission.thread(CALLER, refusal)
    await admission.run(CALLER, refusal)
    assert counted == 6


async def test_as_many_people_are_kept_in_mind_as_there_is_room_for() -> None:
    admission = Admission(Clock(), people=10)
    for number in range(100):
        await admission.request(("acme", f"{number}"))
    assert len(admission._shares) == 10


async def test_bytes_beyond_the_share_wait_whoever_sent_them_and_others_do_not() -> None:
    clock = Clock()
    admission = Admission(clock, clock.sleep)
    await admission.request(CALLER)
    await admission.reading(CALLER, BYTES_AT_ONCE)
    assert clock.now == 0
    await admission.reading(CALLER, 2 * BYTES_PER_SECOND)
    assert clock.now == pytest.approx(2, abs=0.1)
    admission.sent(CALLER, 3 * BYTES_PER_SECOND)
    assert clock.now == pytest.approx(2, abs=0.1), "who is sent an answer does not wait for it"
    await admission.request(CALLER)
    assert clock.now == pytest.approx(5, abs=0.1)
    await admission.request(("acme", "bob"))
    await admission.reading(("acme", "an operator, whom nothing admitted"), 10 * BYTES_AT_ONCE)
    assert clock.now == pytest.approx(5, abs=0.1)


async def test_who_was_sent_very_much_is_not_locked_out_for_long() -> None:
    clock = Clock()
    admission = Admission(clock, clock.sleep)
    await admission.request(CALLER)
    admission.sent(CALLER, 1_000 * BYTES_AT_ONCE)
    with pytest.raises(HTTPException, match="bytes a second"):
        await admission.request(CALLER)
    await admission.request(CALLER)
    assert clock.now <= BYTES_AT_ONCE / BYTES_PER_SECOND + 1


def test_a_person_s_streams_are_counted_until_they_end() -> None:
    admission = Admission(Clock())
    with ExitStack() as streams:
        for _ in range(MAX_OPEN_STREAMS):
            streams.enter_context(admission.stream(CALLER))
        with pytest.raises(HTTPException, match="streams open"), admission.stream(CALLER):
            pass
        streams.enter_context(admission.stream(("acme", "bob")))
        streams.enter_context(admission.alone(CALLER, "export"))
        streams.enter_context(admission.alone(CALLER, "import"))
        with pytest.raises(HTTPException, match="Another export"), admission.alone(CALLER, "export"):
            pass
    with admission.stream(CALLER), admission.alone(CALLER, "export"):
        pass
