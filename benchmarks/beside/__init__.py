"""One file for each peer: the same work of theirs and ours, in turns."""
