"""A server that says things back, and one tool of it asks for a form first."""

import json
import sys

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
FORM = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [
    {"name": "echo", "description": "Say it back.", "inputSchema": TEXT},
    {"name": "book", "description": "Book it.", "inputSchema": {"type": "object", "properties": {}}},
]
booking = None


def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def say(number, said):
    send(id=number, result={"content": [{"type": "text", "text": said}]})


for line in sys.stdin:
    message = json.loads(line)
    number, method = message.get("id"), message.get("method")
    if method == "initialize":
        version = message["params"]["protocolVersion"]
        about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "notes", "version": "1"}}
        send(id=number, result={"protocolVersion": version, **about})
    elif method == "tools/list":
        send(id=number, result={"tools": TOOLS})
    elif method == "tools/call" and message["params"]["name"] == "echo":
        say(number, message["params"]["arguments"]["text"])
    elif method == "tools/call":
        booking = number
        asked = {"message": "Where to?", "requestedSchema": FORM}
        send(id="form", method="elicitation/create", params=asked)
    elif method is None and number == "form":
        say(booking, json.dumps(message.get("result", "refused")))
    elif number is not None and method is not None:
        send(id=number, error={"code": -32601, "message": "unknown"})
