"""`python -m igcf.training.cluster.process`: a worker on this machine, started by `igcf.training.cluster.local`."""

import os
import signal
import sys
import threading

from igcf.training.cluster.rendezvous import work_for_environment


def main() -> None:
    """Work until rank 0 says stop or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # rank 0 ends the others
    threading.Thread(target=_end_with_parent, daemon=True).start()
    work_for_environment("127.0.0.1")


def _end_with_parent() -> None:
    sys.stdin.buffer.read()  # ends when the first worker does, however it ends
    os._exit(1)


if __name__ == "__main__":
    main()
