"""The real Redis is started where a test asks for it."""

from tests.ratelimit.redis_server import redis_server

__all__ = ["redis_server"]
