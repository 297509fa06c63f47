"""Tables in files and in memory: text and Parquet become NumPy columns, and columns become Parquet.

DuckDB reads and writes the files. It is named in `engine` only; it sees paths that cannot be patterns, columns that are
called c0, c1 ..., and no text of a caller but as a bound value or a quoted name.
"""
