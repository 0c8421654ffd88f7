"""What a response of upstream, or a line of an agent's output, says about capacity.

`classify` goes through rules, the user's (`answer_rules`) and then the built-in ones
(`builtin_rules`). What comes out is a signal. When a refusal ends is read by `retry_after` and
`clock_times`; what else may be wrong upstream (a wrong key, no such model) is in `failures`.
"""
