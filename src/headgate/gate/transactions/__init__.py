"""Group commit: operations wait in a queue, one thread runs them in as few transactions as it can.

operation           what is wanted inside a transaction, and who has a say in every one
background_thread   sleeps until something happens
group_commit        the queue, the transaction, and what follows a commit
deliver_outcomes    how whoever asked hears of it
done                how a thread waits for an outcome
prefetch            what a far store is asked for beforehand
"""
