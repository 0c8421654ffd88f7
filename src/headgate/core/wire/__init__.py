"""What a request and its answer on the wire say. Values in, values out; the bytes pass elsewhere.

apis                which API a request speaks, whether it takes a seat, which key it counts under
request_body        which model a request is for, read from its JSON body as it passes
json_fields         a few fields of a JSON object, read as its bytes pass
task_identity       whose request it is
answer              an answer as it passes: how it ends, its tokens, its signal
answer_events       what the events of an answer say
server_sent_events  the events of a stream, taken apart only where they matter
websocket_frames    the text messages in one direction of a WebSocket
tool_calls          the tools that an answer has the agent call
token_usage         how many tokens an answer took
told_limits         what headers say of rates and quotas
keepalive           what keeps a client waiting while its request stands in the line
refusals            refusals of headgate's own, written as the provider would write them
upstream_errors     errors of upstream's, as the last event of a stream that has begun
content_decoding    bodies that were compressed, decoded bit by bit
"""
