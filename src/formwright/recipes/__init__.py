"""Recipes: published systems, one file each, and the usual search."""
