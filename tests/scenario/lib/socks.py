"""A small SOCKS5 proxy: CONNECT without authentication, by name or address. It records the requested addresses."""
import socket
import struct
import threading

NO_AUTHENTICATION = 0
CONNECT = 1
IPV4, NAME, IPV6 = 1, 3, 4


class Refused(Exception):
    pass


class SocksProxy:
    """with SocksProxy() as proxy: proxy.url, proxy.asked: [("localhost", 6443), …]. Names are resolved here."""

    def __init__(self):
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"socks5://127.0.0.1:{self._listener.getsockname()[1]}"
        self.asked = []

    def __enter__(self):
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self._listener.close()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        try:
            with client, self._connect(client) as server:
                back = threading.Thread(target=_pump, args=(server, client), daemon=True)
                back.start()
                _pump(client, server)
                back.join()
        except (OSError, Refused):
            pass

    def _connect(self, client):
        version, n_methods = _read(client, 2)
        if version != 5 or NO_AUTHENTICATION not in _read(client, n_methods):
            raise Refused
        client.sendall(bytes([5, NO_AUTHENTICATION]))
        version, command, _, kind = _read(client, 4)
        if version != 5 or command != CONNECT:
            raise Refused
        host = _host(client, kind)
        (port,) = struct.unpack("!H", _read(client, 2))
        self.asked.append((host, port))
        server = socket.create_connection((host, port))
        client.sendall(bytes([5, 0, 0, IPV4]) + bytes(6))
        return server


def _host(client, kind):
    if kind == NAME:
        return _read(client, _read(client, 1)[0]).decode()
    return socket.inet_ntop(*{IPV4: (socket.AF_INET, _read(client, 4))}[kind])


def _read(one, n):
    data = b""
    while len(data) < n:
        piece = one.recv(n - len(data))
        if not piece:
            raise Refused
        data += piece
    return data


def _pump(source, target):
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass
