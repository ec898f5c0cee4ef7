"""A person's memory: its files, their history, proposals, controls, and the rules of every write.

`folder.py` is the only code of this library that puts a file. Below it, `journal/` keeps every change
and its author; `validation.py` and `stored_files.py` say what may be written, and how much.
"""
