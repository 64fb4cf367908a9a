#!/usr/bin/env python3
"""unreliable.py ADDRESS SEED: an S3 service as bad as one may be, in front of the one at ADDRESS.

Says its port, and passes requests on until it is killed. Of some it does one of these: refuses them
for now, does them and says that it could not, does them and breaks off the answer, does them twice
at once, does them once more seconds later, answers late.
"""
import http.client
import random
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

upstream = urlsplit(sys.argv[1])
chances = random.Random(int(sys.argv[2]))
HOP_BY_HOP = {"connection", "expect", "content-length", "transfer-encoding"}


class Unreliable(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def pass_on(self, body):
        connection = http.client.HTTPConnection(upstream.hostname, upstream.port, timeout=60)
        connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in HOP_BY_HOP or name.lower() == "content-length":
                connection.putheader(name, value)
        connection.endheaders(body or None)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer.status, answer.getheaders(), content

    def answer(self, status, headers, content, length=None):
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in HOP_BY_HOP:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[:length])

    def refuse(self):
        status = chances.choice([409, 429, 500, 503])
        self.answer(status, [], b"<Error><Code>NotNow</Code></Error>")

    def do(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        what = chances.random()
        if what < 0.04:
            return self.refuse()
        answer = self.pass_on(body)
        changes = self.command in ("PUT", "DELETE")
        if what < 0.08:
            return self.refuse()
        if what < 0.12:
            self.close_connection = True
            return self.answer(*answer, length=len(answer[2]) // 2) if answer[2] else None
        if changes and what < 0.2:
            answer = self.pass_on(body)
        elif changes and what < 0.3:
            threading.Timer(chances.choice([0.02, 0.3, 2]), self.pass_on, [body]).start()
        elif what < 0.35:
            time.sleep(0.2)
        return self.answer(*answer)

    do_GET = do_PUT = do_DELETE = do


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        pass  # the client is gone


server = Server(("127.0.0.1", 0), Unreliable)
print(server.server_port, flush=True)
server.serve_forever()
