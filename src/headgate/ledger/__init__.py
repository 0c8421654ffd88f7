"""The transactions: rules applied to rows, whatever the store.

    transaction    an open transaction: its rows, its pools, its count of seats
    learning       what upstream answered, applied to pools
    release        seats given back, tickets taken out of the line
    jobs           what becomes of a job
    admission      seats asked for, the line settled; the same as a dry run
    queries        status, capacity, queue, why, positions and ETAs. Nothing there writes

They decide and write. Who runs them, how often and in which thread is up to the layers above.
"""
