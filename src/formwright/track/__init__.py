"""Where the numbers of a training or a search may also go: TensorBoard, MLflow, Weights & Biases.

base.py      what a tracker is, and the queue that keeps it away from the work
events.py    what of a training and of a search is sent
others       one file per tracker; installed packages announce theirs as ``formwright.trackers``
"""

from formwright.track.base import Behind, Tracker, check_trackers, tracker_names, trackers
from formwright.track.events import search_listener, tracked, tracked_search, training_listener

__all__ = [
    "Behind",
    "Tracker",
    "check_trackers",
    "search_listener",
    "tracked",
    "tracked_search",
    "tracker_names",
    "trackers",
    "training_listener",
]
