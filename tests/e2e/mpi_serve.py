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
LIMIT_S = 5


def start(lamina):
    """mpirun, the server's port once it is ready, and the thread that shows the rest of the log."""
    command = ["mpirun", "-n", "2", "--oversubscribe", lamina, "serve", "models/demo", "--tp", "2", "--threads", "1", "--port", "0",
               "--max-total-tokens", "16384"]
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
        with socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S) as connection:
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


def load(port, stream, outcomes):
    """Asks until the server is gone, and keeps the last answer it got."""
    body = json.dumps({"prompt": [1, 2, 3], "max_tokens": 480, "ignore_eos": True, "stream": stream})
    last = None
    while (answer := exchange(port, "POST", "/v1/completions", body)) is not None:
        last = answer
        if '"error"' in answer or "silence" in answer:
            break
    outcomes.append((stream, last))


def health(port, seen):
    while (answer := exchange(port, "GET", "/health")) is not None:
        seen.add(answer.split(" ", 2)[1])
        if "503" in seen:
            break
        time.sleep(0.01)


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def end_of(mpirun, ranks, since):
    """mpirun's exit code once it and the ranks are gone, and how long that took."""
    try:
        code = mpirun.wait(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        mpirun.kill()
        sys.exit(f"mpirun still runs after {LIMIT_S} s")
    while any(map(alive, ranks)):
        if time.monotonic() - since > LIMIT_S:
            sys.exit(f"a rank still runs after {LIMIT_S} s")
        time.sleep(0.01)
    return code, time.monotonic() - since


def drains(lamina):
    mpirun, port, log = start(lamina)
    ranks = [rank_pid(mpirun, rank) for rank in (0, 1)]
    answers = []
    body = json.dumps({"prompt": [1, 2, 3], "max_tokens": 480, "ignore_eos": True, "stream": True})
    client = threading.Thread(target=lambda: answers.append(exchange(port, "POST", "/v1/completions", body)))
    client.start()
    while not answers and not re.search(r"num_running_reqs\S* [1-9]", exchange(port, "GET", "/metrics")):
        time.sleep(0.001)
    os.kill(ranks[0], signal.SIGTERM)
    code, took = end_of(mpirun, ranks, time.monotonic())
    client.join()
    log.join()
    assert code == 0, f"exit code {code} after a drain"
    assert "[DONE]" in answers[0], f"a drained request ended as {answers[0][-300:]}"
    print(f"drained in {took:.2f} s")


def ends_when_a_rank_is_killed(lamina):
    mpirun, port, log = start(lamina)
    ranks = [rank_pid(mpirun, rank) for rank in (0, 1)]
    outcomes, statuses = [], set()
    clients = [threading.Thread(target=load, args=(port, c % 2 == 0, outcomes)) for c in range(CLIENTS)]
    clients.append(threading.Thread(target=health, args=(port, statuses)))
    for client in clients:
        client.start()
    time.sleep(1)
    killed = time.monotonic()
    os.kill(ranks[1], signal.SIGKILL)
    code, took = end_of(mpirun, ranks, killed)
    for client in clients:
        client.join()
    log.join()
    print(f"exit code {code} after {took:.2f} s; health {sorted(statuses)}")
    assert code != 0, "exit code 0"
    assert statuses == {"200", "503"}, f"/health said {statuses}"
    assert len(outcomes) == CLIENTS
    for streamed, answer in outcomes:
        assert answer is not None and '"error"' in answer, f"a client (stream: {streamed}) got no error: {str(answer)[-300:]}"


def a_command_says_why_it_ended(lamina):
    command = ["mpirun", "-n", "2", "--oversubscribe", lamina, "bench", "models/demo", "--tp-size", "2", "--threads", "1", "--pp", "16", "--tg", "400", "--batch", "8", "--rounds", "100"]
    mpirun = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    print(mpirun.stderr.readline(), end="")  # the start line
    ranks = [rank_pid(mpirun, rank) for rank in (0, 1)]
    time.sleep(0.2)
    killed = time.monotonic()
    os.kill(ranks[1], signal.SIGKILL)
    out, errors = mpirun.communicate(timeout=LIMIT_S)
    code, took = end_of(mpirun, ranks, killed)
    print(errors, f"exit code {code} after {took:.2f} s")
    assert code != 0 and out == "" and re.search("^error: .*rank 1 of 2 is gone$", errors, re.M)


drains(sys.argv[1])
a_command_says_why_it_ended(sys.argv[1])
ends_when_a_rank_is_killed(sys.argv[1])
