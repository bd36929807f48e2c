"""Every named space obeys the laws of spaces."""

import pytest

from formwright.space import space_names
from formwright.testing import SpaceTestCase

# Only a supernet can run what this one holds: a component that is left out leaves an empty place.
OF_SUPERNETS = {"fft-components"}


class TestNamedSpaces(SpaceTestCase):
    @pytest.fixture(autouse=True, params=sorted({*space_names()} - OF_SUPERNETS))
    def _one(self, request: pytest.FixtureRequest) -> None:
        self.name = request.param  # type: ignore[misc]
