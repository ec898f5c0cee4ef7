"""The fuzz of `tests/test_fuzz_requests.py`: which requests it sends, and who sends them to whom."""
