"""The requests that rows of the authorization matrix send, and the refusals that are inside an answer."""

from typing import Any

HELLO = {"messages": [{"role": "user", "content": "hello"}]}
FORGED = {"messages": [{"role": "user", "content": "forged"}]}
NOW: dict[str, Any] = {"assistant_id": "agent", "input": HELLO}
LATER: dict[str, Any] = {**NOW, "after_seconds": 3600}
YEARLY: dict[str, Any] = {**NOW, "schedule": "0 0 1 1 *", "end_time": "2999-01-01T00:00:00Z"}
SUPERSTEPS = [{"updates": [{"values": FORGED, "as_node": "__input__"}]}]
STUDIO_PAGE, OTHER_PAGE = {"origin": "https://smith.langchain.com"}, {"origin": "https://example.com"}
UPGRADE = {"connection": "Upgrade", "upgrade": "websocket", "sec-websocket-version": "13", "sec-websocket-key": "A" * 22 + "=="}
CHANNELS = ["values", "messages", "updates", "lifecycle"]

# Where the answer has begun when the platform asks who may see it, the refusal is in the answer.
NO_RUN = '{"__error__":{"error":"HTTPException","message":"404: Run not found"}}'
NO_RUN_EVENT = 'event: error\r\ndata: {"error":"HTTPException","message":"404: Run not found"}\r\n\r\n'
NO_THREAD_EVENT = 'event: error\r\ndata: {"error":"HTTPException","message":"404: Thread not found"}\r\n\r\n'
NO_THREAD_REPLY = '{"type":"error","id":1,"error":"unknown_error","message":"404: Thread or assistant not found."}'
NO_INTERRUPT = '{"type":"error","id":1,"error":"no_such_run","message":"No interrupted run is bound to this thread."}'
NO_TASK = '{"jsonrpc":"2.0","id":"1","error":{"code":-32001,"message":"Task not found: <thread>:<run>"}}'


NO_TASK_THERE = NO_TASK.replace("<thread>:<run>", "<run> in context '<thread>'")
NO_CONTEXT = (
    '{"jsonrpc":"2.0","id":"1","error":{"code":-32602,"message":"Thread \'<thread>\' not found. Please create the thread'
    ' first before sending messages to it.","data":{"thread_id":"<thread>","error_type":"thread_not_found"}}}'
)
NO_CONTEXT_EVENT = (
    'event: message\r\ndata: {"jsonrpc":"2.0","id":"1","error":{"code":-32603,"message":"Internal server error"}}\r\n\r\n'
)


def rpc(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": "1", "method": method, "params": params}


def a2a_message(**more: str) -> dict[str, Any]:
    return {"role": "user", "kind": "message", "messageId": "1", "parts": [{"kind": "text", "text": "hello"}], **more}


def command(method: str, **params: Any) -> dict[str, Any]:
    return {"id": 1, "method": method, "params": params}
