"""The live page: runs of a folder, their reports while they go on, and a box to try a model.

guard.py     who may ask: hosts, origins, methods, the token; headers of every answer
runs.py      the searches below a folder, by name, without changing anything in them
painter.py   reports drawn in a process of their own, at most every few seconds
trying.py    the model of a run, loaded once, asked one text at a time
pages.py     the two pages around the reports
app.py       what is answered to which address
server.py    the socket, the token and the words that are printed

Starlette and uvicorn are an extra, ``serve``; torch is loaded when a model is first asked.
"""
