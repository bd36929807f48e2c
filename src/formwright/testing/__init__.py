"""What tests are made of: also for those who write operators of their own."""

from formwright.testing.architectures import random_architecture

__all__ = ["random_architecture"]
