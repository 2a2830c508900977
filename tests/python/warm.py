"""`python warm.py SOCKET`: an interpreter that has torch and forks for each command that comes. Importing torch takes most of the
time of a small run, and a test program has many. The commands come from client(), which stands in for an interpreter: it passes
on its arguments, folder, environment and streams, and ends as they do. Signals to it are not passed on.
"""
import json
import os
import runpy
import select
import socket
import subprocess
import sys

CLIENT = """#!{python} -SE
import json, os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
socket.send_fds(server, [b"streams"], [0, 1, 2])
server.sendall(json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode())
server.shutdown(socket.SHUT_WR)
code = int(server.recv(100))
if code < 0:
    os.kill(os.getpid(), -code)
sys.exit(code)
"""


def client(python, folder):
    """(the path of an interpreter, a function that ends what it needs). folder: for two files."""
    address, path = os.path.join(folder, "warm.socket"), os.path.join(folder, "python")
    with open(path, "w", encoding="utf-8") as file:
        file.write(CLIENT.format(python=sys.executable, address=address))
    os.chmod(path, 0o755)
    server = subprocess.Popen([python, __file__, address], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    server.stdout.readline()  # it listens

    def end():
        server.communicate()
    return path, end


def serve(address):
    import torch  # noqa: F401
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen()
    print("listens", flush=True)
    while listener in select.select([listener, sys.stdin], [], [])[0]:  # stdin: closed, the tests are over
        connection, _ = listener.accept()
        _, streams, *_ = socket.recv_fds(connection, len("streams"), 3)
        with connection.makefile() as text:
            command = json.load(text)
        child = os.fork()
        if child == 0:
            return become(*command, streams)
        for stream in streams:
            os.close(stream)
        connection.sendall(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())
        connection.close()


def become(words, folder, environment, streams):
    """What `python WORDS` does."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv, sys.orig_argv = words, [sys.executable, *words]
    runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    serve(sys.argv[1])
