#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""A stand-in for kube-apiserver: Services, EndpointSlices, ServiceCIDRs and Nodes over TLS.

In a test:
    server = ApiServer(folder)          # certificates are made in the folder
    server.start()                      # runs in a thread of its own, on 127.0.0.1
    server.put({"kind": "Service", ...})
    server.close_watches("reset")       # and other faults, see below
    server.requests                     # everything that was asked

By hand:
    apiserver.py --manifests objects.json --port 0 --certs /tmp/certs
prints the address and a kubeconfig to use, and follows the file until SIGTERM.

store.py has the objects, answers.py the answers, wire.py HTTP. The data is shared by no locks:
whatever is called here is done by the server's own thread.
"""

import argparse
import asyncio
import copy
import functools
import json
import pathlib
import signal
import ssl
import sys
import threading
import time
import weakref

import answers
import pki
import store as storage
import wire
import writes

USER = "system:kube-proxy"


class ApiServer:
    """Methods may be called from any thread but the server's. Settings of the answers (denied,
    hidden, page_limit, bookmark_interval, future_wait) are in .api; they may be set at any time."""

    def __init__(self, certs, port=0, token="a-token", history=1000, hosts=("127.0.0.1",)):
        self.certs = pki.make(certs)
        self.port = port
        self.hosts = hosts  # the addresses to listen on, all on one port
        self.token = token
        self.store = storage.Store(history)
        self.api = answers.Api(self.store)
        self.api.tokens[token] = USER
        self.api.events = writes.Events()
        self.api.patch_node = writes.patch_node
        self.requests = []
        self.accepted = 0  # TCP connections, also those whose TLS handshake failed
        self.connections = set()
        self.flow = wire.Flow()
        self.http2 = True  # whether the next start() offers it
        self.chosen = []  # the address that each of the accepted connections came to
        self._listeners = {}  # by address
        self._hosts = weakref.WeakKeyDictionary()  # of connections' writers
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True, name="apiserver")
        self._thread.start()
        self._ready.wait()

    # Life

    def _run(self):
        asyncio.set_event_loop(self._loop)
        self._loop.call_soon(self._ready.set)
        self._loop.run_forever()

    def call(self, function, *arguments):
        """Runs @function in the server's thread and returns what it returns."""
        async def run():
            result = function(*arguments)
            return await result if asyncio.iscoroutine(result) else result
        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(30)

    @property
    def url(self):
        return f"https://{self.hosts[0]}:{self.port}"

    def start(self, fresh_history=False):
        """Listens; after stop() on the same port again, with the same objects. With @fresh_history
        every resourceVersion that it gave out before is too old."""
        if fresh_history:
            self.expire_history()
        self.call(self._listen)
        return self

    def stop(self, how="kill"):
        """Stops listening and ends all connections: "kill" like a killed process, "clean" with
        whole bodies and an orderly end of TLS. Objects can be changed meanwhile."""
        self.call(self._unlisten)
        if how == "clean":
            self.call(self._leave)
            self.wait(self._watches_ended)
        for connection in tuple(self.connections):
            self.call(connection.close if how == "clean" else connection.abort)
        self.wait(lambda: not self.connections)

    def close(self):
        """The end: stops, and ends the thread."""
        self.stop()
        wire.end(self._loop, self._thread)

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.close()

    def _tls(self):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self.certs / "server.crt", self.certs / "server.key")
        context.load_verify_locations(self.certs / "ca.crt")
        context.verify_mode = ssl.CERT_OPTIONAL  # asks for a client certificate, does without
        context.set_alpn_protocols(["h2", "http/1.1"] if self.http2 else ["http/1.1"])
        return context

    def _protocol(self, host):
        self.accepted += 1
        self.chosen.append(host)
        return wire.Protocol(functools.partial(self._connected, host))

    async def _connected(self, host, reader, writer):
        if host not in self._listeners:  # it was in its TLS handshake
            writer.transport.abort()
            return
        self._hosts[writer] = host
        await wire.serve_connection(reader, writer, self.flow, self.api.handle, self.requests,
                                    self.connections)

    async def _listen(self):
        for host in self.hosts:
            await self._listen_on(host)

    async def _listen_on(self, host):
        listener = self._listeners[host] = await self._loop.create_server(
            functools.partial(self._protocol, host), host, self.port, ssl=self._tls(), reuse_address=True,
            ssl_shutdown_timeout=0.2)
        self.port = listener.sockets[0].getsockname()[1]

    def _unlisten(self):
        for host in tuple(self._listeners):
            self._unlisten_on(host)

    def _unlisten_on(self, host):
        self._listeners.pop(host).close()

    def start_host(self, host):
        """Listens on one of the addresses again."""
        self.call(self._listen_on, host)

    def stop_host(self, host):
        """Stops listening on one of the addresses and ends its connections, like a killed process."""
        self.call(self._unlisten_on, host)
        for connection in self.connections_to(host):
            self.call(connection.abort)
        self.wait(lambda: not self.connections_to(host))

    def connections_to(self, host):
        return [connection for connection in tuple(self.connections)
                if self._hosts[connection.writer] == host]

    def _leave(self):
        """Clients watch again at once, on connections that are still open: they get no answer."""
        for connection in self.connections:
            connection.leave()

    def _watches_ended(self):
        """Ends also those that were asked for before, but are open only now."""
        self.close_watches("clean")
        return not self.api.watches

    # Objects

    def put(self, *objects):
        """Creates or replaces each; returns the last as stored."""
        for obj in objects:
            stored = copy.deepcopy(self.call(self.store.put, obj))
        return stored

    def delete(self, kind, namespace, name):
        self.call(self.store.delete, kind, namespace, name)

    def apply(self, objects):
        """Makes @objects all there is."""
        objects = list(objects)
        wanted = {(obj["kind"], self.put(obj)["metadata"].get("namespace"), obj["metadata"]["name"])
                  for obj in objects}
        for kind, known in self.store.objects.items():
            for obj in tuple(known.values()):
                meta = obj["metadata"]
                if (kind, meta.get("namespace"), meta["name"]) not in wanted:
                    self.delete(kind, meta.get("namespace"), meta["name"])

    def advance(self):
        """Moves the resourceVersion as a change of some other kind of object would."""
        self.call(self.store.advance)

    def bookmark(self):
        """Sends bookmarks now, if they are new to the watch."""
        self.call(self._tell_watches, answers.Api.BOOKMARK)

    def expire_history(self):
        """No resourceVersion and no continue token given out so far is good any more."""
        self.call(self.store.expire)

    def backup(self):
        return self.call(self.store.backup)

    def restore(self, backup=None, *objects):
        """The store goes back to @backup, or is emptied, and gets @objects before anybody sees it; a server that is
        not stopped ends its watches."""
        def go_back():
            self.store.restore(backup)
            for obj in objects:
                self.store.put(obj)
        self.call(go_back)
        self.close_watches("clean")

    # Faults

    def _tell_watches(self, what):
        for watch in self.api.watches:
            watch.queue.put_nowait(what)

    def close_watches(self, how="clean"):
        """Ends all open watches: "clean" with the last chunk, "reset" with a TCP reset of their
        connections, "mid-event" by half of the next event and then no more."""
        if how == "clean":
            self.call(self._tell_watches, answers.Api.END)
            return
        watches = tuple(self.api.watches)
        if how == "mid-event":
            for watch in watches:
                watch.cut_next = (watch.exchange.connection,)
        elif how == "reset":
            for connection in {watch.exchange.connection for watch in watches}:
                self.call(connection.reset)
        else:
            raise ValueError(how)

    def refuse_connections(self):
        """New connections are refused; open ones live on."""
        self.call(self._unlisten)

    def accept_connections(self):
        self.call(self._listen)

    def answer_next(self, count, status, retry_after=None, when=lambda request: True):
        """The next @count requests that @when accepts get @status; 0 is no answer but the end of
        the connection."""
        self.api.scripts.append(answers.Script(count, when, status, retry_after))

    def error_next(self, count, code, when=lambda request: True):
        """The next @count watches that @when accepts get 200 and one ERROR event of @code."""
        self.api.scripts.append(answers.Script(
            count, lambda request: request.watch and when(request), code, event=True))

    def cut_next(self, count, events, when=lambda request: True):
        """The next @count watches that @when accepts end cleanly after the first @events of the
        events that they begin with, a streamed list before its end mark."""
        self.api.scripts.append(answers.Script(
            count, lambda request: request.watch and when(request), cut=events))

    def hold(self, when=lambda request: True):
        """Requests that @when accepts get no answer, until release(). What is open goes on."""
        self.api.held.append(when)

    def release(self):
        self.api.held.clear()

    def forbid_for(self, seconds):
        """403 for everybody, as from a server that has just started and does not know yet who has
        which rights."""
        self.api.forbidden_until = time.monotonic() + seconds

    def goaway(self):
        """GOAWAY on all HTTP/2 connections: open watches go on, new requests there get nothing."""
        for connection in tuple(self.connections):
            if isinstance(connection, wire.Http2Connection):
                self.call(connection.goodbye)

    def restart(self, how="kill"):
        """Ends what is open while new connections are served at once, as when one of several
        servers behind an address restarts: "kill" like a killed process, "clean" with GOAWAY and
        whole bodies, "reset" by TCP resets, "mid-event" as soon as there is an event, after half
        of it."""
        connections, watches = self.call(self._all_open)
        if how == "mid-event":
            for watch in watches:
                watch.cut_next = connections
            return
        if how == "clean":
            self.call(self._end_in_order, connections, watches)
            self.wait(lambda: not self.api.watches & watches)
        end = {"clean": "close", "kill": "abort", "reset": "reset"}[how]
        self.call(lambda: [getattr(connection, end)() for connection in connections])

    def _all_open(self):
        connections = tuple(self.connections)
        return connections, {watch for watch in self.api.watches
                             if watch.exchange.connection in connections}

    @staticmethod
    def _end_in_order(connections, watches):
        for connection in connections:
            connection.leave()
        for watch in watches:
            watch.queue.put_nowait(answers.Api.END)

    def stall(self):
        """Nothing is answered and nothing sent, connections stay open."""
        self.call(self.flow.open.clear)

    def go_on(self):
        self.call(self.flow.open.set)

    def drip(self, size=1):
        """Bodies come in chunks of @size bytes; 0 ends that."""
        self.flow.drip = size

    # For assertions

    @staticmethod
    def wait(condition, timeout=20.0):
        """Waits until @condition is true and returns its value; fails after @timeout seconds. Looks less often the
        longer it takes: a look may start programs."""
        begin = time.monotonic()
        while not (value := condition()):
            waited = time.monotonic() - begin
            if waited > timeout:
                raise AssertionError(f"not within {timeout} s: {condition.__qualname__}")
            time.sleep(min(0.1, max(0.005, waited / 4)))
        return value

    def asked(self, plural=None, watch=None, since=0):
        """The logged requests for @plural from number @since on; only watches or only others."""
        return [request for request in self.requests[since:]
                if (plural is None or request.path.split("/")[-1] == plural)
                and (watch is None or request.watch == watch)]

    def lists(self, plural=None, since=0):
        """The logged requests for lists, without those for the server's version alone."""
        return [request for request in self.asked(plural, False, since) if request.query.get("limit") != "1"]

    def events(self, reason=None):
        """The Events that were posted, or those with @reason."""
        return [event for event in tuple(self.api.events.stored.values()) if reason in (None, event["reason"])]

    def written(self, method, plural):
        """The logged requests with @method for @plural."""
        return [request for request in self.requests
                if request.method == method and plural in request.path.split("/")]

    def open_watches(self, since=0):
        """The requests of the watches that are open, of those logged from number @since on."""
        later = self.requests[since:]
        watches = [watch.exchange.request for watch in tuple(self.api.watches)]
        return [request for request in watches if any(request is other for other in later)]

    def kubeconfig(self, path=None, user=None, cluster=None, url=None):
        """Writes a kubeconfig (with CA file, token and own address unless told otherwise), returns its
        path."""
        cluster = cluster or {"certificate-authority": self.certs / "ca.crt"}
        user = {"token": self.token} if user is None else user
        return pki.write_kubeconfig(path or self.certs / "kubeconfig", url or self.url, cluster, user)


def load(path):
    """The objects of a JSON file: a List, an array or one object, as kubectl get -o json writes."""
    value = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    if isinstance(value, dict):
        value = value["items"] if "items" in value else [value]
    return [obj for obj in value if obj.get("kind") in storage.BY_KIND]


def follow(server, path, stopped):
    """Applies @path, and again whenever it changes, until @stopped is set."""
    seen = None
    while not stopped.is_set():
        try:
            stamp = path.stat().st_mtime_ns
            if stamp != seen:
                server.apply(load(path))
                seen = stamp
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            print(f"{path}: {error}", file=sys.stderr)
            if seen is None:
                return 1
        stopped.wait(0.3)
    return 0


def main():
    parser = argparse.ArgumentParser(description="A stand-in kube-apiserver for tests.")
    parser.add_argument("--manifests", type=pathlib.Path, required=True, metavar="FILE.json")
    parser.add_argument("--port", type=int, default=0, help="0: any free one")
    parser.add_argument("--certs", type=pathlib.Path, required=True, metavar="DIR",
                        help="where certificates, token and kubeconfig are written")
    arguments = parser.parse_args()
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    with ApiServer(arguments.certs.absolute(), arguments.port) as server:
        (server.certs / "token").write_text(server.token)
        path = server.kubeconfig(user={"tokenFile": server.certs / "token"})
        print(f"listening on {server.url} kubeconfig={path}", flush=True)
        return follow(server, arguments.manifests, stopped)


if __name__ == "__main__":
    sys.exit(main())
