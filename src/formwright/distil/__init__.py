"""Smaller students of a trained model."""
