"""Convolutions over the sequence."""
