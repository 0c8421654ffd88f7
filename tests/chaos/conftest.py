"""What the storms have counted is shown at the end of a run."""

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for reports in (terminalreporter.stats.get(word, []) for word in ("passed", "failed")):
        for report in reports:
            for name, text in getattr(report, "user_properties", []):
                if name == "storm":
                    terminalreporter.write_line(text)
