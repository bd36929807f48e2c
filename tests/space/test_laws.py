"""Every named space obeys the laws of spaces."""

import pytest

from formwright.space import space_names
from formwright.testing import SpaceTestCase


class TestNamedSpaces(SpaceTestCase):
    @pytest.fixture(autouse=True, params=space_names())
    def _one(self, request: pytest.FixtureRequest) -> None:
        self.name = request.param  # type: ignore[misc]
