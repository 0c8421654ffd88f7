"""What the verbs share: opening the gate, drawing on a terminal, the options of a job."""
