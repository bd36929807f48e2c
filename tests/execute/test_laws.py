"""Every executor of ours: the same search, whoever evaluates and whatever goes wrong."""

from pathlib import Path

from formwright.study import Study
from formwright.testing import ExecutorTestCase


class TestSerial(ExecutorTestCase):
    name, workers = "serial", 1


class TestProcesses(ExecutorTestCase):
    name = "processes"
    isolated = True

    def test_a_trial_that_ends_its_process_fails_and_the_others_go_on(self, tmp_path: Path) -> None:
        super().test_a_trial_that_ends_its_process_fails_and_the_others_go_on(tmp_path)
        made = Study.open(tmp_path / "study")
        assert "also with nothing else running, it was ended by signal 9" in made.trials[3].reason
        lost = [event["number"] for event in made.events if event["what"] == "lost"]
        assert sorted(lost) == [3] * 6 + [5]

    def test_a_trial_over_its_time_fails_and_the_others_go_on(self, tmp_path: Path) -> None:
        super().test_a_trial_over_its_time_fails_and_the_others_go_on(tmp_path)
        events = Study.open(tmp_path / "study").events
        lost = next(e for e in events if e["what"] == "lost")
        claimed = next(e for e in events if e["what"] == "claimed" and e["number"] == 2)
        late = lost["time"] - claimed["time"]
        assert 1.5 <= late <= 1.5 * 1.1 + 0.5  # half a second for a busy host
