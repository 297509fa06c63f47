"""One file per command: parse, call one library function, print."""
