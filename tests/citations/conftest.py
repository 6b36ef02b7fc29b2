"""`pytest tests/citations --hypothesis-profile=thorough` runs the property tests over 10,000 examples."""

from hypothesis import settings

settings.register_profile("thorough", max_examples=10_000, deadline=None)
