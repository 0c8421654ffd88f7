"""The transactions: rules applied to rows, whatever the store.

rows        one row type per table, and `Tx`: what a store's open transaction can do
ledger      an open transaction with its book of pools, its count of seats and its clock reading
admit       ask for seats, settle the line, hand seats to the next
leave       give seats back, leave the line, bury the dead
learn       what upstream answers: limits cut and raised
upstream    what upstream counts, when it is closed, and who else is there
outlook     all of that, brought into the count
metering    requests and tokens per minute
tune        limits, cooldowns, pauses
jobs        durable work: handed in, granted to a worker, begun, finished, picked up
jobtime     what time and trouble do to it
hands       what people do to it
look        status, capacity, queue, why; joblook, the same for jobs; plan, what would be let in
notices     how far those who are told of events have come
strain      why a machine takes no more

Nothing here waits, sleeps or looks at a clock: a transaction begins with the time it is given.
"""
