"""What the proxy does to streams of bytes: nothing unless told, then exactly that, and it never leaks, hangs or grows."""

from __future__ import annotations

import os
import random
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psutil
import pytest

from kitlib.errors import KnobError, LabError
from kitlib.lab.proxy import connection as chaos_connection
from kitlib.lab.proxy.chaos_proxy import ChaosProxy, Rule
from tests.conftest import check_loopback, wait_for, within
from tests.lab.chaos_peers import FETCH, HEARTBEAT, Client, Server, answer, bare_proxy, request


@contextmanager
def between(*rules: Rule, watch: tuple[str, ...] = (), is_mute: bool = False) -> Iterator[tuple[Server, ChaosProxy, Client]]:
    """A server, a proxy before it, a client of the proxy; afterwards nothing in the proxy may have failed."""
    with Server(is_mute) as server, bare_proxy(server.port, rules=rules, watch=watch) as proxy:
        with Client(proxy.port) as client:
            yield server, proxy, client
        assert "failures" not in proxy.counts()


def ask(client: Client, *frames: bytes) -> None:
    """Send the frames and check that each gets its answer, in order."""
    client.send(*frames)
    for frame in frames:
        assert client.receive() == answer(frame)


def test_streams_pass_unchanged_however_they_are_cut(seed: int = 7) -> None:
    """Frames of every size, sent in pieces of every size, arrive as they were, and so do their answers."""
    rng = random.Random(seed)
    sizes = [rng.choice([20, 100, 5_000, 300_000, 2_000_000]) for _ in range(60)] + [rng.randrange(20, 80) for _ in range(600)]
    frames = [request(number, rng.randbytes(size)) for number, size in enumerate(sizes)]
    stream = b"".join(frames)
    with between() as (server, proxy, client):
        def send() -> None:
            at = 0
            while at < len(stream):
                size = rng.choice([1, 3, 7, 100, 70_000, 400_000] if at < sum(sizes[:60]) else [1, 3, 7, 50, 90, 200])
                client.send(stream[at : at + size])
                at += size

        sender = threading.Thread(target=send)
        sender.start()
        answers = [client.receive() for _ in frames]
        sender.join()
        assert server.frames == frames and answers == list(map(answer, frames))
        assert proxy.counts()["request"] == proxy.counts()["answer"] == len(frames)
        assert [event.what for event in proxy.events] == ["open"]


def test_watched_apis_are_written_down_with_what_their_headers_say() -> None:
    """Of a watched API each request and answer becomes an event with its names and numbers."""
    with between(watch=("Heartbeat",)) as (_, proxy, client):
        frames = [request(1, bytes(50)), request(2, bytes(50), HEARTBEAT, "me")]
        ask(client, *frames)
        watched = [event for event in proxy.events if event.api]
        assert [(e.what, e.connection, e.api, e.correlation_id, e.client_id, e.size) for e in watched] == [
            ("request", 1, "Heartbeat", 2, "me", len(frames[1])), ("answer", 1, "Heartbeat", 2, "me", len(answer(frames[1]))),
        ]  # fmt: skip
        assert 0 <= watched[0].at_ms <= watched[1].at_ms
    with pytest.raises(KnobError, match="no API 'Metadat' to watch"):
        bare_proxy(1, watch=["Metadat"])


def test_lost_request_takes_what_follows_on_its_connection_along() -> None:
    """As when a network dies: what came before it is answered, what follows is lost too, and another connection is as new."""
    with between(Rule("lose_request", skip=1, count=1, ms=1_500)) as (server, proxy, client):
        frames = [request(n, bytes(30)) for n in range(3)]
        client.send(*frames)
        assert client.receive() == answer(frames[0])
        proxy.wait_for(lambda: proxy.counts()["request"] == 3, 5, "all are sent")
        with socket.create_connection(("127.0.0.1", proxy.port)) as other:
            other.sendall(frames[2])
            assert other.recv(1 << 16) == answer(frames[2])
        with pytest.raises((EOFError, ConnectionError)):
            client.receive()
        assert server.frames == [frames[0], frames[2]]
        [deed] = [event for event in proxy.events if event.rule]
        assert (deed.what, deed.correlation_id, deed.rule) == ("lose_request", 1, 1)


def test_lost_answer_takes_what_follows_on_its_connection_along() -> None:
    """The server has seen the requests; the answer vanishes, and those that follow it on the connection."""
    with between(Rule("lose_answer", api="Produce")) as (server, proxy, client):
        frames = [request(0, bytes(30), FETCH), request(1, bytes(30)), request(2, bytes(30), FETCH)]
        client.send(*frames)
        assert client.receive() == answer(frames[0])
        proxy.wait_for(lambda: len(server.frames) == 3, 5, "all have arrived")
        assert client.has_nothing(0.3)


def test_delays_keep_the_order_and_do_not_add_up() -> None:
    """Twenty requests delayed by 100 ms, with answers delayed by 100 ms: all there after some 200 ms; none that no rule wants overtakes."""
    with between(Rule("delay_request", ms=100), Rule("delay_answer", ms=100)) as (server, proxy, client):
        began = time.monotonic()
        frames = [*(request(n, bytes(1000)) for n in range(20)), request(20, bytes(600_000), FETCH)]
        ask(client, *frames)
        assert 0.2 <= time.monotonic() - began < 3  # 4 s, if they added up
        assert server.frames == frames and proxy.counts()["delay_request"] == proxy.counts()["delay_answer"] == 20


def test_duplicated_request_arrives_twice_and_is_answered_once() -> None:
    """The server sees the frame twice; the client gets the first answer, and the next one's in its order."""
    with between(Rule("duplicate_request", count=1)) as (server, _, client):
        frames = [request(n, bytes(40)) for n in range(3)]
        ask(client, *frames)
        assert server.frames == [frames[0], frames[0], *frames[1:]]
        assert client.has_nothing()


def test_cut_ends_both_sides_before_the_request() -> None:
    """The client sees a closed connection, the server too, and nothing behind the cut has passed."""
    with between(Rule("cut", skip=1, count=1)) as (server, proxy, client):
        frames = [request(n, bytes(40)) for n in range(3)]
        ask(client, frames[0])
        client.send(*frames[1:])
        assert client.how_it_ended() in ("closed", "reset")
        assert wait_for(lambda: server.ended == 1, 5)
        assert server.frames == frames[:1] and server.rests == [b""]
        proxy.wait_for(lambda: proxy.counts()["open"] == 0)


@pytest.mark.parametrize("action", ["reset", "reset_answer", "cut_after_answer"])
def test_what_breaks_a_connection_breaks_it_on_both_sides(action: str) -> None:
    """A reset leaves half a request, or half an answer, and is no orderly end; after an answer that was cut off the work is done."""
    with between(Rule(action)) as (server, _, client):
        client.send(request(1, bytes(4000)))
        with pytest.raises((EOFError, ConnectionError)) as ended:
            client.receive()
        assert wait_for(lambda: server.ended == 1, 5)
        assert len(server.frames) == (action != "reset") and len(server.rests[0]) <= 2013
        assert action != "reset" or isinstance(ended.value, ConnectionResetError)


def test_withheld_answers_are_kept_until_released_in_their_order() -> None:
    """Answers are kept, with all behind them; the server has done the work; released, they come in order."""
    with between(Rule("withhold", count=2)) as (server, proxy, client):
        frames = [request(n, bytes(40)) for n in range(4)]
        client.send(*frames)
        proxy.wait_for(lambda: proxy.counts().get("answer") == 4)
        assert server.frames == frames and client.has_nothing()
        proxy.release()
        assert [client.receive() for _ in frames] == list(map(answer, frames))
        proxy.add(Rule("withhold", count=1))
        client.send(request(9, bytes(40)))
        proxy.wait_for(lambda: proxy.counts().get("withhold") == 3)
        assert client.has_nothing()


def test_stopped_reading_holds_the_client_back_until_released() -> None:
    """Nothing is read any more: the client's sends end up in its own buffers, and go on when released."""
    with between(Rule("stop_reading", skip=1, count=1)) as (server, proxy, client):
        frames = [request(n, bytes(40)) for n in range(3)]
        client.send(*frames)
        assert client.receive() == answer(frames[0])
        assert client.has_nothing() and server.frames == frames[:1]
        proxy.release()
        assert [client.receive(), client.receive()] == list(map(answer, frames[1:]))


def test_only_the_named_client_is_touched_or_cut() -> None:
    """A rule and a cut for one client id leave the others alone."""
    with between(Rule("lose_request", client_id="victim")) as (server, proxy, client), Client(proxy.port) as victim:
        victim.send(request(1, bytes(40), client_id="victim"))
        ask(client, request(2, bytes(40), client_id="other"))
        proxy.wait_for(lambda: proxy.counts().get("lose_request"))
        assert len(server.frames) == 1
        assert proxy.cut("victim") == 1
        assert victim.how_it_ended() in ("closed", "reset")
        ask(client, request(3, bytes(40), client_id="other"))


def test_produce_without_acks_waits_for_no_answer() -> None:
    """With acks=0 there is no answer; the answers to other requests are still told apart."""
    with between(Rule("delay_answer", api="Fetch", ms=20)) as (server, proxy, client):
        silent = [request(n, acks=0) for n in range(50)]
        client.send(*silent)
        ask(client, request(99, bytes(40), FETCH))
        assert server.frames[:50] == silent and proxy.counts()["delay_answer"] == 1


GARBAGE = {
    "a browser": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "TLS": bytes.fromhex("16030100f8010000f40303") + bytes(240),
    "a length of -1": struct.pack(">i", -1),
    "a length of 0": bytes(4) + bytes(50),
    "2^31-1": struct.pack(">i", 2**31 - 1),
    "one more than the cap": struct.pack(">i", 104_857_601),
    "a client id longer than its frame": struct.pack(">ihhih", 20, 3, 0, 1, 500) + bytes(10),
    "a number without end": struct.pack(">ihhih", 500, 0, 9, 1, 0) + b"\xff" * 490,
}


@pytest.mark.parametrize("case", GARBAGE)
def test_garbage_is_closed_counted_and_passes_not_one_byte(case: str) -> None:
    """What is not Kafka's protocol is closed at once; the server sees none of it, and other clients go on."""
    with between() as (server, proxy, client), Client(proxy.port) as stranger:
        ask(client, request(1, bytes(40)))
        stranger.send(GARBAGE[case])
        assert stranger.how_it_ended() in ("closed", "reset")
        proxy.wait_for(lambda: proxy.counts()["open"] == 1)
        assert proxy.counts()["garbage"] == 1
        ask(client, request(2, bytes(40)))
        assert wait_for(lambda: b"" in server.rests, 5) and server.rests == [b""]


def test_client_that_leaves_in_the_middle_of_a_frame_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a frame, then gone: the server sees the end and none of it, and the proxy closes both."""
    monkeypatch.setattr(chaos_connection, "LINGER_S", 20.0)
    with between() as (server, proxy, client):
        client.send(request(1, bytes(100_000))[:50_000])
        proxy.wait_for(lambda: proxy.counts()["open"] == 1)
        client.socket.close()
        # Sooner than after the time that a broker has to close its side.
        proxy.wait_for(lambda: proxy.counts()["open"] == 0, chaos_connection.LINGER_S / 2)
        assert wait_for(lambda: server.ended == 1, 5) and server.frames == [] and server.rests == [b""]


def test_half_closed_client_still_gets_its_answers() -> None:
    """A client that has said all it will say is answered to the end, also when that takes a while."""
    with between(Rule("delay_answer", ms=200)) as (_, proxy, client):
        frames = [request(n, bytes(4000)) for n in range(5)]
        client.send(*frames)
        client.socket.shutdown(socket.SHUT_WR)
        assert [client.receive() for _ in frames] == list(map(answer, frames))
        assert client.how_it_ended() == "closed"
        proxy.wait_for(lambda: proxy.counts()["open"] == 0)


def test_client_that_reads_nothing_stops_the_server_and_not_the_memory() -> None:
    """A slow reader is felt by the other side: the proxy keeps a frame or two of the stream, whatever is sent."""
    with socket.create_server(("127.0.0.1", 0)) as listener, bare_proxy(listener.getsockname()[1]) as proxy:
        with Client(proxy.port) as client:
            client.send(request(1, bytes(40), FETCH))
            server, _ = listener.accept()
            with server:
                server.recv(1000)
                server.settimeout(0.5)
                frames = (struct.pack(">ii", 1_000_000, 1) + bytes(999_996)) * 100
                sent = send_until_full(server, frames)
                before = resident_bytes()
                sent += send_until_full(server, frames[sent:])
                assert sent < 60_000_000 and resident_bytes() - before < 20_000_000


def send_until_full(to: socket.socket, data: bytes) -> int:
    """Send until nobody takes it any more; how many bytes went."""
    sent = 0
    with suppress(TimeoutError):
        while sent < len(data):
            sent += to.send(data[sent : sent + (1 << 20)])
    return sent


def resident_bytes() -> int:
    return int(psutil.Process().memory_info().rss)


def test_what_rules_hold_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Above the limit of what is held the sender has to wait, and loses nothing when it is let go."""
    monkeypatch.setattr(chaos_connection, "HELD_BYTES", 1_000_000)
    with between(Rule("delay_request", ms=300)) as (server, _, client):
        frames = [request(n, bytes(400_000)) for n in range(12)]
        ask(client, *frames)
        assert server.frames == frames
    with between(Rule("delay_request", ms=60_000)) as (_, __, client):
        client.socket.settimeout(0.5)
        assert send_until_full(client.socket, b"".join(frames) * 10) < 20_000_000


def test_a_thousand_connections_leave_no_descriptor_task_or_thread() -> None:
    """After 1,000 clients of all kinds the process has the descriptors and threads it had before."""
    with Server() as server, bare_proxy(server.port, rules=[Rule("reset_answer", skip=2, percent=50)]) as proxy:
        descriptors = len(os.listdir("/proc/self/fd"))
        for number in range(1000):
            with Client(proxy.port) as client:
                kind = number % 5
                client.send(request(1, bytes(50))[: (100, 20, 2, 0, 100)[kind]] if kind != 3 else b"\xff" * 30)
                if kind in (0, 3):
                    with suppress(EOFError, ConnectionError):
                        client.receive()
        proxy.wait_for(lambda: proxy.counts()["opened"] == 1000 and proxy.counts()["open"] == 0, 20)
        assert wait_for(lambda: server.ended == 1000, 10)
        # Within a moment: what other tests have left in this process may just be reconnecting.
        assert wait_for(lambda: len(os.listdir("/proc/self/fd")) <= descriptors, 5)
        assert not proxy._connections and "failures" not in proxy.counts()
    assert not proxy_threads()


def proxy_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "chaos-proxy"]


def test_broker_that_is_not_there_is_said_at_once() -> None:
    """Without a server the client is let go at once, so that it can try again, and the proxy says why."""
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    with bare_proxy(port) as proxy, Client(proxy.port) as client:
        assert client.how_it_ended() in ("closed", "reset")
        assert proxy.counts()["unreachable"] == 1


def test_stop_ends_everything_at_once_whatever_is_held() -> None:
    """Held answers, stopped reading and delays of a minute: stop ends them all, and the thread, and waits for none."""
    rules = [Rule("withhold", client_id="a"), Rule("stop_reading", client_id="b"), Rule("delay_request", client_id="c", ms=60_000)]
    with Server() as server:
        proxy = bare_proxy(server.port, rules=rules)
        [thread] = proxy_threads()
        clients = [Client(proxy.port) for _ in rules]
        for client, name in zip(clients, "abc", strict=True):
            client.send(request(1, bytes(4000), client_id=name))
        proxy.wait_for(lambda: sum(proxy.counts().get(rule.action, 0) for rule in rules) == 3)
        began = time.monotonic()
        proxy.stop()
        assert time.monotonic() - began < within(5)
        assert not thread.is_alive()
        for client in clients:
            assert client.how_it_ended() in ("closed", "reset")
            client.socket.close()
        proxy.stop()
        with pytest.raises(LabError, match="has been stopped"):
            proxy.cut()


def test_port_that_is_taken_is_named() -> None:
    """A stranger on the port, or another proxy, is an error that says which port."""
    with Server() as server, bare_proxy(server.port) as proxy:
        with pytest.raises(LabError, match=f"Port {proxy.port}.*taken by another program"):
            bare_proxy(server.port, proxy.port)
        check_loopback([psutil.Process()])
        port = proxy.port
        proxy.stop()
        with bare_proxy(server.port, port) as again, Client(again.port) as client:
            ask(client, request(1, bytes(40)))
