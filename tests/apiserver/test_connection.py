# SPDX-License-Identifier: GPL-2.0-or-later
"""The daemon's way to the API server: dead peers, GOAWAY, credentials that change, kubeconfig's odder
fields, proxies, several servers behind a name. What the requests say is in test_daemon.py."""

import contextlib
import gzip
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import threading
import time

import hyperframe.frame
import pytest

import answers
import apiserver
import pki
from harness import (NODE_ADDRESS, Daemon, dump_rules, endpoint_slice, node, own_network, prove_watches, service, table,
                     without_waiting)

WEB = ("10.96.0.10", "tcp", 80)
ONE = {("10.1.0.1", 8080)}
TWO = {("10.1.0.1", 8080), ("10.1.0.2", 8080)}
NAME = "kubernetes.default.svc"  # is in the server's certificate
HOSTS = ("127.0.0.1", "127.0.0.2", "127.0.0.3")
NO_PROXIES = {f"{name}_proxy": "" for name in ("http", "https", "all", "no")}
NO_PROXIES |= {name.upper(): "" for name in NO_PROXIES}


@pytest.fixture(name="certs")
def make_certs(tmp_path):
    return pki.make(tmp_path / "certs")


def fill(server):
    server.put(node(), service(), endpoint_slice("10.1.0.1", "10.1.0.2"))


@pytest.fixture(name="server")
def run_server(certs):
    """The stand-in with a node and one service of two endpoints, in a network of its own."""
    with own_network(), apiserver.ApiServer(certs) as server:
        fill(server)
        yield server


@contextlib.contextmanager
def running(server, folder, kubeconfig, *flags, mounts=None, environment=None):
    """A daemon that has programmed what fill() made, and watches everything."""
    environment = NO_PROXIES | (environment or {})
    with Daemon(folder, kubeconfig, *flags, mounts=mounts, environment=environment) as daemon:
        server.wait(lambda: table() == {WEB: TWO})
        prove_watches(server)
        yield daemon


def plural(request):
    return request.path.split("/")[-1]


def watch_of(server, what):
    [watch] = [watch for watch in tuple(server.api.watches) if watch.resource.plural == what]
    return watch


def end_watch(server, *whats):
    """Ends the watches of these resources cleanly, all at once; returns the number of the next request."""
    since = len(server.requests)
    watches = [watch_of(server, what) for what in whats]

    def end():
        for watch in watches:
            watch.queue.put_nowait(answers.Api.END)
    server.call(end)
    return since


def watched_again(server, what, since, timeout=20.0):
    """Waits for an open watch of @what asked for since; returns its request."""
    return server.wait(lambda: [request for request in server.open_watches(since) if plural(request) == what],
                       timeout)[0]


def change_arrives(server):
    server.put(endpoint_slice("10.1.0.1"))
    server.wait(lambda: table() == {WEB: ONE})


# Dead peers


def peer_port(server, number):
    [connection] = [connection for connection in tuple(server.connections) if connection.number == number]
    return connection.writer.get_extra_info("peername")[1]


def drop_silently(server, port):
    """All packets between the server and the daemon's @port."""
    rules = "".join(f"add rule ip fault in tcp {one} {server.port} tcp {other} {port} drop\n"
                    for one, other in (("dport", "sport"), ("sport", "dport")))
    subprocess.run(["nft", "-f", "-"], check=True, text=True,
                   input="add table ip fault\n"
                         "add chain ip fault in { type filter hook input priority 0; }\n" + rules)


def test_a_silent_peer_is_noticed_and_an_idle_one_is_not_mistaken(server, tmp_path):
    """One watch goes over a connection of its own that goes silent; the others are idle meanwhile."""
    with running(server, tmp_path, server.kubeconfig(tmp_path / "kubeconfig")) as daemon:
        idle = server.open_watches()
        server.goaway()
        since = end_watch(server, "endpointslices")
        watch = watched_again(server, "endpointslices", since)
        others = [request for request in idle if plural(request) != "endpointslices"]
        assert watch.connection not in {request.connection for request in others}
        since = len(server.requests)
        drop_silently(server, peer_port(server, watch.connection))
        start = time.monotonic()
        server.put(endpoint_slice("10.1.0.1"))
        again = watched_again(server, "endpointslices", since, 60)
        assert time.monotonic() - start > 15  # by less, it was something else that told
        server.wait(lambda: table() == {WEB: ONE})
        assert server.requests[since + 1:] == [again] and again.watch  # after the check; the others live on
        assert not server.lists(since=since)
        assert not any(request.done for request in others)
        assert not daemon.lines(" error ")


def test_an_idle_daemon_sleeps(server, tmp_path):
    """While a connection is being made it looks at it many times a second; not later."""
    def wakeups(daemon):
        status = pathlib.Path(f"/proc/{daemon.process.pid}/status").read_text()
        return int(status.split("\nvoluntary_ctxt_switches:")[1].split()[0])
    with running(server, tmp_path, server.kubeconfig(tmp_path / "kubeconfig")) as daemon:
        seconds = []
        while not seconds or seconds[-1] >= 10 and len(seconds) < 5:  # what came with the start may still be under way
            before = wakeups(daemon)
            time.sleep(1)
            seconds.append(wakeups(daemon) - before)
        assert seconds[-1] < 10, seconds


def test_a_reset_stream_is_an_answer(server, tmp_path, monkeypatch):
    """The server gives up one request, its connection lives: one request a try, with back-off. (One that
    went to a dying connection is sent again at once: test_survival.py, recording 130.)"""
    answer = answers.Api._answer

    async def reset(api, exchange):
        if not exchange.request.path.endswith("/services"):
            await answer(api, exchange)
            return
        exchange.connection.h2.reset_stream(exchange.request.stream, 2)  # INTERNAL_ERROR
        await exchange.connection.flush()

    with running(server, tmp_path, server.kubeconfig(tmp_path / "kubeconfig")) as daemon:
        monkeypatch.setattr(answers.Api, "_answer", reset)
        since = end_watch(server, "services")
        server.wait(lambda: len(server.asked("services", since=since)) >= 2)
        first, second = server.asked("services", since=since)[:2]
        assert second.time - first.time > 0.7
        assert len(daemon.lines("cannot list services")) == 1


def test_a_silent_name_server_delays_no_end(server, tmp_path, certs):
    """Nor anything else: nobody waits for the thread that waits for it."""
    (tmp_path / "resolv.conf").write_text("nameserver 127.0.0.9\noptions timeout:20\n")
    (tmp_path / "nsswitch.conf").write_text("hosts: files dns\n")
    kubeconfig = pki.write_kubeconfig(tmp_path / "kubeconfig", "https://api.internal:6443",
                                      {"certificate-authority": certs / "ca.crt"}, {"token": server.token})
    mounts = {f"/etc/{name}": tmp_path / name for name in ("resolv.conf", "nsswitch.conf")}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.9", 53))
        silent.settimeout(60)
        with Daemon(tmp_path, kubeconfig, mounts=mounts, environment=NO_PROXIES) as daemon:
            silent.recv(512)  # it asks, and will wait
            start = time.monotonic()
            assert daemon.stop() == 0
            assert time.monotonic() - start < 15  # and not twenty


# Credentials on SIGHUP


@pytest.mark.parametrize("within", [True, False], ids=["in the kubeconfig", "in a file"])
def test_which_credentials_need_a_restart(server, tmp_path, within):
    token = tmp_path / "token"
    token.write_text(server.token)
    user = {"token": server.token} if within else {"tokenFile": token}
    with running(server, tmp_path, server.kubeconfig(tmp_path / "kubeconfig", user=user)) as daemon:
        daemon.process.send_signal(signal.SIGHUP)
        server.wait(lambda: daemon.lines("signal=Hangup: "))
        [line] = daemon.lines("signal=Hangup: ")
        assert ("need a restart" in line) is within


# GOAWAY


def test_goaway_by_a_401_ends_nothing_else(server, tmp_path):
    """Two requests go out together on a connection that is going away; both find their way."""
    token = tmp_path / "token"
    token.write_text(server.token)
    kubeconfig = server.kubeconfig(tmp_path / "kubeconfig", user={"tokenFile": token})
    with running(server, tmp_path, kubeconfig):
        before = server.open_watches()
        server.api.tokens = {"new-token": apiserver.USER}
        since = end_watch(server, "endpointslices", "services")
        server.wait(lambda: len([r for r in server.requests[since:] if r.status == 401]) >= 2)
        token.write_text("new-token")
        watch = watched_again(server, "endpointslices", since)
        watched_again(server, "services", since)
        others = [request for request in before if plural(request) in ("nodes", "servicecidrs")]
        assert [request.done for request in others] == [False, False]
        assert {plural(request) for request in server.requests[since:]} == {"endpointslices", "services"}
        assert watch.connection != others[0].connection and not server.lists(since=since)
        change_arrives(server)


def test_goaway_and_the_end_of_a_watch_together(server, tmp_path):
    with running(server, tmp_path, server.kubeconfig(tmp_path / "kubeconfig")) as daemon:
        [connection] = server.connections
        watch = watch_of(server, "endpointslices")
        since = len(server.requests)

        def both():
            connection.goodbye()
            watch.queue.put_nowait(answers.Api.END)
        with without_waiting(daemon):
            server.call(both)
            assert watched_again(server, "endpointslices", since).connection != connection.number
        assert len(server.requests) == since + 2  # the check, the watch
        change_arrives(server)


def test_a_request_that_crosses_a_goaway_is_sent_again(server, tmp_path):
    """It went out before GOAWAY came, and the server does not answer it."""
    with running(server, tmp_path, server.kubeconfig(tmp_path / "kubeconfig")) as daemon, without_waiting(daemon):
        [connection] = server.connections
        connection.last = connection.h2.highest_inbound_stream_id  # what comes later gets no answer
        since = end_watch(server, "endpointslices")
        server.wait(lambda: connection.h2.highest_inbound_stream_id > connection.last)
        assert len(server.requests) == since and not connection.closing
        goaway = hyperframe.frame.GoAwayFrame(0, last_stream_id=connection.last).serialize()
        server.call(connection.writer.write, goaway)
        assert watched_again(server, "endpointslices", since).connection != connection.number
        assert len(server.requests) == since + 2  # the check, the watch
        change_arrives(server)


# Credentials that change


def replace(source, target):
    """As tools do it: the new file is moved into place."""
    shutil.copy(source, f"{target}.new")
    os.replace(f"{target}.new", target)


@pytest.mark.parametrize("http2", [True, False])
def test_a_new_client_certificate_counts_for_the_next_request(server, tmp_path, certs, http2):
    server.stop()
    server.http2 = http2
    server.start()
    pki.make_client(certs, "next", "system:next")
    for ending in ("crt", "key"):
        shutil.copy(certs / f"client.{ending}", tmp_path / f"mine.{ending}")
    files = {"client-certificate": tmp_path / "mine.crt", "client-key": tmp_path / "mine.key"}
    with running(server, tmp_path, server.kubeconfig(tmp_path / "kubeconfig", user=files)) as daemon:
        before = server.open_watches()
        assert {request.client_cert for request in server.requests} == {apiserver.USER}
        replace(certs / "next.crt", tmp_path / "mine.crt")  # caught half way: the pair does not fit
        since = end_watch(server, "endpointslices")
        server.wait(lambda: daemon.lines("endpointslices.*cannot use the client certificate and its key"))
        assert len(server.requests) == since
        replace(certs / "next.key", tmp_path / "mine.key")
        assert watched_again(server, "endpointslices", since).client_cert == "system:next"
        assert not any(request.done for request in before if plural(request) != "endpointslices")
        assert not server.lists(since=since)
        change_arrives(server)


def test_both_halves_may_be_in_one_file(server, tmp_path, certs):
    """As the kubelet keeps its certificate: a link to a file with certificate and key."""
    pki.make_client(certs, "next", "system:next")
    for name in ("client", "next"):
        pair = (certs / f"{name}.crt").read_text() + (certs / f"{name}.key").read_text()
        (tmp_path / f"{name}.pem").write_text(pair)
    link = tmp_path / "current.pem"
    link.symlink_to("client.pem")
    files = {"client-certificate": link, "client-key": link}
    with running(server, tmp_path, server.kubeconfig(tmp_path / "kubeconfig", user=files)) as daemon:
        (tmp_path / "link.new").symlink_to("next.pem")
        os.replace(tmp_path / "link.new", link)
        with without_waiting(daemon):
            since = end_watch(server, "endpointslices")
            assert watched_again(server, "endpointslices", since).client_cert == "system:next"
        assert not daemon.lines(" (warn|error) ")


def test_a_broken_certificate_leaves_the_last_good_one(server, tmp_path, certs):
    for ending in ("crt", "key"):
        shutil.copy(certs / f"client.{ending}", tmp_path / f"mine.{ending}")
    files = {"client-certificate": tmp_path / "mine.crt", "client-key": tmp_path / "mine.key"}
    with running(server, tmp_path, server.kubeconfig(tmp_path / "kubeconfig", user=files)) as daemon:
        text = (tmp_path / "mine.crt").read_text()
        for broken in (text[:len(text) // 2], "", None):
            if broken is None:
                (tmp_path / "mine.crt").unlink()
            else:
                (tmp_path / "mine.crt").write_text(broken)
            with without_waiting(daemon):
                since = end_watch(server, "endpointslices")
                assert watched_again(server, "endpointslices", since).client_cert == apiserver.USER
            prove_watches(server)
        [line] = daemon.lines("the last good client certificate stays in use")
        assert "mine.crt is cut off" in line


def test_a_new_ca_counts_for_the_next_connection(server, tmp_path, certs):
    """The rotation of a cluster's CA: first both are trusted, then the server changes, then the new one
    alone is."""
    new = pki.make(tmp_path / "new-certs")
    ca = tmp_path / "ca.crt"
    shutil.copy(certs / "ca.crt", ca)
    kubeconfig = server.kubeconfig(tmp_path / "kubeconfig", cluster={"certificate-authority": ca})
    with running(server, tmp_path, kubeconfig) as daemon:
        before = server.open_watches()
        both = tmp_path / "both.crt"
        both.write_text((certs / "ca.crt").read_text() + (new / "ca.crt").read_text())
        replace(both, ca)
        with without_waiting(daemon):
            since = end_watch(server, "endpointslices")
            watch = watched_again(server, "endpointslices", since)
        assert watch.connection != before[0].connection  # what is trusted is another thing now
        assert sum(request.done for request in before) == 1
        server.stop()
        server.certs = new
        since = len(server.requests)
        server.start()
        server.wait(lambda: len(server.open_watches(since)) == 4)
        replace(certs / "ca.crt", ca)  # a step back: the server is not trusted now
        prove_watches(server)
        since = end_watch(server, "endpointslices")
        server.wait(lambda: daemon.lines("endpointslices.*certificate"))
        assert len(server.requests) == since
        replace(new / "ca.crt", ca)
        watched_again(server, "endpointslices", since)
        assert not server.lists(since=since)
        change_arrives(server)


def test_a_ca_that_is_missing_at_the_start(server, tmp_path, certs):
    ca = tmp_path / "ca.crt"
    kubeconfig = server.kubeconfig(tmp_path / "kubeconfig", cluster={"certificate-authority": ca})
    with Daemon(tmp_path, kubeconfig, environment=NO_PROXIES) as daemon:
        server.wait(lambda: daemon.lines("endpointslices.*no CA: .*ca.crt: No such file"))
        shutil.copy(certs / "ca.crt", ca)
        server.wait(lambda: table() == {WEB: TWO})
        assert len(daemon.lines("endpointslices.*no CA")) == 1


def system_cas(folder, ca):
    """A folder to stand in for the system's that holds @ca alone."""
    folder.mkdir()
    shutil.copy(ca, folder / "ca-certificates.crt")
    shutil.copy(ca, folder / "one.pem")
    subprocess.run(["openssl", "rehash", folder], check=True)
    return {"/etc/ssl/certs": folder}


def test_the_systems_cas_count_only_where_none_is_named(server, tmp_path, certs):
    mounts = system_cas(tmp_path / "system", certs / "ca.crt")
    other = pki.make(tmp_path / "other")
    named = server.kubeconfig(tmp_path / "kubeconfig", cluster={"certificate-authority": other / "ca.crt"})
    with Daemon(tmp_path, named, mounts=mounts, environment=NO_PROXIES) as daemon:
        server.wait(lambda: daemon.lines("services: SSL certificate problem.* server=https://127.0.0.1"))
        assert not server.requests
    unnamed = server.kubeconfig(tmp_path / "kubeconfig", cluster={"certificate-authority-data": '""'})
    with running(server, tmp_path, unnamed, mounts=mounts):
        pass


# kubeconfig


TWO_CONTEXTS = """\
kind: Config
current-context: {context}
contexts:
- {{name: wrong, context: {{cluster: wrong, user: wrong}}}}
- {{name: right, context: {{cluster: right, user: right}}}}
clusters:
- name: wrong
  cluster: {{server: "https://127.0.0.9:1"}}
- name: right
  cluster: {{server: "{server.url}", certificate-authority: "{server.certs}/ca.crt"}}
users:
- {{name: wrong, user: {{{wrong}}}}}
- {{name: right, user: {{token: "{server.token}"}}}}
"""


def test_the_context_that_is_current_counts(server, tmp_path):
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(TWO_CONTEXTS.format(context="right", server=server, wrong="exec: {command: x}"))
    with running(server, tmp_path, kubeconfig):
        pass


@pytest.mark.parametrize("plugin", ["exec", "auth-provider"])
def test_plugins_are_refused(server, tmp_path, plugin):
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(TWO_CONTEXTS.format(context="wrong", server=server, wrong=plugin + ": {command: x}"))
    daemon = Daemon(tmp_path, kubeconfig)
    assert daemon.process.wait(60) == os.EX_CONFIG
    line = daemon.log().splitlines()[-1]
    assert f"{kubeconfig}: users[0].user.{plugin}: " in line and "plugins are not supported: use tokenFile" in line


def test_a_kubeconfig_that_is_written_later(server, tmp_path):
    """As a kubelet that joins does; here piece by piece, as others may."""
    kubeconfig = tmp_path / "kubeconfig"
    text = pathlib.Path(server.kubeconfig(tmp_path / "whole")).read_text()
    with Daemon(tmp_path, kubeconfig, environment=NO_PROXIES) as daemon:
        server.wait(lambda: daemon.lines(f"waiting for .*kubeconfig.* file={kubeconfig}"))
        kubeconfig.touch()
        time.sleep(2.5)
        assert daemon.alive()
        kubeconfig.write_text(text)
        server.wait(lambda: table() == {WEB: TWO})
        assert len(daemon.lines("waiting for")) == 1
    with Daemon(tmp_path, tmp_path / "never") as daemon:  # told to end, it does
        server.wait(lambda: daemon.lines("waiting for"))
    daemon = Daemon(tmp_path, tmp_path / "invalid")
    server.wait(lambda: daemon.lines("waiting for"))
    (tmp_path / "invalid").write_text("kind: Pod\n")
    assert daemon.process.wait(60) == os.EX_CONFIG


@pytest.fixture(name="elsewhere")
def run_elsewhere(certs):
    """The stand-in at an address that its certificate does not name, and that is not loopback."""
    with own_network(), apiserver.ApiServer(certs, hosts=(NODE_ADDRESS,)) as server:
        fill(server)
        yield server


def test_tls_server_name(elsewhere, tmp_path, certs):
    ca = {"certificate-authority": certs / "ca.crt"}
    plain = elsewhere.kubeconfig(tmp_path / "kubeconfig", cluster=ca)
    with Daemon(tmp_path, plain, environment=NO_PROXIES) as daemon:
        elsewhere.wait(lambda: daemon.lines(f"services: SSL: no alternative .*{NODE_ADDRESS}"))
        assert not elsewhere.requests
    for name in (NAME, "localhost"):
        named = elsewhere.kubeconfig(tmp_path / "kubeconfig", cluster=ca | {"tls-server-name": name})
        with running(elsewhere, tmp_path, named):
            pass
    wrong = elsewhere.kubeconfig(tmp_path / "kubeconfig", cluster=ca | {"tls-server-name": "other.example"})
    with Daemon(tmp_path, wrong, environment=NO_PROXIES) as daemon:
        elsewhere.wait(lambda: daemon.lines("services: SSL: no alternative .*other.example"))


def test_insecure_skip_tls_verify(elsewhere, tmp_path):
    kubeconfig = elsewhere.kubeconfig(tmp_path / "kubeconfig", cluster={"insecure-skip-tls-verify": "true"})
    with running(elsewhere, tmp_path, kubeconfig):
        pass


def test_disable_compression(server, certs, tmp_path):
    for disabled in ("false", "true"):
        cluster = {"certificate-authority": certs / "ca.crt", "disable-compression": disabled}
        since = len(server.requests)
        with running(server, tmp_path, server.kubeconfig(tmp_path / "kubeconfig", cluster=cluster)):
            asked = {request.headers.get("accept-encoding") for request in server.requests[since:]}
        assert asked == {None if disabled == "true" else "gzip"}


# Proxies


class Proxy:
    """A CONNECT proxy that notes what it is asked, and the first bytes that come through."""

    def __init__(self, host="127.0.0.1", port=0):
        self.heads, self.through = [], []
        self.listener = socket.create_server((host, port))
        self.port = self.listener.getsockname()[1]
        self.open = [self.listener]
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                self.open.append(client)
                threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        head = b""
        while b"\r\n\r\n" not in head:
            head += client.recv(4096)
        self.heads.append(head.decode())
        host, _, port = self.heads[-1].split()[1].rpartition(":")
        server = socket.create_connection((host, int(port)))
        self.open.append(server)
        client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        threading.Thread(target=self.pump, args=(server, client), daemon=True).start()
        self.pump(client, server, self.through)

    @staticmethod
    def pump(source, target, log=None):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if log is not None:
                    log.append(data)
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for sock in self.open:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()

    def saw(self, text):
        return text in "".join(self.heads) or any(text.encode() in data for data in self.through)


def test_proxy_url(server, tmp_path, certs):
    """Also for an address of loopback, and whatever NO_PROXY says."""
    with Proxy() as proxy:
        cluster = {"certificate-authority": certs / "ca.crt",
                   "proxy-url": f"http://somebody:secret-word@127.0.0.1:{proxy.port}"}
        kubeconfig = server.kubeconfig(tmp_path / "kubeconfig", cluster=cluster)
        with running(server, tmp_path, kubeconfig, "-v", "9", environment={"NO_PROXY": "*"}) as daemon:
            [head] = proxy.heads
            assert head.startswith(f"CONNECT 127.0.0.1:{server.port} HTTP/1.1\r\n")
            assert {request.protocol for request in server.requests} == {"HTTP/2"}
            assert proxy.through[0][0] == 0x16  # TLS
            for secret in (server.token, "Bearer"):
                assert not proxy.saw(secret)
            assert "secret-word" not in daemon.log()
            change_arrives(server)


def test_a_proxy_without_a_port_is_at_80(server, tmp_path, certs):
    with Proxy(port=80) as proxy:
        cluster = {"certificate-authority": certs / "ca.crt", "proxy-url": "http://127.0.0.1"}
        with running(server, tmp_path, server.kubeconfig(tmp_path / "kubeconfig", cluster=cluster)):
            assert proxy.heads


def test_tls_server_name_through_a_proxy(elsewhere, tmp_path, certs):
    with Proxy() as proxy:
        cluster = {"certificate-authority": certs / "ca.crt", "tls-server-name": NAME,
                   "proxy-url": f"http://127.0.0.1:{proxy.port}"}
        with running(elsewhere, tmp_path, elsewhere.kubeconfig(tmp_path / "kubeconfig", cluster=cluster)):
            assert proxy.heads[0].startswith(f"CONNECT {NODE_ADDRESS}:{elsewhere.port} HTTP/1.1\r\n")
            assert not proxy.saw(elsewhere.token)


@pytest.mark.parametrize("variables, used", [
    ({"HTTPS_PROXY": "http://{}"}, True),
    ({"https_proxy": "{}"}, True),
    ({"HTTPS_PROXY": "http://{}", "NO_PROXY": f"x.example, {NODE_ADDRESS}"}, False),
    ({"HTTPS_PROXY": "http://{}", "no_proxy": "192.0.2.0/24"}, False),
    ({"ALL_PROXY": "http://{}", "HTTP_PROXY": "http://{}"}, False),  # as client-go: they do not count
])
def test_proxy_of_the_environment(elsewhere, tmp_path, certs, variables, used):
    with Proxy() as proxy:
        cluster = {"certificate-authority": certs / "ca.crt", "tls-server-name": NAME}
        kubeconfig = elsewhere.kubeconfig(tmp_path / "kubeconfig", cluster=cluster)
        environment = {name: value.format(f"127.0.0.1:{proxy.port}") for name, value in variables.items()}
        with running(elsewhere, tmp_path, kubeconfig, environment=environment):
            assert bool(proxy.heads) == used
            assert not proxy.saw(elsewhere.token)


def test_loopback_is_not_reached_through_the_environments_proxy(server, tmp_path):
    kubeconfig = server.kubeconfig(tmp_path / "kubeconfig")
    with running(server, tmp_path, kubeconfig, environment={"HTTPS_PROXY": "http://127.0.0.1:1"}):
        pass


# Several servers behind a name


@pytest.fixture(name="servers")
def run_servers(certs, tmp_path):
    """Three servers, with one store; returns the stand-in, a kubeconfig that says NAME, and the mounts that
    make NAME their three addresses."""
    with own_network(), apiserver.ApiServer(certs, hosts=HOSTS) as server:
        fill(server)
        hosts = tmp_path / "hosts"
        hosts.write_text("".join(f"{host} {NAME}\n" for host in HOSTS))
        path = pki.write_kubeconfig(tmp_path / "kubeconfig", f"https://{NAME}:{server.port}",
                                    {"certificate-authority": certs / "ca.crt"}, {"token": server.token})
        yield server, path, {"/etc/hosts": hosts}


def host_of(server, request):
    [host] = [host for host in HOSTS for connection in server.connections_to(host)
              if connection.number == request.connection]
    return host


def test_servers_of_one_name_share_the_daemons(servers):
    server, kubeconfig, mounts = servers
    for _ in range(40):
        dump_rules(kubeconfig, mounts=mounts)
        if set(server.chosen) == set(HOSTS):
            break
    assert set(server.chosen) == set(HOSTS)


def test_servers_that_go_one_by_one(servers, tmp_path):
    """Each time the daemon goes on with another, at once and without a list; the last one standing has
    everything in the end, and what was said is not worse than info."""
    server, kubeconfig, mounts = servers
    with running(server, tmp_path, kubeconfig, mounts=mounts) as daemon:
        left = list(HOSTS)
        while len(left) > 1:
            host = host_of(server, server.open_watches()[0])
            left.remove(host)
            since = len(server.requests)
            with without_waiting(daemon):
                server.stop_host(host)
                server.wait(lambda: len(server.open_watches(since)) == 4)
            assert host_of(server, server.open_watches(since)[0]) in left
            assert not server.lists(since=since)
            prove_watches(server)
        change_arrives(server)
        for host in set(HOSTS) - set(left):  # and back to one that was away
            server.start_host(host)
        since = len(server.requests)
        with without_waiting(daemon):
            server.stop_host(left[0])
            server.wait(lambda: len(server.open_watches(since)) == 4)
        assert not daemon.lines(" (warn|error) ")


# What comes is not what was asked for


def test_a_broken_gzip_body_is_said_and_asked_for_again(server, tmp_path, monkeypatch):
    whole = gzip.compress
    broken = {"cut": lambda body, level: whole(body, level)[:-200],
              "garbage": lambda body, level: whole(body, level)[:500] + b"\xff" * 5000}
    server.api.streaming = "refused"  # watches never come compressed
    notes = {"padding": "x" * 1000}
    services = [service(f"s{number}", f"10.96.1.{number}") for number in range(200)]
    for one in services:
        one["metadata"]["annotations"] = notes
    server.put(*services)
    for how, compress in broken.items():
        monkeypatch.setattr(answers.gzip, "compress", compress)
        with Daemon(tmp_path, server.kubeconfig(tmp_path / "kubeconfig"), environment=NO_PROXIES) as daemon:
            server.wait(lambda: daemon.lines("cannot list services: "))
            assert not table(), how
            monkeypatch.setattr(answers.gzip, "compress", whole)
            since = len(server.requests)
            server.wait(lambda: WEB in table())
            assert server.asked("services", watch=False, since=since)
            assert len(daemon.lines("cannot list services: ")) == 1
        subprocess.run(["nft", "flush", "ruleset"], check=True)


class Simpleton:
    """Answers whatever comes with @answer, and closes."""

    def __init__(self, answer):
        self.answer = answer
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        with contextlib.suppress(OSError):
            while True:
                with self.listener.accept()[0] as client, contextlib.suppress(OSError):
                    client.recv(65536)
                    client.sendall(self.answer)
                    client.shutdown(socket.SHUT_WR)
                    while client.recv(65536):
                        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


RECORDED = (b"HTTP/1.0 400 Bad Request\r\n\r\n"  # recording 133
            b"Client sent an HTTP request to an HTTPS server.\n")


@pytest.mark.parametrize("scheme, answer, said", [
    ("https", b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", "is not a TLS server .plain http"),
    ("https", b"SSH-2.0-whatever\r\n", "is not a TLS server"),
    ("http", RECORDED, "Client sent an HTTP request to an HTTPS server"),
    ("http", b"\x15\x03\x01\x00\x02\x02\x16", "is not an HTTP server .https"),
])
def test_the_wrong_protocol_is_named(tmp_path, certs, scheme, answer, said):
    with own_network(), Simpleton(answer) as other:
        url = f"{scheme}://127.0.0.1:{other.port}"
        ca = {"certificate-authority": certs / "ca.crt"}  # this host may have none
        kubeconfig = pki.write_kubeconfig(tmp_path / "kubeconfig", url, ca, {"token": "a-token"})
        with Daemon(tmp_path, kubeconfig, environment=NO_PROXIES) as daemon:
            apiserver.ApiServer.wait(lambda: daemon.lines(f"cannot list services.*{said}"))
            time.sleep(2)  # a retry at least
            [line] = daemon.lines("cannot list services")
            assert scheme == "http" or url in line


def test_old_tls_is_refused(tmp_path, certs):
    """TLS 1.1 is the newest that this server has."""
    with own_network():
        command = ["openssl", "s_server", "-accept", "127.0.0.1:7443", "-cert", certs / "server.crt",
                   "-key", certs / "server.key", "-tls1_1", "-cipher", "ALL:@SECLEVEL=0", "-www"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as old:
            ca = {"certificate-authority": certs / "ca.crt"}
            path = pki.write_kubeconfig(tmp_path / "kubeconfig", "https://127.0.0.1:7443", ca, {})
            with Daemon(tmp_path, path, environment=NO_PROXIES) as daemon:
                apiserver.ApiServer.wait(lambda: daemon.lines("cannot list services: .*(protocol|version)"))
            old.kill()


# Secrets


def test_no_secret_is_logged(server, tmp_path, certs):
    """Neither token nor key, however much is said, whatever goes wrong."""
    token = tmp_path / "token"
    token.write_text("very-secret-token")
    server.api.tokens = {"very-secret-token": apiserver.USER}
    shutil.copy(certs / "client.key", tmp_path / "mine.key")
    user = {"tokenFile": token, "client-certificate": certs / "client.crt", "client-key": tmp_path / "mine.key"}
    kubeconfig = server.kubeconfig(tmp_path / "kubeconfig", user=user)
    with running(server, tmp_path, kubeconfig, "-v", "9") as daemon:
        server.api.tokens = {}
        token.write_text("very-secret-token two")  # no token, and so the last good one stays in use
        key = (tmp_path / "mine.key").read_text()
        (tmp_path / "mine.key").write_text(key[:-10])
        since = end_watch(server, "endpointslices", "services")
        server.wait(lambda: daemon.lines("endpointslices.*401") and daemon.lines("services.*401"))
        assert server.requests[since].headers["authorization"] == "Bearer very-secret-token"
        log = daemon.log()
        assert "very-secret-token" not in log and "Bearer" not in log
        assert not any(line in log for line in key.splitlines() if len(line) > 20 and "-----" not in line)
