"""What people use up: a daily budget of tokens, the time of one run, and the counts that operators see.

`count` adds to counts that several writers share, `counted` reads them. `TokenBudget` counts a person's tokens, and ends
their runs when the day's budget is spent; `budget_refusal` refuses a run before it is created. `RunBound` ends a run that takes
too long, `RefusedCalls` one that repeats a refused call. `Combined` makes of several middleware one that takes no longer than
one.
"""

from memory.usage.budget import TokenBudget, TokenBudgetError, budget_refusal
from memory.usage.combined import Combined
from memory.usage.counts import count, counted
from memory.usage.refused_calls import RefusedCalls, repeated_refusal
from memory.usage.run_time import RunBound

__all__ = [
    "Combined",
    "RefusedCalls",
    "RunBound",
    "TokenBudget",
    "TokenBudgetError",
    "budget_refusal",
    "count",
    "counted",
    "repeated_refusal",
]
