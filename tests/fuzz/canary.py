"""Asks one small question each second, in a process of its own, and writes how long the answer took: a line of JSON."""

import http.client
import json
import os
import sys
import time


def ask(port: int, path: str) -> dict[str, object]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    started = time.monotonic()
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read()
        return {"seconds": time.monotonic() - started, "status": answer.status, "bytes": len(body)}
    except (OSError, http.client.HTTPException) as error:
        return {"seconds": time.monotonic() - started, "status": 0, "error": repr(error)}
    finally:
        connection.close()


def main(port: int, path: str) -> None:
    late = 0.0
    while True:
        # How many processes wanted each processor, others' too.
        crowd = os.getloadavg()[0] / (os.cpu_count() or 1)
        print(json.dumps({**ask(port, path), "late": late, "crowd": crowd}), flush=True)
        due = time.monotonic() + 1.0
        time.sleep(1.0)
        # How much later than asked for this process itself ran: a machine too busy to serve anybody.
        late = time.monotonic() - due


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
