"""What is claimed, row by row: the paper's figure, ours, and where both come from."""
