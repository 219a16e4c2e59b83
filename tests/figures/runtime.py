"""The least that a client of Lambda's Runtime API can be: fetches an event, has handler.py handle it, posts the answer, again and again."""

import http.client
import json
import os

from handler import handler

connection = http.client.HTTPConnection(os.environ["AWS_LAMBDA_RUNTIME_API"])
BASE = "/2018-06-01/runtime/invocation"
while True:
    connection.request("GET", f"{BASE}/next")
    response = connection.getresponse()
    event = response.read()
    answer = json.dumps(handler(json.loads(event), None))
    connection.request("POST", f"{BASE}/{response.headers['Lambda-Runtime-Aws-Request-Id']}/response", answer)
    connection.getresponse().read()
