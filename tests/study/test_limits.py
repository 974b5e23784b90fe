from __future__ import annotations

import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

import psutil
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
from tests.study.planted_study import plant

from snellen.study.answers.store import AnswerStore
from snellen.study.folder import Study
from snellen.study.web.application import application, listen, server
from snellen.study.web.limits import RESERVED, Limits
from snellen.study.web.security import LARGEST, Proxies

GET = b"GET /health HTTP/1.1\r\nhost: x\r\n"
POST = b"POST /page HTTP/1.1\r\nhost: x\r\ncontent-type: application/x-www-form-urlencoded\r\n"


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return plant(tmp_path_factory.mktemp("limits") / "study")[0]


@contextmanager
def _serving(server: uvicorn.Server) -> Iterator[int]:
    """The port of a server that runs in a thread of the test."""
    with listen("127.0.0.1", 0) as listening:
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join(30)
            assert not thread.is_alive()


@contextmanager
def _running(study: Study, limits: Limits) -> Iterator[int]:
    """The port of a study's server."""
    with (
        closing(AnswerStore.open(study)) as store,
        _serving(server(application(study, store, proxies=limits.proxies), limits)) as port,
    ):
        yield port


def _connect(port: int, sent: bytes = b"") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=20)
    connection.sendall(sent)
    return connection


def _status(connection: socket.socket) -> bytes:
    """The status of the next response, which is read whole; nothing where the connection was ended without one."""
    received = b""
    try:
        while b"\r\n\r\n" not in received:
            part = connection.recv(1)
            if not part:
                return b""
            received += part
        length = int(received.partition(b"content-length: ")[2].partition(b"\r")[0])
        while length and (part := connection.recv(length)):
            length -= len(part)
    except ConnectionError:
        pass
    return received.partition(b" ")[2][:3]


def _accepted(connection: socket.socket, part: bytes, times: int) -> int:
    """How many times a part was sent before the connection was ended."""
    for place in range(times):
        try:
            connection.sendall(part)
        except ConnectionError:
            return place
        time.sleep(0.005)
    return times


def _asked(port: int) -> bytes:
    with _connect(port, GET + b"connection: close\r\n\r\n") as connection:
        return _status(connection)


@pytest.mark.slow
def test_silent_connections_lock_nobody_out_where_descriptors_are_few(study: Study) -> None:
    few = 256
    words = ["sh", "-c", f'ulimit -n {few}; exec "$0" -c "from snellen.cli.main import main; main()" "$@"', sys.executable]
    words += ["study", "serve", str(study.folder), "--port", "0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert process.stdout is not None
            link = [process.stdout.readline() for _ in range(3)][1]
            port = int(link.strip().rstrip("/").rpartition(":")[2])
            assert _asked(port) == b"200"
            with ExitStack() as stack:
                for sent in (b"", GET) * 150:  # without a word, and in the middle of one
                    stack.enter_context(_connect(port, sent))
                for _ in range(5):
                    assert _asked(port) == b"200"
                assert psutil.Process(process.pid).num_fds() < few
            process.terminate()
            rest, _ = process.communicate(timeout=30)
            assert "Traceback" not in rest
        finally:
            process.kill()


def test_who_takes_too_long_for_a_request_is_not_waited_for(study: Study) -> None:
    limits = Limits(50, 50, patience=0.4)
    with _running(study, limits) as port:
        began = time.monotonic()
        slow = [_connect(port), _connect(port, GET), _connect(port, POST + b"content-length: 9\r\n\r\na")]
        dripping = _connect(port, GET)
        kept = _connect(port, GET + b"\r\n")
        assert _status(kept) == b"200"
        while time.monotonic() < began + 1.5:
            time.sleep(0.1)
            try:
                dripping.sendall(b"a: b\r\n")
            except ConnectionError:
                break
        for connection in (*slow, dripping, kept):
            assert _status(connection) == b""
            connection.close()
        assert time.monotonic() - began < 15
        assert _asked(port) == b"200"


def test_who_takes_nothing_of_a_response_is_not_waited_for_and_who_is_slow_is() -> None:
    size = 30_000_000
    app = Starlette(routes=[Route("/", lambda _: Response(b"x" * size))])
    running = server(app, Limits(50, 50, patience=0.5))
    with _serving(running) as port, ExitStack() as stack:
        for _ in range(2):
            visitor = stack.enter_context(socket.socket())
            visitor.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            visitor.settimeout(10)
            visitor.connect(("127.0.0.1", port))
            visitor.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        # The last one reads slowly, the other not at all.
        end, left = time.monotonic() + 10, size
        while (left == size or len(running.server_state.connections) > 1) and time.monotonic() < end:
            left -= len(visitor.recv(200_000))
            time.sleep(0.02)
        assert len(running.server_state.connections) == 1
        while left > 0 and (part := visitor.recv(1_000_000)):
            left -= len(part)
        assert left <= 0


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET /" + b"a" * 40_000 + b" HTTP/1.1\r\n\r\n", b"431"),
        (GET + b"a: " + b"b" * 40_000 + b"\r\n\r\n", b"431"),
        (GET + b"a: b\r\n" * 8_000 + b"\r\n", b"431"),
        (GET + b"a: " + b"b" * 20_000 + b"\r\n\r\n", b"200"),
        (POST + b"content-length: 9000000\r\n\r\n" + b"b" * 5 * LARGEST, b"413"),
        (POST + b"transfer-encoding: chunked\r\n\r\n0\r\n" + b"a: b\r\n" * 20_000, b""),
    ],
    ids=["address", "header", "headers", "long-enough", "body", "trailers"],
)
def test_parts_of_a_request_have_a_size(study: Study, sent: bytes, status: bytes) -> None:
    with _running(study, Limits(50, 50)) as port, _connect(port) as connection:
        try:
            for place in range(0, len(sent), 8192):
                connection.sendall(sent[place : place + 8192])
                time.sleep(0.002)
        except ConnectionError:
            pass
        reply = _status(connection)
        assert reply in ({status, b""} if status != b"200" else {status})
        if status != b"200":
            assert _accepted(connection, b"x" * 100_000, 100) < 100
        assert _asked(port) == b"200"


def test_the_head_of_150_megabytes_costs_no_memory(study: Study) -> None:
    with _running(study, Limits(50, 50)) as port, _connect(port, GET + b"a: ") as connection:
        assert _accepted(connection, b"b" * 1_000_000, 150) < 20  # what buffers of the system hold


def test_many_requests_behind_each_other_are_not_queued(study: Study) -> None:
    with _running(study, Limits(50, 50)) as port:
        with _connect(port, (GET + b"\r\n") * 8) as connection:
            end, received = time.monotonic() + 15, b""
            while received.count(b"HTTP/1.1 200") < 8 and time.monotonic() < end:
                received += connection.recv(65536)
        assert received.count(b"HTTP/1.1 200") == 8
        with _connect(port) as connection:
            assert _accepted(connection, (GET + b"\r\n") * 1000, 200) < 200
        assert _asked(port) == b"200"


def _answered(port: int, stack: ExitStack) -> socket.socket:
    """A connection that was answered, and is idle since then."""
    connection = stack.enter_context(_connect(port, GET + b"\r\n"))
    assert _status(connection) == b"200"
    return connection


def test_one_address_may_have_so_many_connections_and_a_proxy_all(study: Study) -> None:
    with _running(study, Limits(30, 5)) as port, ExitStack() as stack:
        idle = [_answered(port, stack) for _ in range(6)]
        assert _status(idle[0]) == b""  # the one that was quiet longest has made room
        for connection in idle[1:]:
            connection.sendall(GET + b"\r\n")
            assert _status(connection) == b"200"
    with _running(study, Limits(30, 5, proxies=Proxies.of("127.0.0.1"))) as port, ExitStack() as stack:
        for connection in [_answered(port, stack) for _ in range(20)]:
            connection.sendall(GET + b"\r\n")
            assert _status(connection) == b"200"


def test_where_all_are_being_answered_the_next_is_turned_away_with_a_word(study: Study) -> None:
    with closing(AnswerStore.open(study)) as store, _running(study, Limits(30, 3)) as port, ExitStack() as stack:
        with store.database.writing():  # who agrees has to wait for this
            page = stack.enter_context(_connect(port, b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"))
            text = b""
            while b"</html>" not in text:
                text += page.recv(65536)
            cookie = text.partition(b"set-cookie: ")[2].partition(b";")[0]
            mark = text.partition(b'name="csrf" value="')[2].partition(b'"')[0]
            body = b"lang=en&csrf=" + mark
            head = b"POST /consent HTTP/1.1\r\nhost: x\r\ncookie: %b\r\ncontent-length: %d\r\n" % (cookie, len(body))
            form = head + b"content-type: application/x-www-form-urlencoded\r\n\r\n" + body
            page.sendall(form)
            waiting = [page, *(stack.enter_context(_connect(port, form)) for _ in range(2))]
            time.sleep(1)
            refused = stack.enter_context(_connect(port))
            reply = refused.recv(4096)
            assert reply.startswith(b"HTTP/1.1 503")
            assert b"Please try again" in reply
        assert [_status(connection) for connection in waiting] == [b"303"] * 3
        assert len(store.participations(simulated=False)) == 1


def test_limits_follow_from_the_descriptors_of_the_process() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (1024, before[1]))
        limits = Limits.of()
        assert (limits.connections, limits.per_address) == (1024 - RESERVED, (1024 - RESERVED) // 2)
        assert Limits.of(7).per_address == 7
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
