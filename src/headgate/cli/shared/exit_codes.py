"""What the exit codes of `headgate` mean; `docs/reference.md` shows them.

A test compares them with those of the errors and of the verbs.
"""

EXIT_CODES = {
    "0": "It worked. For `capacity`: there is room. For `run`: the program ended with 0.",
    "1": "`wait`: a job has ended and was not done. `doctor`: there is a problem.",
    "2": "What was asked for makes no sense, or the configuration has mistakes. "
    "Nothing was started or changed.",
    "75": "There is no room now: `capacity`, and `run --no-wait`.",
    "124": "It took too long: `run --wait`, and `wait --timeout`.",
    "125": "headgate itself failed, or its store did. The message on stderr says what to do. "
    "`notify test`: a target could not be told.",
    "126": "`run` and `probe`: the program is there, but cannot be started.",
    "127": "`run` and `probe`: there is no such program.",
    "128+n": "`run`: signal n ended the program. Or headgate itself was ended: "
    "130 by Ctrl-C, 141 because nobody read its output any more.",
}
"""`run` ends with the exit code of its program, whatever that is, if it was started."""
