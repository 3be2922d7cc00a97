"""Two processes. SIGTERM of a server's rank 0 lets requests end and is no error; rank 1 killed ends the run within seconds: with an error
line, and under load with an error for every client."""
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

CLIENTS = 4
CHOICES = 64      # of each client's request: half a minute of work for all, which no rank lives to end
LIMIT_S = 5       # promised: from the death of a rank to the end of the others; usual are 0.7
LINGER_S = 0.5    # promised: how long a server that has failed says so before it ends
PATIENCE_S = 120  # with what is no promise


def start(lamina):
    """mpirun, the server's port once it is ready, and the thread that shows the rest of the log."""
    command = ["mpirun", "-n", "2", "--oversubscribe", lamina, "serve", "models/demo", "--tp", "2", "--threads", "1", "--port", "0",
               "--max-total-tokens", "16384", "--drain-timeout", "3600"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        print(line, end="")
        if "ready on " in line:
            rest = threading.Thread(target=lambda: [print(line, end="") for line in process.stderr])
            rest.start()
            return process, int(line.rsplit(":", 1)[1]), rest
    sys.exit("the server did not start")


def rank_pid(mpirun, rank):
    """The process that mpirun started as this rank."""
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/environ", "rb") as environ, open(f"/proc/{entry}/stat") as stat:
                mine = int(stat.read().rsplit(")", 1)[1].split()[1]) == mpirun.pid
                if mine and f"OMPI_COMM_WORLD_RANK={rank}".encode() in environ.read().split(b"\0"):
                    return int(entry)
        except OSError:
            pass
    sys.exit(f"rank {rank} is not running")


def exchange(port, method, path, body=""):
    """All that the server sends until it closes; None when it cannot be reached."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
            head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n"
            connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
            received = b""
            while piece := connection.recv(65536):
                received += piece
            return received.decode()
    except ConnectionRefusedError:
        return None
    except OSError as fault:
        return f"silence: {fault}"


def ask(port, stream, outcomes):
    body = json.dumps({"prompt": [1, 2, 3], "max_tokens": 480, "n": CHOICES, "ignore_eos": True, "stream": stream})
    outcomes.append((stream, exchange(port, "POST", "/v1/completions", body)))


def health(port, seen):
    """Asks until the server fails or is gone. seen: the statuses, and how long before the first refusal the last 200 was asked for."""
    last = None
    while True:
        asked = time.monotonic()
        answer = exchange(port, "GET", "/health") or "silence"
        if not answer.startswith("HTTP/1.1"):
            seen["gap"] = time.monotonic() - last
            return
        status = answer.split(" ", 2)[1]
        seen["statuses"].add(status)
        if status == "503":
            return
        last = asked
        time.sleep(0.01)


def metric(port, name):
    found = re.search(rf"^lamina_{name}{{.*}} (\d+)", exchange(port, "GET", "/metrics"), re.M)
    return int(found.group(1))


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def end_of_ranks(ranks, since, limit):
    """How long after `since` the last of the ranks was seen; too long is a failure. A late look of this script is none."""
    seen = 0
    while True:
        now = time.monotonic() - since
        if not any(map(alive, ranks)):
            return seen
        if now > limit:
            sys.exit(f"a rank still runs after {now:.2f} s")
        seen = now
        time.sleep(0.01)


def drains(lamina):
    mpirun, port, log = start(lamina)
    ranks = [rank_pid(mpirun, rank) for rank in (0, 1)]
    answers = []
    body = json.dumps({"prompt": [1, 2, 3], "max_tokens": 480, "ignore_eos": True, "stream": True})
    client = threading.Thread(target=lambda: answers.append(exchange(port, "POST", "/v1/completions", body)))
    client.start()
    while not answers and metric(port, "num_running_reqs") == 0:
        time.sleep(0.001)
    killed = time.monotonic()
    os.kill(ranks[0], signal.SIGTERM)
    took = end_of_ranks(ranks, killed, PATIENCE_S)
    code = mpirun.wait(timeout=PATIENCE_S)
    client.join()
    log.join()
    assert code == 0, f"exit code {code} after a drain"
    assert "[DONE]" in answers[0], f"a drained request ended as {answers[0][-300:]}"
    print(f"drained in {took:.2f} s")


def ends_when_a_rank_is_killed(lamina):
    mpirun, port, log = start(lamina)
    ranks = [rank_pid(mpirun, rank) for rank in (0, 1)]
    outcomes, seen = [], {"statuses": set()}
    clients = [threading.Thread(target=ask, args=(port, c % 2 == 0, outcomes)) for c in range(CLIENTS)]
    clients.append(threading.Thread(target=health, args=(port, seen)))
    for client in clients:
        client.start()
    while metric(port, "num_requests_total") < CLIENTS * CHOICES or "200" not in seen["statuses"]:
        time.sleep(0.01)
    killed = time.monotonic()
    os.kill(ranks[1], signal.SIGKILL)
    took = end_of_ranks(ranks, killed, LIMIT_S)
    code = mpirun.wait(timeout=PATIENCE_S)
    for client in clients:
        client.join()
    log.join()
    print(f"exit code {code}; the ranks were gone after {took:.2f} s, {LIMIT_S} s are allowed; health {seen}")
    assert code != 0, "exit code 0"
    assert seen["statuses"] <= {"200", "503"}, f"/health said {seen}"
    assert "503" in seen["statuses"] or seen["gap"] >= LINGER_S, f"/health did not say 503: {seen}"
    assert len(outcomes) == CLIENTS
    for streamed, answer in outcomes:
        assert answer is not None and '"error"' in answer, f"a client (stream: {streamed}) got no error: {str(answer)[-300:]}"


def a_command_says_why_it_ended(lamina):
    command = ["mpirun", "-n", "2", "--oversubscribe", lamina, "bench", "models/demo", "--tp-size", "2", "--threads", "1", "--pp", "16",
               "--tg", "400", "--batch", "8", "--rounds", "100"]
    mpirun = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    print(mpirun.stderr.readline(), end="")  # the start line
    ranks = [rank_pid(mpirun, rank) for rank in (0, 1)]
    killed = time.monotonic()
    os.kill(ranks[1], signal.SIGKILL)
    took = end_of_ranks(ranks, killed, LIMIT_S)
    out, errors = mpirun.communicate(timeout=PATIENCE_S)
    print(errors, f"exit code {mpirun.returncode}; the ranks were gone after {took:.2f} s, {LIMIT_S} s are allowed")
    assert mpirun.returncode != 0 and out == "" and re.search("^error: .*rank 1 of 2 is gone$", errors, re.M)


drains(sys.argv[1])
a_command_says_why_it_ended(sys.argv[1])
ends_when_a_rank_is_killed(sys.argv[1])
