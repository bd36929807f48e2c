"""Positions: what is added to the embedding, and what acts inside every self-attention."""
