"""What a search shows while it runs, in a terminal, a notebook or a log: bars, front, lines.

words.py   tables, numbers with units, lines that fit
front.py   the front of a study as a table
live.py    who follows a search: a live view, plain lines, or nothing
"""
